//! Estimates the maximum cost of evaluating a rule from the schema alone, in cel-go's units.
//!
//! The estimate is part of the API: it decides which rules a definition may hold, so its rules and even its oddities
//! (what a loop over a literal knows about its items) are the same as in cel-go's checker. One unit is about 50 ns.
//! Only upper bounds are kept; lower bounds are needed only for sizes.

use std::collections::HashMap;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use kube_cel::cel;

use super::call_cost_estimate::{self, CallArgument, EstimatedCall};
use super::check::CheckedExpression;
use super::expand::variable_of_form;
use super::size::SizeRange;
use super::types::{CelType, DeclaredShape, DeclaredType};

/// The fixed prices for reading a name or field, making a list, and making a map.
pub(super) const READ: u64 = 1;
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;

/// Steps from the value of a rule to a part of it. The first step only names the variable.
type ExpressionPath = Vec<String>;

/// Returns the maximum cost of a checked expression. `root` is the type of `self`.
pub(super) fn estimate(expr: &IdedExpr, checked: &CheckedExpression, root: &DeclaredType) -> u64 {
    let mut estimate = CostEstimator {
        checked,
        root,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        variables: Vec::new(),
    };
    estimate.cost(expr)
}

/// The sizes of the elements of a list or map.
#[derive(Clone, Copy)]
pub(super) struct EntrySizes {
    is_list: bool,
    keys: SizeRange,
    values: SizeRange,
}

impl EntrySizes {
    fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, keys: self.keys.or(other.keys), values: self.values.or(other.values) }
    }
}

struct CostVariable {
    name: String,
    path: ExpressionPath,
    size: Option<SizeRange>,
    entries: Option<EntrySizes>,
}

struct CostEstimator<'a> {
    checked: &'a CheckedExpression,
    root: &'a DeclaredType,
    paths: HashMap<u64, ExpressionPath>,
    sizes: HashMap<u64, SizeRange>,
    entries: HashMap<u64, EntrySizes>,
    variables: Vec<CostVariable>,
}

