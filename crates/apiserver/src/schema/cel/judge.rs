//! What the rules of a schema say about an object: every rule at every place it stands for, in Kubernetes' order.
//!
//! Rules see an old value only where it can be found again: fields by name, items of lists by their keys. What was
//! wrong before and did not change is not held against an update. Everything together has one budget.

use std::collections::HashMap;

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::eval::{CALL_COST_MAX, Evaluation, Failure};
use super::lists::Lists;
use super::program::{Compiled, Node, Program};
use super::value::{convert, optional, part};
use crate::field::{Error, Errors, Kind, Path};

/// What judging one object may cost, as in Kubernetes, and the work it may take. A unit of work takes 10 to 40 ns in an
/// optimised build, whatever the rule does (loops, concatenation, calls of the library, comparison), so that no object
/// takes longer than a second. Of some 150 hostile rules tried, the longest took a quarter of one.
const COST_BUDGET: u64 = 10_000_000;
pub(super) const WORK_BUDGET: u64 = 20_000_000;

/// The longest message an expression may make, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Why judging ends before all rules were seen. The complaint is made already, or there is no room for more.
struct Exhausted;

/// A value with what it was before.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path<'a>,
    new: &'a Value,
    /// The old value, where it can be found again.
    old: Option<&'a Value>,
    /// Is the nearest place above whose old value can be found again unchanged? `None` where the old one is here.
    unchanged_above: Option<bool>,
}

/// Judges an object against the rules of its schema.
pub(super) fn judge(root: &Node, new: &Value, old: Option<&Value>) -> Errors {
    let mut judge = Judge {
        errors: Errors::new(),
        cost: COST_BUDGET,
        work: WORK_BUDGET,
        is_update: old.is_some(),
        lists: Lists::default(),
    };
    let place = Place { path: &Path::Root, new, old, unchanged_above: None };
    let _ = judge.node(root, place, None, None);
    judge.errors
}

/// What judging several values may still cost together.
pub(super) struct Budget {
    cost: u64,
    work: u64,
    /// Did it not suffice? Then nothing more is to be judged.
    pub(super) is_spent: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { cost: COST_BUDGET, work: WORK_BUDGET, is_spent: false }
    }
}

/// Judges a default, as its own successor and then as a new value. Of the two the dearer is paid.
pub(super) fn judge_default(node: &Node, default: &Value, path: &Path<'_>, budget: &mut Budget) -> Errors {
    let cost = budget.cost;
    for old in [Some(default), None] {
        let lists = Lists::default();
        let mut judge = Judge { errors: Errors::new(), cost, work: budget.work, is_update: false, lists };
        let place = Place { path, new: default, old, unchanged_above: None };
        budget.is_spent = judge.node(node, place, None, None).is_err();
        (budget.cost, budget.work) = (budget.cost.min(judge.cost), judge.work);
        if !judge.errors.is_empty() {
            return judge.errors;
        }
    }
    Errors::new()
}

struct Judge {
    errors: Errors,
    /// What may still be spent.
    cost: u64,
    work: u64,
    is_update: bool,
    /// The sets and maps among the lists of the object.
    lists: Lists,
}

