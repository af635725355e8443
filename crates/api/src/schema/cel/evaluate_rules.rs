//! Evaluates the rules of a schema on an object: every rule on every value it applies to, in Kubernetes' order.
//!
//! Rules see an old value only where it can be matched: fields by name, list items by their keys. Errors that already
//! existed in an unchanged value do not fail an update. All rules of an object share one budget.

use std::collections::HashMap;

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::cost_limits::EVALUATION_COST_MAX;
use super::eval::{Evaluation, EvaluationFailure};
use super::lists::TypedLists;
use super::program::{CompiledRule, CompiledSchema, Program};
use super::value::{convert, optional, part};
use crate::field::{Error, ErrorType, Errors, FieldPath};

/// The maximum cost of evaluating one object, as in Kubernetes, and the maximum work. A unit of work takes 10 to 40 ns
/// in an optimised build for any rule (loops, concatenation, library calls, comparison), so that no object takes longer
/// than a second. Of about 150 hostile rules tried, the slowest took a quarter of a second.
const COST_BUDGET: u64 = 10_000_000;
pub(super) const WORK_BUDGET: u64 = 20_000_000;

/// The maximum length of a message that an expression produces, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Evaluation stopped before all rules were evaluated. The error is already reported, or there is no room for more.
struct RuleBudgetExhausted;

/// A value with its old value.
#[derive(Clone, Copy)]
struct ValueWithOld<'a> {
    path: &'a FieldPath<'a>,
    new: &'a Value,
    /// The old value, if it can be matched.
    old: Option<&'a Value>,
    /// Whether the nearest ancestor with a matched old value is unchanged. `None` if this value itself is matched.
    unchanged_above: Option<bool>,
}

/// Evaluates the rules of a schema on an object.
pub(super) fn evaluate_rules(root: &CompiledSchema, new: &Value, old: Option<&Value>) -> Errors {
    let mut evaluator = RuleEvaluator {
        errors: Errors::new(),
        cost: COST_BUDGET,
        work: WORK_BUDGET,
        is_update: old.is_some(),
        lists: TypedLists::default(),
    };
    let place = ValueWithOld { path: &FieldPath::Root, new, old, unchanged_above: None };
    let _ = evaluator.node(root, place, None, None);
    evaluator.errors
}

/// The budget that several values share.
pub(super) struct RuleBudget {
    cost: u64,
    work: u64,
    /// Whether the budget was exceeded. If so, nothing more is evaluated.
    pub(super) is_spent: bool,
}

impl Default for RuleBudget {
    fn default() -> Self {
        Self { cost: COST_BUDGET, work: WORK_BUDGET, is_spent: false }
    }
}

/// Evaluates a default as its own replacement and then as a new value. The more expensive of the two is charged.
pub(super) fn evaluate_default(
    node: &CompiledSchema,
    default: &Value,
    path: &FieldPath<'_>,
    budget: &mut RuleBudget,
) -> Errors {
    let cost = budget.cost;
    for old in [Some(default), None] {
        let lists = TypedLists::default();
        let mut evaluator =
            RuleEvaluator { errors: Errors::new(), cost, work: budget.work, is_update: false, lists };
        let place = ValueWithOld { path, new: default, old, unchanged_above: None };
        budget.is_spent = evaluator.node(node, place, None, None).is_err();
        (budget.cost, budget.work) = (budget.cost.min(evaluator.cost), evaluator.work);
        if !evaluator.errors.is_empty() {
            return evaluator.errors;
        }
    }
    Errors::new()
}

struct RuleEvaluator {
    errors: Errors,
    /// The cost that is left.
    cost: u64,
    work: u64,
    is_update: bool,
    /// The lists of the object that are sets or maps.
    lists: TypedLists,
}