impl CostEstimator<'_> {
    fn cost(&mut self, node: &IdedExpr) -> u64 {
        match &node.expr {
            Expr::Ident(name) => {
                let path =
                    self.variable(name).map_or_else(|| vec![name.clone()], |variable| variable.path.clone());
                self.paths.insert(node.id, path);
                READ
            }
            Expr::Select(select) if select.test => self.cost(&select.operand),
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(node.id, path);
                let is_read =
                    matches!(self.checked.type_of(&select.operand), CelType::Map(..) | CelType::Object(_));
                operand.saturating_add(if is_read { READ } else { 0 })
            }
            Expr::Call(call) => match (variable_of_form(call), &call.target, &*call.args) {
                (Some(variable), Some(target), [_, body]) => self.form(call, variable, target, body),
                _ => self.call(node, call),
            },
            Expr::List(list) => self.list(node, &list.elements),
            Expr::Map(map) => self.map(node, map.entries.iter().map(|entry| &entry.expr)),
            Expr::Comprehension(fold) => self.comprehension(node, fold),
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => 0,
        }
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> u64 {
        if let ("dyn", [argument]) = (&*call.func_name, &*call.args) {
            let cost = self.cost(argument);
            self.copy_sizes(node, argument);
            return cost.saturating_add(READ);
        }
        let costs: Vec<_> = call.args.iter().map(|argument| self.cost(argument)).collect();
        let arguments: Vec<_> = call.args.iter().map(|argument| self.node(argument)).collect();
        let overloads = self.checked.overloads_of(node);
        // A function of a namespace has no receiver: `sets.contains(a, b)`.
        let receiver = call.target.as_ref().filter(|target| self.checked.is_known(target));
        let receiver_cost = receiver.map_or(0, |target| self.cost(target));
        let receiver = receiver.map(|target| self.node(target));
        let mut most = 0;
        let mut result = None;
        for overload in overloads {
            let question = EstimatedCall {
                function: &call.func_name,
                overload,
                receiver: receiver.as_ref(),
                arguments: &arguments,
                costs: &costs,
            };
            let answer = call_cost_estimate::estimate(&question, &|path| self.size_at(path));
            most = most.max(answer.cost);
            result = match (result, answer.size) {
                (Some(before), Some(size)) => Some(SizeRange::or(before, size)),
                (before, size) => before.or(size),
            };
            result = self.follow(node, call, overload).or(result);
            self.note_entries(node, overload, &call.args);
            if result.is_none() {
                result = self.size(node);
            }
        }
        if let Some(size) = result {
            self.sizes.insert(node.id, size);
        }
        receiver_cost.saturating_add(most)
    }

    /// Records the path of an indexed part.
    fn follow(&mut self, node: &IdedExpr, call: &CallExpr, overload: &str) -> Option<SizeRange> {
        let step = match overload {
            "index_list" => "@items",
            "index_map" => "@values",
            _ => return None,
        };
        let indexed = call.args.first()?;
        let mut path = self.path(indexed);
        path.push(step.to_owned());
        self.paths.insert(node.id, path);
        self.entries_of(indexed).map(|entries| entries.values)
    }

    fn note_entries(&mut self, node: &IdedExpr, overload: &str, arguments: &[IdedExpr]) {
        let (("conditional", [_, left, right]) | ("add_list", [left, right])) = (overload, arguments) else {
            return;
        };
        if let (Some(left), Some(right)) = (self.entries_of(left), self.entries_of(right)) {
            self.entries.insert(node.id, right.or(left));
        }
    }

    fn list(&mut self, node: &IdedExpr, elements: &[IdedExpr]) -> u64 {
        let mut sum = LIST;
        let mut values = None;
        for element in elements {
            sum = sum.saturating_add(self.cost(element));
            let size = self.size_or_unknown(element);
            values = Some(values.map_or(size, |before: SizeRange| before.or(size)));
        }
        let values = values.unwrap_or(SizeRange::exactly(0));
        self.entries.insert(node.id, EntrySizes { is_list: true, keys: SizeRange::exactly(1), values });
        sum
    }

    fn map<'e>(&mut self, node: &IdedExpr, entries: impl Iterator<Item = &'e EntryExpr>) -> u64 {
        let mut sum = MAP;
        let mut sizes: Option<EntrySizes> = None;
        for entry in entries {
            let EntryExpr::MapEntry(entry) = entry else { continue };
            sum = sum.saturating_add(self.cost(&entry.key)).saturating_add(self.cost(&entry.value));
            let keys = self.size_or_unknown(&entry.key);
            let one = EntrySizes { is_list: false, keys, values: self.size_or_unknown(&entry.value) };
            sizes = Some(sizes.map_or(one, |before| before.or(one)));
        }
        let empty = EntrySizes { is_list: false, keys: SizeRange::exactly(0), values: SizeRange::exactly(0) };
        self.entries.insert(node.id, sizes.unwrap_or(empty));
        sum
    }

    fn comprehension(&mut self, node: &IdedExpr, fold: &ComprehensionExpr) -> u64 {
        let mut sum = self.cost(&fold.iter_range).saturating_add(self.cost(&fold.accu_init));
        let depth = self.variables.len();
        self.bind_value(&fold.accu_var, &fold.accu_init);
        self.bind_iteration(fold);
        let round = self.cost(&fold.loop_cond).saturating_add(self.cost(&fold.loop_step));
        self.variables.truncate(depth + 1);
        sum = sum.saturating_add(self.cost(&fold.result));
        self.variables.truncate(depth);
        let rounds = self.size_or_unknown(&fold.iter_range);
        match &fold.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&fold.accu_init) {
                    self.sizes.insert(node.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(node.id, rounds);
                if let Some(entries) = self.entries_of(&fold.loop_step) {
                    self.entries.insert(node.id, entries);
                }
            }
            _ => {}
        }
        sum.saturating_add(rounds.max.saturating_mul(round))
    }

    /// Estimates `optMap`, `optFlatMap` and `sortBy` at the cost of the expressions that cel-go expands them to.
    fn form(&mut self, call: &CallExpr, variable: &str, target: &IdedExpr, body: &IdedExpr) -> u64 {
        let target_cost = self.cost(target);
        let is_sort = call.func_name == "sortBy";
        let mut path = if is_sort { self.path(target) } else { ExpressionPath::new() };
        if is_sort {
            path.push("@items".to_owned());
        }
        self.variables.push(CostVariable { name: variable.to_owned(), path, size: None, entries: None });
        let body_cost = self.cost(body);
        self.variables.pop();
        if is_sort {
            // One list for the binding, one for the keys, and per item a list of one that is added to it.
            let round = body_cost.saturating_add(LIST + 2 * READ);
            let rounds = self.size_or_unknown(target).max.saturating_mul(round);
            return rounds.saturating_add(target_cost).saturating_add(2 * LIST + 4 * READ);
        }
        // Whether there is a value, the value, and the result; the target is evaluated for both.
        let sum = target_cost.saturating_mul(2).saturating_add(body_cost);
        sum.saturating_add(LIST + 3 * READ)
    }

    fn bind_value(&mut self, name: &str, value: &IdedExpr) {
        let variable = CostVariable {
            name: name.to_owned(),
            path: self.path(value),
            size: self.size(value),
            entries: self.entries_of(value),
        };
        self.variables.push(variable);
    }

    fn bind_iteration(&mut self, fold: &ComprehensionExpr) {
        let entries = self.entries_of(&fold.iter_range);
        let is_list = entries.map_or_else(
            || matches!(self.checked.type_of(&fold.iter_range), CelType::List(_)),
            |entries| entries.is_list,
        );
        let path = self.path(&fold.iter_range);
        let keys = entries.map(|entries| entries.keys);
        let values = entries.map(|entries| entries.values);
        let (key_step, value_step) = if is_list { ("@indices", "@items") } else { ("@keys", "@values") };
        let mut bind = |name: &str, step: &str, size| {
            let mut path = path.clone();
            path.push(step.to_owned());
            self.variables.push(CostVariable { name: name.to_owned(), path, size, entries: None });
        };
        match &fold.iter_var2 {
            Some(second) => {
                bind(&fold.iter_var, key_step, keys);
                bind(second, value_step, values);
            }
            None if is_list => bind(&fold.iter_var, value_step, values),
            None => bind(&fold.iter_var, key_step, keys),
        }
    }

    fn variable(&self, name: &str) -> Option<&CostVariable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    fn node(&mut self, node: &IdedExpr) -> CallArgument {
        let number = match &node.expr {
            Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).ok(),
            _ => None,
        };
        let kind = self.checked.type_of(node).clone();
        CallArgument { path: self.path(node), kind, size: self.size(node), number }
    }

    fn path(&self, node: &IdedExpr) -> ExpressionPath {
        if let Expr::Ident(name) = &node.expr
            && let Some(variable) = self.variable(name)
        {
            return variable.path.clone();
        }
        self.paths.get(&node.id).cloned().unwrap_or_default()
    }

    fn copy_sizes(&mut self, to: &IdedExpr, from: &IdedExpr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn size_or_unknown(&mut self, node: &IdedExpr) -> SizeRange {
        self.size(node).unwrap_or(SizeRange::UNKNOWN)
    }

    fn size(&mut self, node: &IdedExpr) -> Option<SizeRange> {
        if let Some(size) = self.sizes.get(&node.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(&node.expr) {
            return Some(size);
        }
        if let Some(size) = self.size_at(&self.path(node)) {
            self.sizes.insert(node.id, size);
            return Some(size);
        }
        if self.checked.type_of(node).is_scalar() {
            return Some(SizeRange::exactly(1));
        }
        match &node.expr {
            Expr::Ident(name) => self.variable(name)?.size,
            _ => None,
        }
    }

    /// Returns the size that the schema specifies for the value at a path.
    fn size_at(&self, path: &[String]) -> Option<SizeRange> {
        let (_, steps) = path.split_first()?;
        let mut at = self.root;
        for step in steps {
            at = match (&at.shape, &**step) {
                (DeclaredShape::List(of) | DeclaredShape::Map(of), "@items" | "@values") => of,
                // Only the size of the request bounds keys, and the estimate assumes that they are short.
                (DeclaredShape::Map(_), "@keys") => return Some(SizeRange::up_to(0)),
                (DeclaredShape::Object(fields), field) => fields.get(field)?,
                _ => return None,
            };
        }
        Some(SizeRange::up_to(at.elements_max))
    }

    fn entries_of(&self, node: &IdedExpr) -> Option<EntrySizes> {
        if let Some(entries) = self.entries.get(&node.id) {
            return Some(*entries);
        }
        match &node.expr {
            Expr::Ident(name) => self.variable(name)?.entries,
            _ => None,
        }
    }
}

/// Returns the size of a literal.
fn written_size(expr: &Expr) -> Option<SizeRange> {
    let size = match expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len(),
        Expr::Map(map) => map.entries.len(),
        _ => return None,
    };
    Some(SizeRange::exactly(size as u64))
}
