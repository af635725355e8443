//! Type-checks a rule against the type of its value: cel-go's type checker over the schema's types.
//!
//! The errors are cel-go's, with its wording and positions. The types of all parts of the expression and the possible
//! overloads of its calls are kept, because the cost estimate needs both. A rule that Kubernetes accepts is never
//! rejected: an expression this checker does not know is `dyn`.

use std::collections::HashMap;
use std::fmt::Write as _;

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, SelectExpr, operators,
};
use kube_cel::cel;

use super::expand::{origin, variable_of_form};
use super::overloads::{Overload, VARIABLES, overloads_of};
use super::source::{SourcePositions, error_text};
use super::types::{CelType, DeclaredShape};
use super::unify::{TypeBindings, most_general, same};

/// The result of checking an expression without errors.
#[derive(Debug)]
pub(super) struct CheckedExpression {
    /// The type of its value.
    pub(super) result: CelType,
    pub(super) uses_old_self: bool,
    types: HashMap<u64, CelType>,
    overloads: HashMap<u64, Vec<&'static str>>,
}

impl CheckedExpression {
    pub(super) fn type_of(&self, node: &IdedExpr) -> &CelType {
        self.types.get(&node.id).unwrap_or(&CelType::Dyn)
    }

    /// Returns whether the checker visited a node: it does not visit namespace names.
    pub(super) fn is_known(&self, node: &IdedExpr) -> bool {
        self.types.contains_key(&node.id)
    }