impl RuleEvaluator {
    /// Evaluates a value and everything in it. `this` and `before` are its CEL values, if an ancestor has them.
    fn node(
        &mut self,
        node: &CompiledSchema,
        place: ValueWithOld<'_>,
        this: Option<Cel>,
        before: Option<Cel>,
    ) -> Result<(), RuleBudgetExhausted> {
        if !node.has_rules || place.new.is_null() {
            return Ok(());
        }
        let (mut this, mut before) = (this, before);
        if !node.rules.is_empty() {
            let lists = &mut self.lists;
            let current = this.get_or_insert_with(|| convert(place.new, Some(node), lists)).clone();
            if before.is_none() {
                before = place.old.filter(|old| !old.is_null()).map(|old| convert(old, Some(node), lists));
            }
            for rule in &node.rules {
                self.rule(node, rule, place, &current, before.as_ref())?;
            }
        }
        match place.new {
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.field(node, place, (name, field), (this.as_ref(), before.as_ref()))?;
                }
                Ok(())
            }
            Value::Array(items) => self.items(node, place, items, (this.as_ref(), before.as_ref())),
            _ => Ok(()),
        }
    }

    fn field(
        &mut self,
        node: &CompiledSchema,
        place: ValueWithOld<'_>,
        (name, field): (&str, &Value),
        (this, before): (Option<&Cel>, Option<&Cel>),
    ) -> Result<(), RuleBudgetExhausted> {
        let Some(child) = node.child(name).filter(|child| child.has_rules) else { return Ok(()) };
        let is_named = node.properties.contains_key(name);
        let path = if is_named { place.path.field(name) } else { place.path.key(name) };
        let old = place.old.filter(|_| !node.is_atomic).and_then(|old| old.get(name));
        let below = self.below(place, &path, field, old);
        let this = this.and_then(|this| part(this, node, name));
        let before = old.and(before).and_then(|before| part(before, node, name));
        self.node(child, below, this, before)
    }

    fn items(
        &mut self,
        node: &CompiledSchema,
        place: ValueWithOld<'_>,
        items: &[Value],
        (this, before): (Option<&Cel>, Option<&Cel>),
    ) -> Result<(), RuleBudgetExhausted> {
        let Some(child) = node.items.as_deref().filter(|child| child.has_rules) else { return Ok(()) };
        let old_items = by_keys(node, place.old);
        for (at, item) in items.iter().enumerate() {
            let path = place.path.index(at);
            let found = node.list_keys.as_ref().and_then(|keys| old_items.get(&identity(item, keys)));
            let below = self.below(place, &path, item, found.map(|(_, old)| *old));
            let this = this.and_then(|this| element(this, at));
            let before = found.zip(before).and_then(|((at, _), before)| element(before, *at));
            self.node(child, below, this, before)?;
        }
        Ok(())
    }

    fn below<'b>(
        &self,
        above: ValueWithOld<'b>,
        path: &'b FieldPath<'b>,
        new: &'b Value,
        old: Option<&'b Value>,
    ) -> ValueWithOld<'b> {
        let unchanged_above = match (self.is_update, old, above.unchanged_above) {
            (false, ..) | (_, Some(_), _) => None,
            (true, None, Some(above)) => Some(above),
            (true, None, None) => Some(above.old == Some(above.new)),
        };
        ValueWithOld { path, new, old, unchanged_above }
    }

    fn rule(
        &mut self,
        node: &CompiledSchema,
        rule: &CompiledRule,
        place: ValueWithOld<'_>,
        this: &Cel,
        before: Option<&Cel>,
    ) -> Result<(), RuleBudgetExhausted> {
        let program = match &rule.program {
            Ok(program) => program,
            Err(fault) => {
                self.stopped(node, place, &format!("rule compile error: compilation failed: {fault}"));
                return Ok(());
            }
        };
        let is_optional = rule.rule.optional_old_self == Some(true);
        if program.uses_old_self && before.is_none() && !is_optional {
            return Ok(());
        }
        let before = if is_optional { Some(optional(before.cloned())) } else { before.cloned() };
        match self.evaluate(program, this, before.clone()) {
            Ok(Cel::Bool(true)) => Ok(()),
            Ok(Cel::Bool(false)) => self.broken(node, rule, place, this, before),
            Ok(_) => {
                self.stopped(node, place, &failed("no such overload", rule));
                Ok(())
            }
            Err(EvaluationFailure::Error(message)) => {
                self.stopped(node, place, &failed(&message, rule));
                Ok(())
            }
            Err(EvaluationFailure::Limit) if self.cost == 0 => {
                let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.stopped(node, place, detail);
                Err(RuleBudgetExhausted)
            }
            Err(EvaluationFailure::Limit) => {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due \
                     to call cost exceeds limit for rule: {}",
                    name_of(rule)
                );
                self.stopped(node, place, &detail);
                Err(RuleBudgetExhausted)
            }
        }
    }

    /// Evaluates a program within the budget; uses up the budget if it is too small.
    fn evaluate(
        &mut self,
        program: &Program,
        this: &Cel,
        before: Option<Cel>,
    ) -> Result<Cel, EvaluationFailure> {
        let lists = std::mem::take(&mut self.lists);
        let mut evaluation = Evaluation::new(program, (this.clone(), before), self.work, lists);
        let outcome = evaluation.run();
        self.work = evaluation.work;
        self.lists = evaluation.lists;
        let Some(left) = self.cost.checked_sub(evaluation.cost.min(EVALUATION_COST_MAX)) else {
            self.cost = 0;
            return Err(EvaluationFailure::Limit);
        };
        self.cost = left;
        outcome
    }

    /// Reports a rule that does not hold.
    fn broken(
        &mut self,
        node: &CompiledSchema,
        rule: &CompiledRule,
        place: ValueWithOld<'_>,
        this: &Cel,
        before: Option<Cel>,
    ) -> Result<(), RuleBudgetExhausted> {
        let uses_old_self = rule.program.as_ref().is_ok_and(|program| program.uses_old_self);
        if self.is_update && !uses_old_self && is_unchanged(place) {
            return Ok(());
        }
        if self.errors.is_full() {
            return Err(RuleBudgetExhausted);
        }
        let said = match &rule.message {
            None => None,
            Some(program) => match self.evaluate(program, this, before) {
                Ok(Cel::String(text)) => usable(&text),
                Err(EvaluationFailure::Limit) => {
                    let detail = "messageExpression evaluation failed due to running out of cost budget";
                    self.stopped(node, place, detail);
                    return Err(RuleBudgetExhausted);
                }
                _ => None,
            },
        };
        let message = said.unwrap_or_else(|| match rule.rule.message.trim() {
            "" => format!("failed rule: {}", rule.rule.text.trim()),
            message => message.to_owned(),
        });
        let field = format!("{}{}", place.path, normal_path(place.path, &rule.rule.field_path));
        self.errors.push(cause(field, rule.rule.reason.as_deref(), place.new, &message));
        Ok(())
    }

    /// Reports a rule that could not be evaluated; the error shows the type of its value.
    fn stopped(&mut self, node: &CompiledSchema, place: ValueWithOld<'_>, detail: &str) {
        let body = format!("Invalid value: \"{}\": {detail}", node.kind);
        self.errors.push(Error { kind: ErrorType::Invalid, field: shown(place.path.to_string()), body });
    }
}