impl Judge {
    /// Judges a value and everything in it. `this` and `before` are its values in CEL, where a place above has them.
    fn node(
        &mut self,
        node: &Node,
        place: Place<'_>,
        this: Option<Cel>,
        before: Option<Cel>,
    ) -> Result<(), Exhausted> {
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
        node: &Node,
        place: Place<'_>,
        (name, field): (&str, &Value),
        (this, before): (Option<&Cel>, Option<&Cel>),
    ) -> Result<(), Exhausted> {
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
        node: &Node,
        place: Place<'_>,
        items: &[Value],
        (this, before): (Option<&Cel>, Option<&Cel>),
    ) -> Result<(), Exhausted> {
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
        above: Place<'b>,
        path: &'b Path<'b>,
        new: &'b Value,
        old: Option<&'b Value>,
    ) -> Place<'b> {
        let unchanged_above = match (self.is_update, old, above.unchanged_above) {
            (false, ..) | (_, Some(_), _) => None,
            (true, None, Some(above)) => Some(above),
            (true, None, None) => Some(above.old == Some(above.new)),
        };
        Place { path, new, old, unchanged_above }
    }

    fn rule(
        &mut self,
        node: &Node,
        rule: &Compiled,
        place: Place<'_>,
        this: &Cel,
        before: Option<&Cel>,
    ) -> Result<(), Exhausted> {
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
            Err(Failure::Error(message)) => {
                self.stopped(node, place, &failed(&message, rule));
                Ok(())
            }
            Err(Failure::Limit) if self.cost == 0 => {
                let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.stopped(node, place, detail);
                Err(Exhausted)
            }
            Err(Failure::Limit) => {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due \
                     to call cost exceeds limit for rule: {}",
                    name_of(rule)
                );
                self.stopped(node, place, &detail);
                Err(Exhausted)
            }
        }
    }

    /// Evaluates on the budget; what is left is nothing when it does not suffice.
    fn evaluate(&mut self, program: &Program, this: &Cel, before: Option<Cel>) -> Result<Cel, Failure> {
        let lists = std::mem::take(&mut self.lists);
        let mut evaluation = Evaluation::new(program, (this.clone(), before), self.work, lists);
        let outcome = evaluation.run();
        self.work = evaluation.work;
        self.lists = evaluation.lists;
        let Some(left) = self.cost.checked_sub(evaluation.cost.min(CALL_COST_MAX)) else {
            self.cost = 0;
            return Err(Failure::Limit);
        };
        self.cost = left;
        outcome
    }

    /// A rule does not hold.
    fn broken(
        &mut self,
        node: &Node,
        rule: &Compiled,
        place: Place<'_>,
        this: &Cel,
        before: Option<Cel>,
    ) -> Result<(), Exhausted> {
        let uses_old_self = rule.program.as_ref().is_ok_and(|program| program.uses_old_self);
        if self.is_update && !uses_old_self && is_unchanged(place) {
            return Ok(());
        }
        if self.errors.is_full() {
            return Err(Exhausted);
        }
        let said = match &rule.message {
            None => None,
            Some(program) => match self.evaluate(program, this, before) {
                Ok(Cel::String(text)) => usable(&text),
                Err(Failure::Limit) => {
                    let detail = "messageExpression evaluation failed due to running out of cost budget";
                    self.stopped(node, place, detail);
                    return Err(Exhausted);
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

    /// A rule could not be evaluated: its value is named by its type.
    fn stopped(&mut self, node: &Node, place: Place<'_>, detail: &str) {
        let body = format!("Invalid value: \"{}\": {detail}", node.kind);
        self.errors.push(Error { kind: Kind::Invalid, field: shown(place.path.to_string()), body });
    }
}

fn failed(message: &str, rule: &Compiled) -> String {
    if message.starts_with("no such overload") {
        return format!(
            "'{message}': call arguments did not match a supported operator, function or macro signature for rule: {}",
            name_of(rule)
        );
    }
    format!("{message} evaluating rule: {}", name_of(rule))
}

/// The message of a rule, or else its text.
fn name_of(rule: &Compiled) -> &str {
    match rule.rule.message.trim() {
        "" => rule.rule.text.trim(),
        message => message,
    }
}

/// A message that is not empty, not too long and on one line.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    let is_usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains(['\n', '\r']);
    is_usable.then(|| text.to_owned())
}

fn is_unchanged(place: Place<'_>) -> bool {
    place.unchanged_above.unwrap_or_else(|| place.old == Some(place.new))
}

/// The path of a rule below its place: `.a.b`, or `['a']` for a name with dots, as Kubernetes prints it.
fn normal_path(base: &Path<'_>, field_path: &str) -> String {
    let path = field_path.trim().replace("['", "[").replace("']", "]");
    match base {
        Path::Root => path.trim_start_matches('.').to_owned(),
        _ => path,
    }
}

fn cause(field: String, reason: Option<&str>, value: &Value, message: &str) -> Error {
    let shown_value = match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => format!("{scalar}: "),
    };
    let (kind, body) = match reason {
        Some("FieldValueForbidden") => (Kind::Forbidden, format!("Forbidden: {message}")),
        Some("FieldValueRequired") => (Kind::Required, format!("Required value: {message}")),
        Some("FieldValueDuplicate") => (Kind::Duplicate, format!("Duplicate value: {shown_value}{message}")),
        _ => (Kind::Invalid, format!("Invalid value: {shown_value}{message}")),
    };
    Error { kind, field: shown(field), body }
}

fn shown(field: String) -> String {
    if field.is_empty() { "<nil>".to_owned() } else { field }
}

/// Old items by the values of their keys, with their place.
fn by_keys<'a>(node: &Node, old: Option<&'a Value>) -> HashMap<String, (usize, &'a Value)> {
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