    /// Returns the ids of the overloads that a call may take.
    pub(super) fn overloads_of(&self, node: &IdedExpr) -> &[&'static str] {
        self.overloads.get(&node.id).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Checks an expression over `self` and `oldSelf`; the error is cel-go's message. `text` is the source of the
/// expression.
pub(super) fn check(
    expr: &IdedExpr,
    text: &str,
    this: &CelType,
    old: &CelType,
) -> Result<CheckedExpression, String> {
    check_in(expr, text, vec![("self".to_owned(), this.clone()), ("oldSelf".to_owned(), old.clone())])
}

/// Checks an expression over these variables.
pub(super) fn check_in(
    expr: &IdedExpr,
    text: &str,
    scope: Vec<(String, CelType)>,
) -> Result<CheckedExpression, String> {
    let mut checker = TypeChecker {
        scope,
        bindings: TypeBindings::default(),
        types: HashMap::new(),
        overloads: HashMap::new(),
        faults: Vec::new(),
        uses_old_self: false,
    };
    let result = checker.check(expr);
    if !checker.faults.is_empty() {
        return Err(report(checker.faults, text));
    }
    let TypeChecker { bindings, mut types, overloads, uses_old_self, .. } = checker;
    for kind in types.values_mut() {
        *kind = bindings.resolve_fully(kind);
    }
    Ok(CheckedExpression { result: bindings.resolve_fully(&result), uses_old_self, types, overloads })
}

fn report(faults: Vec<(u64, String)>, text: &str) -> String {
    let places = SourcePositions::of(text);
    let mut faults: Vec<_> =
        faults.into_iter().map(|(id, message)| (places.of_part(origin(id)), message)).collect();
    faults.sort_by_key(|(offset, _)| *offset);
    let mut report = String::new();
    for (at, (offset, message)) in faults.iter().enumerate() {
        let separator = if at == 0 { "" } else { "\n" };
        let _ = write!(report, "{separator}{}", error_text(text, *offset, message));
    }
    report
}

struct TypeChecker {
    /// Variables in scope, innermost last.
    scope: Vec<(String, CelType)>,
    bindings: TypeBindings,
    types: HashMap<u64, CelType>,
    overloads: HashMap<u64, Vec<&'static str>>,
    faults: Vec<(u64, String)>,
    uses_old_self: bool,
}

impl TypeChecker {
    fn check(&mut self, node: &IdedExpr) -> CelType {
        let found = match &node.expr {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.ident(node.id, name),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(node.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(object) => self.undeclared(node.id, &object.type_name),
            Expr::Comprehension(fold) => self.comprehension(fold),
            Expr::Unspecified => CelType::Dyn,
        };
        self.types.insert(node.id, found.clone());
        found
    }

    fn fault(&mut self, id: u64, message: String) -> CelType {
        self.faults.push((id, message));
        CelType::Error
    }

    fn undeclared(&mut self, id: u64, name: &str) -> CelType {
        self.fault(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn ident(&mut self, id: u64, name: &str) -> CelType {
        if let Some((_, kind)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            self.uses_old_self |= name == "oldSelf";
            return kind.clone();
        }
        type_named(name).unwrap_or_else(|| self.undeclared(id, name))
    }

    fn select(&mut self, node: &IdedExpr, select: &SelectExpr) -> CelType {
        if !select.test
            && let Some(name) = qualified_name(node)
            && let Some(kind) = self.qualified_variable(&name).or_else(|| type_named(&name))
        {
            return kind;
        }
        let found = self.field(node.id, &select.operand, &select.field, false);
        if select.test { CelType::Bool } else { found }
    }

    /// Returns the type of a variable whose name contains a dot.
    fn qualified_variable(&self, name: &str) -> Option<CelType> {
        self.scope.iter().find(|(known, _)| known == name).map(|(_, kind)| kind.clone())
    }

    fn field(&mut self, id: u64, operand: &IdedExpr, field: &str, optional: bool) -> CelType {
        let operand = self.check(operand);
        let (target, was_optional) = unwrap_optional(self.bindings.resolve(&operand));
        let found = match &target {
            CelType::Map(_, value) => CelType::clone(value),
            CelType::Object(declared) => match &declared.shape {
                // A reserved word may be written unescaped after a dot.
                DeclaredShape::Object(fields) => {
                    match fields.get(field).or_else(|| fields.get(&format!("__{field}__"))) {
                        Some(declared) => declared.type_of(),
                        None => self.fault(id, format!("undefined field '{field}'")),
                    }
                }
                _ => CelType::Dyn,
            },
            CelType::Variable(_) => {
                self.bindings.try_assign(&CelType::Dyn, &target);
                CelType::Dyn
            }
            CelType::Dyn | CelType::Error => CelType::Dyn,
            // These have functions but no fields; cel-go does not find their declaration.
            CelType::Library(name) => self.fault(id, format!("unexpected failed resolution of '{name}'")),
            other => {
                self.fault(id, format!("type '{other}' does not support field selection"));
                CelType::Dyn
            }
        };
        if was_optional || optional { CelType::optional(found) } else { found }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> CelType {
        if let (operators::OPT_SELECT, [operand, field]) = (&*call.func_name, &*call.args)
            && let Expr::Literal(LiteralValue::String(name)) = &field.expr
        {
            self.overloads.insert(id, vec!["select_optional_field"]);
            return self.field(id, operand, name.inner(), true);
        }
        if let (Some(variable), Some(target), [_, body]) = (variable_of_form(call), &call.target, &*call.args)
        {
            return self.form(id, &call.func_name, target, variable, body);
        }
        let mut arguments: Vec<_> = call.args.iter().map(|argument| self.check(argument)).collect();
        let Some(target) = &call.target else {
            return match overloads_of(&call.func_name) {
                Some(overloads) => {
                    self.resolve(id, &call.func_name, overloads, &arguments, false, &call.args)
                }
                None => self.undeclared(id, &call.func_name),
            };
        };
        if let Some(prefix) = qualified_name(target) {
            let name = format!("{prefix}.{}", call.func_name);
            if let Some(overloads) = overloads_of(&name) {
                return self.resolve(id, &name, overloads, &arguments, false, &call.args);
            }
        }
        let receiver = self.check(target);
        arguments.insert(0, receiver);
        match overloads_of(&call.func_name) {
            Some(overloads) => self.resolve(id, &call.func_name, overloads, &arguments, true, &call.args),
            None => self.undeclared(id, &call.func_name),
        }
    }

    fn resolve(
        &mut self,
        id: u64,
        name: &str,
        overloads: &'static [Overload],
        arguments: &[CelType],
        is_member: bool,
        nodes: &[IdedExpr],
    ) -> CelType {
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            self.overloads.insert(id, vec![overloads[0].id]);
            return self.logical(arguments, nodes);
        }
        let mut found: Option<CelType> = None;
        let mut ids = Vec::new();
        for overload in overloads.iter().filter(|one| one.is_member == is_member) {
            let Some(result) = self.try_overload(overload, arguments) else { continue };
            ids.push(overload.id);
            found = Some(match found {
                Some(before) if !same(&before, &result) => CelType::Dyn,
                Some(before) => before,
                None => result,
            });
        }
        self.overloads.insert(id, ids);
        found.unwrap_or_else(|| {
            let arguments: Vec<_> =
                arguments.iter().map(|kind| self.bindings.resolve_fully(kind).to_string()).collect();
            let signature = match (is_member, &*arguments) {
                (true, [receiver, rest @ ..]) => format!("{receiver}.({})", rest.join(", ")),
                (_, all) => format!("({})", all.join(", ")),
            };
            self.fault(id, format!("found no matching overload for '{name}' applied to '{signature}'"))
        })
    }

    fn logical(&mut self, arguments: &[CelType], nodes: &[IdedExpr]) -> CelType {
        let mut result = CelType::Bool;
        for (kind, node) in arguments.iter().zip(nodes) {
            if !self.bindings.try_assign(kind, &CelType::Bool) {
                let kind = self.bindings.resolve(kind);
                result = self.fault(node.id, format!("expected type 'bool' but found '{kind}'"));
            }
        }
        result
    }

    /// Returns the result of a call with this overload, if the arguments match.
    fn try_overload(&mut self, overload: &Overload, arguments: &[CelType]) -> Option<CelType> {
        if overload.arguments.len() != arguments.len() {
            return None;
        }
        let variables: [CelType; VARIABLES] = std::array::from_fn(|_| self.bindings.fresh());
        let wanted: Vec<_> = overload.arguments.iter().map(|kind| instantiate(kind, &variables)).collect();
        let fits = self.bindings.try_assign_all(arguments.iter().zip(&wanted));
        fits.then(|| self.bindings.resolve(&instantiate(&overload.result, &variables)))
    }

    /// Checks `optMap`, `optFlatMap` and `sortBy`.
    fn form(&mut self, id: u64, name: &str, target: &IdedExpr, variable: &str, body: &IdedExpr) -> CelType {
        let receiver = self.check(target);
        let receiver = self.bindings.resolve(&receiver);
        let element = match (&receiver, name) {
            (CelType::List(of), "sortBy") | (CelType::Optional(of), "optMap" | "optFlatMap") => {
                CelType::clone(of)
            }
            (CelType::Dyn | CelType::Error | CelType::Variable(_), _) => CelType::Dyn,
            (other, _) => {
                let message = format!("found no matching overload for '{name}' applied to '{other}.()'");
                self.fault(id, message)
            }
        };
        self.scope.push((variable.to_owned(), element));
        let result = self.check(body);
        self.scope.pop();
        match name {
            "sortBy" => receiver,
            "optMap" => CelType::optional(result),
            _ => result,
        }
    }

    fn list(&mut self, list: &ListExpr) -> CelType {
        let mut items = None;
        for (at, element) in list.elements.iter().enumerate() {
            let mut kind = self.check(element);
            if list.optional_indices.contains(&at) {
                kind = self.optional_element(element.id, &kind);
            }
            items = Some(self.join(element.id, items, kind));
        }
        CelType::list(items.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn map<'a>(&mut self, entries: impl Iterator<Item = &'a EntryExpr>) -> CelType {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let EntryExpr::MapEntry(entry) = entry else { continue };
            let key = self.check(&entry.key);
            keys = Some(self.join(entry.key.id, keys, key));
            let mut value = self.check(&entry.value);
            if entry.optional {
                value = self.optional_element(entry.value.id, &value);
            }
            values = Some(self.join(entry.value.id, values, value));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        let value = values.unwrap_or_else(|| self.bindings.fresh());
        CelType::map(key, value)
    }

    fn optional_element(&mut self, id: u64, kind: &CelType) -> CelType {
        match unwrap_optional(self.bindings.resolve(kind)) {
            (kind, true) | (kind @ (CelType::Dyn | CelType::Error | CelType::Variable(_)), false) => kind,
            (kind, false) => {
                self.fault(id, format!("expected type 'optional_type({kind})' but found '{kind}'"));
                kind
            }
        }
    }

    /// Returns the common type of elements.
    fn join(&mut self, id: u64, before: Option<CelType>, next: CelType) -> CelType {
        let Some(before) = before else { return next };
        if self.bindings.try_assign(&before, &next) {
            return most_general(before, next);
        }
        let (before, next) = (self.bindings.resolve(&before), self.bindings.resolve(&next));
        self.fault(id, format!("expected type '{before}' but found '{next}'"))
    }

    fn comprehension(&mut self, fold: &ComprehensionExpr) -> CelType {
        let range = self.check(&fold.iter_range);
        let collected = self.check(&fold.accu_init);
        let range = self.bindings.resolve(&range);
        let depth = self.scope.len();
        self.scope.push((fold.accu_var.clone(), collected.clone()));
        let (first, second) = self.iteration(fold, &range);
        if let Some(name) = &fold.iter_var2 {
            self.scope.push((fold.iter_var.clone(), first));
            self.scope.push((name.clone(), second));
        } else {
            let is_list = matches!(range, CelType::List(_));
            self.scope.push((fold.iter_var.clone(), if is_list { second } else { first }));
        }
        let condition = self.check(&fold.loop_cond);
        self.expect(&fold.loop_cond, &CelType::Bool, &condition);
        let step = self.check(&fold.loop_step);
        self.expect(&fold.loop_step, &collected, &step);
        self.scope.truncate(depth + 1);
        let result = self.check(&fold.result);
        self.scope.truncate(depth);
        self.bindings.resolve(&result)
    }

    /// Returns the types of key (or index) and value.
    fn iteration(&mut self, fold: &ComprehensionExpr, range: &CelType) -> (CelType, CelType) {
        match range {
            CelType::List(of) => (CelType::Int, CelType::clone(of)),
            CelType::Map(key, value) => (CelType::clone(key), CelType::clone(value)),
            CelType::Dyn | CelType::Error | CelType::Variable(_) => {
                self.bindings.try_assign(&CelType::Dyn, range);
                (CelType::Dyn, CelType::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fault(fold.iter_range.id, message);
                (CelType::Error, CelType::Error)
            }
        }
    }

    fn expect(&mut self, node: &IdedExpr, wanted: &CelType, found: &CelType) {
        if !self.bindings.try_assign(wanted, found) {
            let (wanted, found) = (self.bindings.resolve(wanted), self.bindings.resolve(found));
            self.fault(node.id, format!("expected type '{wanted}' but found '{found}'"));
        }
    }
}

fn instantiate(kind: &CelType, variables: &[CelType; VARIABLES]) -> CelType {
    match kind {
        CelType::Variable(at) => variables[*at].clone(),
        CelType::List(of) => CelType::list(instantiate(of, variables)),
        CelType::Optional(of) => CelType::optional(instantiate(of, variables)),
        CelType::Meta(of) => CelType::Meta(instantiate(of, variables).into()),
        CelType::Map(key, value) => CelType::map(instantiate(key, variables), instantiate(value, variables)),
        other => other.clone(),
    }
}

fn unwrap_optional(kind: CelType) -> (CelType, bool) {
    match kind {
        CelType::Optional(of) => (CelType::clone(&of), true),
        other => (other, false),
    }
}

fn literal_type(literal: &LiteralValue) -> CelType {
    match literal {
        LiteralValue::Boolean(_) => CelType::Bool,
        LiteralValue::Bytes(_) => CelType::Bytes,
        LiteralValue::Double(_) => CelType::Double,
        LiteralValue::Int(_) => CelType::Int,
        LiteralValue::Null => CelType::Null,
        LiteralValue::String(_) => CelType::String,
        LiteralValue::UInt(_) => CelType::Uint,
    }
}

/// Returns `a.b.c` if the expression consists only of names.
pub(super) fn qualified_name(node: &IdedExpr) -> Option<String> {
    match &node.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified_name(&select.operand)?, select.field))
        }
        _ => None,
    }
}

/// Returns the type that a name stands for, as in `type(self) == string`.
fn type_named(name: &str) -> Option<CelType> {
    let kind = match name {
        "null_type" => CelType::Null,
        "list" => CelType::list(CelType::Dyn),
        "map" => CelType::map(CelType::Dyn, CelType::Dyn),
        "type"
        | "dyn"
        | "optional_type"
        | "kubernetes.URL"
        | "kubernetes.Quantity"
        | "kubernetes.Semver"
        | "net.IP"
        | "net.CIDR" => CelType::Dyn,
        "google.protobuf.Timestamp" => CelType::Timestamp,
        "google.protobuf.Duration" => CelType::Duration,
        word => CelType::primitive(word)?,
    };
    Some(CelType::Meta(kind.into()))
}