fn failed(message: &str, rule: &CompiledRule) -> String {
    if message.starts_with("no such overload") {
        return format!(
            "'{message}': call arguments did not match a supported operator, function or macro signature for rule: {}",
            name_of(rule)
        );
    }
    format!("{message} evaluating rule: {}", name_of(rule))
}

/// Returns the message of a rule, or its text if there is none.
fn name_of(rule: &CompiledRule) -> &str {
    match rule.rule.message.trim() {
        "" => rule.rule.text.trim(),
        message => message,
    }
}

/// Returns a message that is not empty, not too long and on one line.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    let is_usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains(['\n', '\r']);
    is_usable.then(|| text.to_owned())
}

fn is_unchanged(place: ValueWithOld<'_>) -> bool {
    place.unchanged_above.unwrap_or_else(|| place.old == Some(place.new))
}

/// Returns the path of a rule below its value: `.a.b`, or `['a']` for a name with dots, as Kubernetes prints it.
fn normal_path(base: &FieldPath<'_>, field_path: &str) -> String {
    let path = field_path.trim().replace("['", "[").replace("']", "]");
    match base {
        FieldPath::Root => path.trim_start_matches('.').to_owned(),
        _ => path,
    }
}

fn cause(field: String, reason: Option<&str>, value: &Value, message: &str) -> Error {
    let shown_value = match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => format!("{scalar}: "),
    };
    let (kind, body) = match reason {
        Some("FieldValueForbidden") => (ErrorType::Forbidden, format!("Forbidden: {message}")),
        Some("FieldValueRequired") => (ErrorType::Required, format!("Required value: {message}")),
        Some("FieldValueDuplicate") => {
            (ErrorType::Duplicate, format!("Duplicate value: {shown_value}{message}"))
        }
        _ => (ErrorType::Invalid, format!("Invalid value: {shown_value}{message}")),
    };
    Error { kind, field: shown(field), body }
}

fn shown(field: String) -> String {
    if field.is_empty() { "<nil>".to_owned() } else { field }
}

/// Returns old items by the values of their keys, with their indexes.
fn by_keys<'a>(node: &CompiledSchema, old: Option<&'a Value>) -> HashMap<String, (usize, &'a Value)> {
    let (Some(keys), Some(items)) = (&node.list_keys, old.and_then(Value::as_array)) else {
        return HashMap::new();
    };
    items.iter().enumerate().map(|(at, item)| (identity(item, keys), (at, item))).collect()
}

fn identity(item: &Value, keys: &[String]) -> String {
    keys.iter().map(|key| item[key].to_string()).collect::<Vec<_>>().join("\n")
}

fn element(list: &Cel, at: usize) -> Option<Cel> {
    match list {
        Cel::List(items) => items.get(at).cloned(),
        _ => None,
    }
}
