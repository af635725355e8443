//! Evaluates an expression and counts its cost, so that it can be stopped.
//!
//! Two things are counted. The cost is Kubernetes': it decides which objects are rejected and with which message, but
//! one unit may take very different amounts of time. The work is our own measure: every part visited, every element
//! compared or copied. It bounds the time of an evaluation for any rule. Values share their storage, so that reading,
//! binding and collecting copy nothing; calls that are unknown here go to kube-cel's library.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use cel::IdedExpr;
use cel::Value;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, SelectExpr, operators,
};
use cel::objects::{Key, KeyRef};
use kube_cel::cel;

use super::authorizer::{CelAuthorizer, REQUEST_RESOURCE};
use super::check::qualified_name;
use super::cost_estimate::{LIST, MAP, READ};
use super::cost_limits::EVALUATION_COST_MAX;
use super::expand::{MAP_INSERT, variable_of_form};
use super::lists::TypedLists;
use super::program::Program;
use super::value::{as_key, as_optional, map_of, named_type, optional, size_of};

/// The number of compared bytes per unit of work.
const WORK_BYTES: u64 = 64;

/// The number of text bytes that the library reads per unit of work: character by character, up to 2 ns each.
const LIBRARY_BYTES: u64 = 16;

/// The work of passing one value to the library, which visits it several times.
const COPY_WORK: u64 = 5;

/// The reason there is no value.
#[derive(Debug)]
pub(super) enum EvaluationFailure {
    /// The rule cannot be evaluated for this value.
    Error(String),
    /// It costs too much.
    Limit,
}

pub(super) type Outcome = Result<Value, EvaluationFailure>;

pub(super) fn error(message: impl Into<String>) -> EvaluationFailure {
    EvaluationFailure::Error(message.into())
}

fn no_overload() -> EvaluationFailure {
    error("no such overload")
}

/// Returns whether a type stands for a part of the object that a mutation creates, or for an operation of a patch.
fn is_mutation_type(name: &str) -> bool {
    name == "Object" || name.starts_with("Object.") || name == "JSONPatch"
}

/// One evaluation of an expression.
pub(super) struct Evaluation<'a> {
    pub(super) program: &'a Program,
    scope: Vec<(&'a str, Value)>,
    /// The cost so far.
    pub(super) cost: u64,
    /// The work that is left.
    pub(super) work: u64,
    /// The number of text bytes that its calls have produced.
    pub(super) text_made: u64,
    /// The lists that are sets or maps.
    pub(super) lists: TypedLists,
    /// Answers questions about permissions, if the expression may ask any.
    pub(super) authorizer: Option<&'a dyn CelAuthorizer>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        program: &'a Program,
        (this, old): (Value, Option<Value>),
        work: u64,
        lists: TypedLists,
    ) -> Self {
        let old = old.map(|old| ("oldSelf", old));
        let scope = std::iter::once(("self", this)).chain(old).collect();
        Self::with_variables(program, scope, work, lists)
    }

    /// Evaluates with any variables.
    pub(super) fn with_variables(
        program: &'a Program,
        scope: Vec<(&'a str, Value)>,
        work: u64,
        lists: TypedLists,
    ) -> Self {
        Self { program, scope, cost: 0, work, text_made: 0, lists, authorizer: None }
    }

    /// Allows the expression to check permissions.
    pub(super) fn authorized_by(mut self, authorizer: Option<&'a dyn CelAuthorizer>) -> Self {
        self.authorizer = authorizer;
        self
    }

    pub(super) fn run(&mut self) -> Outcome {
        self.eval(&self.program.expr)
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvaluationFailure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > EVALUATION_COST_MAX { Err(EvaluationFailure::Limit) } else { Ok(()) }
    }

    pub(super) fn labour(&mut self, work: u64) -> Result<(), EvaluationFailure> {
        self.work = self.work.checked_sub(work).ok_or(EvaluationFailure::Limit)?;
        Ok(())
    }

    fn eval(&mut self, node: &'a IdedExpr) -> Outcome {
        self.labour(1)?;
        match &node.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Comprehension(fold) => self.comprehension(fold),
            // The types of mutations are maps with fixed keys.
            Expr::Struct(made) if is_mutation_type(&made.type_name) => {
                self.map(made.entries.iter().map(|entry| &entry.expr))
            }
            Expr::Struct(_) | Expr::Unspecified => Err(no_overload()),
        }
    }

    fn ident(&mut self, name: &str) -> Outcome {
        self.charge(READ)?;
        let known = self.scope.iter().rev().find(|(known, _)| *known == name);
        let value = known.map(|(_, value)| value.clone()).or_else(|| named_type(name));
        value.ok_or_else(|| error(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, node: &'a IdedExpr, select: &'a SelectExpr) -> Outcome {
        let name = qualified_name(node).filter(|name| !name.starts_with("self."));
        if name.as_deref() == Some(REQUEST_RESOURCE) {
            return self.ident(REQUEST_RESOURCE);
        }
        if let Some(kind) = name.and_then(|name| named_type(&name)) {
            return Ok(kind);
        }
        let operand = self.eval(&select.operand)?;
        if select.test {
            let has = match as_optional(&operand) {
                Some(inner) => inner.is_some_and(|inner| field(inner, &select.field).is_some()),
                None => field(&operand, &select.field).is_some(),
            };
            return Ok(Value::Bool(has));
        }
        self.charge(READ)?;
        if let Some(inner) = as_optional(&operand) {
            return Ok(optional(inner.and_then(|inner| field(inner, &select.field)).cloned()));
        }
        match &operand {
            Value::Map(_) => field(&operand, &select.field)
                .cloned()
                .ok_or_else(|| error(format!("no such key: {}", select.field))),
            _ => Err(no_overload()),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Outcome {
        match (&*call.func_name, &*call.args) {
            (operators::CONDITIONAL, [condition, yes, no]) => match self.eval(condition)? {
                Value::Bool(true) => self.eval(yes),
                Value::Bool(false) => self.eval(no),
                _ => Err(no_overload()),
            },
            (operators::LOGICAL_AND, [left, right]) => self.logical(left, right, false),
            (operators::LOGICAL_OR, [left, right]) => self.logical(left, right, true),
            (operators::NOT_STRICTLY_FALSE, [condition]) => {
                self.charge(1)?;
                match self.eval(condition) {
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Err(EvaluationFailure::Limit) => Err(EvaluationFailure::Limit),
                    _ => Ok(Value::Bool(true)),
                }
            }
            (operators::OPT_SELECT, [operand, name]) => self.optional_select(operand, name),
            _ => match (variable_of_form(call), &call.target, &*call.args) {
                (Some(variable), Some(target), [_, body]) => {
                    self.form(&call.func_name, variable, target, body)
                }
                _ => self.function(call),
            },
        }
    }

    /// Evaluates `&&` and `||`: an error counts only if the other side does not determine the result.
    fn logical(&mut self, left: &'a IdedExpr, right: &'a IdedExpr, decisive: bool) -> Outcome {
        let left = match self.eval(left) {
            Ok(Value::Bool(is)) if is == decisive => return Ok(Value::Bool(decisive)),
            Err(EvaluationFailure::Limit) => return Err(EvaluationFailure::Limit),
            left => left,
        };
        match self.eval(right) {
            Ok(Value::Bool(is)) if is == decisive => Ok(Value::Bool(decisive)),
            Err(EvaluationFailure::Limit) => Err(EvaluationFailure::Limit),
            right => match (left?, right?) {
                (Value::Bool(_), Value::Bool(_)) => Ok(Value::Bool(!decisive)),
                _ => Err(no_overload()),
            },
        }
    }

    fn optional_select(&mut self, operand: &'a IdedExpr, name: &'a IdedExpr) -> Outcome {
        let operand = self.eval(operand)?;
        self.charge(READ)?;
        let Expr::Literal(LiteralValue::String(name)) = &name.expr else { return Err(no_overload()) };
        let found = match as_optional(&operand) {
            Some(inner) => inner.and_then(|inner| field(inner, name.inner())),
            None => field(&operand, name.inner()),
        };
        Ok(optional(found.cloned()))
    }

    fn function(&mut self, call: &'a CallExpr) -> Outcome {
        let namespace = call.target.as_deref().and_then(qualified_name).filter(|name| {
            let is_variable = self.scope.iter().any(|(known, _)| known == name);
            !is_variable && super::overloads::overloads_of(&format!("{name}.{}", call.func_name)).is_some()
        });
        let receiver = match &call.target {
            Some(target) if namespace.is_none() => Some(self.eval(target)?),
            _ => None,
        };
        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            arguments.push(self.eval(argument)?);
        }
        match namespace {
            Some(namespace) => self.invoke(&format!("{namespace}.{}", call.func_name), None, arguments),
            None => self.invoke(&call.func_name, receiver, arguments),
        }
    }

    fn list(&mut self, list: &'a ListExpr) -> Outcome {
        self.charge(LIST)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            let value = self.eval(element)?;
            if list.optional_indices.contains(&at) {
                items.extend(as_optional(&value).ok_or_else(no_overload)?.cloned());
            } else {
                items.push(value);
            }
        }
        Ok(Value::List(Arc::new(items)))
    }

    fn map(&mut self, entries: impl Iterator<Item = &'a EntryExpr>) -> Outcome {
        self.charge(MAP)?;
        let mut made = HashMap::new();
        for entry in entries {
            let (key, value, is_optional) = match entry {
                EntryExpr::MapEntry(entry) => {
                    let key = as_key(&self.eval(&entry.key)?).ok_or_else(|| error("unsupported key type"))?;
                    (key, &entry.value, entry.optional)
                }
                EntryExpr::StructField(field) => {
                    (Key::String(Arc::new(field.field.clone())), &field.value, field.optional)
                }
            };
            let value = self.eval(value)?;
            if !is_optional {
                made.insert(key, value);
            } else if let Some(value) = as_optional(&value).ok_or_else(no_overload)? {
                made.insert(key, value.clone());
            }
        }
        Ok(map_of(made))
    }

    fn comprehension(&mut self, fold: &'a ComprehensionExpr) -> Outcome {
        let range = self.eval(&fold.iter_range)?;
        let start = self.eval(&fold.accu_init)?;
        let depth = self.scope.len();
        self.scope.push((&fold.accu_var, start));
        let rounds = rounds_over(&range, fold.iter_var2.is_some())?;
        for (first, second) in rounds {
            self.scope.push((&fold.iter_var, first));
            if let (Some(name), Some(second)) = (&fold.iter_var2, second) {
                self.scope.push((name, second));
            }
            if !matches!(self.eval(&fold.loop_cond)?, Value::Bool(true)) {
                break;
            }
            self.step(&fold.loop_step, &fold.accu_var, depth)?;
            self.scope.truncate(depth + 1);
        }
        self.scope.truncate(depth + 1);
        let result = self.eval(&fold.result);
        self.scope.truncate(depth);
        result
    }

    /// Evaluates one iteration: the collected value grows in place if the macro only adds to it.
    fn step(&mut self, node: &'a IdedExpr, collected: &str, at: usize) -> Result<(), EvaluationFailure> {
        let is_collected = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == collected);
        if let Expr::Call(call) = &node.expr {
            match (&*call.func_name, &*call.args) {
                (operators::CONDITIONAL, [condition, more, same]) if is_collected(same) => {
                    return match self.eval(condition)? {
                        Value::Bool(true) => self.step(more, collected, at),
                        Value::Bool(false) => self.charge(READ),
                        _ => Err(no_overload()),
                    };
                }
                (operators::ADD, [before, IdedExpr { expr: Expr::List(more), .. }])
                    if is_collected(before) =>
                {
                    let Value::List(more) = self.list(more)? else { return Err(no_overload()) };
                    self.charge(READ + 1)?;
                    if let (_, Value::List(list)) = &mut self.scope[at] {
                        Arc::make_mut(list).extend(more.iter().cloned());
                        return Ok(());
                    }
                }
                (MAP_INSERT, [before, key, value]) if is_collected(before) => {
                    let key = as_key(&self.eval(key)?).ok_or_else(|| error("unsupported key type"))?;
                    let value = self.eval(value)?;
                    return self.insert(at, vec![(key, value)]);
                }
                (MAP_INSERT, [before, entries]) if is_collected(before) => {
                    let Value::Map(entries) = self.eval(entries)? else { return Err(no_overload()) };
                    let entries = entries.map.iter().map(|(key, value)| (key.clone(), value.clone()));
                    return self.insert(at, entries.collect());
                }
                _ => {}
            }
        }
        self.scope[at].1 = self.eval(node)?;
        Ok(())
    }

    fn insert(&mut self, at: usize, entries: Vec<(Key, Value)>) -> Result<(), EvaluationFailure> {
        self.charge(READ + 1)?;
        let (_, Value::Map(map)) = &mut self.scope[at] else { return Err(no_overload()) };
        for (key, value) in entries {
            if Arc::make_mut(&mut map.map).insert(key, value).is_some() {
                return Err(error("insert failed: key already exists"));
            }
        }
        Ok(())
    }

    /// Evaluates `optMap`, `optFlatMap` and `sortBy`.
    fn form(&mut self, name: &str, variable: &'a str, target: &'a IdedExpr, body: &'a IdedExpr) -> Outcome {
        let target = self.eval(target)?;
        if name == "sortBy" {
            return self.sort_by(&target, variable, body);
        }
        self.charge(1)?;
        let Some(value) = as_optional(&target).ok_or_else(no_overload)? else { return Ok(target) };
        let made = self.with(variable, value.clone(), body)?;
        Ok(if name == "optMap" { optional(Some(made)) } else { made })
    }

    fn with(&mut self, variable: &'a str, value: Value, body: &'a IdedExpr) -> Outcome {
        self.scope.push((variable, value));
        let made = self.eval(body);
        self.scope.pop();
        made
    }

    fn sort_by(&mut self, list: &Value, variable: &'a str, body: &'a IdedExpr) -> Outcome {
        let Value::List(items) = list else { return Err(no_overload()) };
        let mut keyed = Vec::with_capacity(items.len());
        for item in items.iter() {
            self.charge(LIST)?;
            keyed.push((self.with(variable, item.clone(), body)?, item.clone()));
        }
        let comparisons = size_of(list).saturating_mul(u64::from(size_of(list).max(1).ilog2()) + 1);
        self.labour(comparisons)?;
        self.charge(comparisons)?;
        keyed.sort_by(|(left, _), (right, _)| left.partial_cmp(right).unwrap_or(Ordering::Equal));
        Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, item)| item).collect())))
    }

    /// Returns whether two values are equal, and charges the comparison.
    pub(super) fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, EvaluationFailure> {
        self.labour(1)?;
        match (left, right) {
            (Value::List(left), Value::List(right)) => self.equal_lists(left, right),
            (Value::Map(left), Value::Map(right)) => {
                if left.map.len() != right.map.len() {
                    return Ok(false);
                }
                for (key, value) in left.map.iter() {
                    let Some(other) = right.map.get(key) else { return Ok(false) };
                    if !self.equal(value, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::String(left), Value::String(right)) => {
                self.labour((left.len().min(right.len()) as u64) / WORK_BYTES)?;
                Ok(left == right)
            }
            _ => Ok(left == right),
        }
    }

    /// Charges for copying a value, for calls that copy their arguments.
    pub(super) fn copying(&mut self, value: &Value) -> Result<(), EvaluationFailure> {
        self.labour(COPY_WORK)?;
        match value {
            Value::List(items) => items.iter().try_for_each(|item| self.copying(item)),
            Value::Map(map) => map.map.values().try_for_each(|value| self.copying(value)),
            Value::String(text) => self.labour(text.len() as u64 / LIBRARY_BYTES),
            Value::Bytes(bytes) => self.labour(bytes.len() as u64 / LIBRARY_BYTES),
            _ => Ok(()),
        }
    }
}

/// Returns the values that a loop iterates over: items or keys, or both with their index or value. Keys are in order.
fn rounds_over(range: &Value, is_pair: bool) -> Result<Vec<(Value, Option<Value>)>, EvaluationFailure> {
    match range {
        Value::List(items) if is_pair => {
            let index = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
            Ok(items.iter().enumerate().map(|(at, item)| (index(at), Some(item.clone()))).collect())
        }
        Value::List(items) => Ok(items.iter().map(|item| (item.clone(), None)).collect()),
        Value::Map(map) => {
            let mut entries: Vec<_> = map.map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let pairs = entries.into_iter();
            Ok(pairs.map(|(key, value)| (Value::from(key), is_pair.then(|| value.clone()))).collect())
        }
        _ => Err(no_overload()),
    }
}

fn literal_value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(is) => Value::Bool(*is.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(Arc::new(bytes.inner().to_vec())),
        LiteralValue::Double(number) => Value::Float(*number.inner()),
        LiteralValue::Int(number) => Value::Int(*number.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::String(Arc::new(text.inner().to_owned())),
        LiteralValue::UInt(number) => Value::UInt(*number.inner()),
    }
}

/// Returns the field of an object or the entry of a map; a reserved word may be written unescaped.
fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let Value::Map(map) = value else { return None };
    map.get(&KeyRef::String(name)).or_else(|| map.get(&KeyRef::String(&format!("__{name}__"))))
}
