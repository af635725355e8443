//! Performs the calls of an evaluation: operators and the most common functions here, the others in kube-cel's library.
//!
//! A library call copies its arguments, which counts as work. Prices are those that Kubernetes charges while a
//! rule runs.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, operators};
use cel::objects::Map;
use cel::{Context, ExecutionError, IdedExpr, Value};
use kube_cel::{KubeCelExt, cel};
use regex::Regex;

use super::authorizer::CHECK_COST;
use super::eval::{Evaluation, EvaluationFailure, Outcome, error};
use super::program::Program;
use super::size::{PATTERN, TRAVERSAL, scaled, selector_cost};
use super::value::{as_key, as_optional, optional, size_of, type_of};
use crate::schema::pattern::{self, CompiledPattern, PatternSlot};

/// The work of one library call besides its arguments: it creates a scope and an expression.
const LIBRARY_WORK: u64 = 50;

/// The work that compiling a pattern of the largest size takes, a few milliseconds; smaller ones take proportionally
/// less. Two hundred of the largest use up an object's budget.
const PATTERN_WORK: u64 = 100_000;

/// The number of bytes whose characters are counted for one unit of work; the price of `size` does not depend on them.
const COUNTED_BYTES: u64 = 512;

thread_local! {
    static LIBRARY: Context<'static> = Context::default().with_all();
}

/// Argument names that no rule can spell.
const ARGUMENTS: [&str; 5] = ["@0", "@1", "@2", "@3", "@4"];

/// Calls a function of the library.
pub(super) fn library(
    function: &str,
    receiver: Option<Value>,
    arguments: Vec<Value>,
) -> Result<Value, String> {
    let ident = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
    let is_member = receiver.is_some();
    let values: Vec<_> = receiver.into_iter().chain(arguments).collect();
    let mut names = ARGUMENTS.iter().take(values.len()).map(|name| ident(name));
    let (target, func_name) = match function.rsplit_once('.') {
        Some((namespace, name)) => (Some(ident(namespace)), name),
        None => (if is_member { names.next() } else { None }, function),
    };
    let call =
        CallExpr { func_name: func_name.to_owned(), target: target.map(Box::new), args: names.collect() };
    let expr = IdedExpr { id: 0, expr: Expr::Call(call) };
    LIBRARY.with(|library| {
        let mut scope = library.new_inner_scope();
        for (name, value) in ARGUMENTS.iter().zip(values) {
            scope.add_variable_from_value(*name, value);
        }
        Value::resolve(&expr, &scope).map_err(|error| match error {
            ExecutionError::FunctionError { message, .. } => message,
            ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
            ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
            ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
            ExecutionError::Overflow(..) => "integer overflow".to_owned(),
            ExecutionError::IndexOutOfBounds(at) => format!("index out of bounds: {at:?}"),
            _ => "no such overload".to_owned(),
        })
    })
}

impl<'a> Evaluation<'a> {
    /// Calls a function or operator with evaluated arguments.
    pub(super) fn invoke(
        &mut self,
        function: &str,
        receiver: Option<Value>,
        arguments: Vec<Value>,
    ) -> Outcome {
        let all: Vec<_> = receiver.iter().chain(&arguments).collect();
        let cost = price(function, &all);
        self.charge(cost)?;
        if let Some(outcome) = self.authorization(function, &all).or_else(|| self.own(function, &all)) {
            return outcome;
        }
        self.labour(LIBRARY_WORK)?;
        for value in &all {
            self.copying(value)?;
        }
        self.make_text(function, &all)?;
        let outcome = library(function, receiver, arguments).map_err(EvaluationFailure::Error)?;
        self.copying(&outcome)?;
        Ok(outcome)
    }

    /// Evaluates the functions that are implemented here; `None` for library functions.
    fn own(&mut self, function: &str, arguments: &[&Value]) -> Option<Outcome> {
        let found = match (function, arguments) {
            (operators::EQUALS, [left, right]) => self.equal(left, right).map(Value::Bool),
            (operators::NOT_EQUALS, [left, right]) => self.equal(left, right).map(|is| Value::Bool(!is)),
            (operators::ADD, [left @ Value::List(_), right]) => {
                let items = size_of(left).saturating_add(size_of(right));
                if let Err(limit) = self.labour(items) {
                    return Some(Err(limit));
                }
                return self.add_lists(left, right).or_else(|| simple(function, arguments));
            }
            (operators::IN, [needle, Value::List(items)]) => self.contains(items, needle),
            (operators::IN, [needle, Value::Map(map)]) => {
                Ok(Value::Bool(as_key(needle).is_some_and(|key| map.map.contains_key(&key))))
            }
            (operators::INDEX, [container, key]) => match as_optional(container) {
                Some(inner) => Ok(optional(inner.and_then(|inner| index(inner, key).ok()))),
                None => index(container, key),
            },
            (operators::OPT_INDEX, [container, key]) => {
                let inner = as_optional(container).unwrap_or(Some(container));
                Ok(optional(inner.and_then(|inner| index(inner, key).ok())))
            }
            ("matches", [Value::String(text), Value::String(pattern)]) => {
                self.pattern(pattern).map(|pattern| Value::Bool(pattern.is_match(text)))
            }
            ("find", [Value::String(text), Value::String(pattern)]) => self.pattern(pattern).map(|pattern| {
                Value::String(Arc::new(
                    pattern.find(text).map_or(String::new(), |found| found.as_str().to_owned()),
                ))
            }),
            ("findAll", [Value::String(text), Value::String(pattern)]) => {
                self.pattern(pattern).and_then(|pattern| {
                    self.collected(pattern.find_iter(text).map(|found| found.as_str().to_owned()))
                })
            }
            ("split", [Value::String(text), Value::String(by)]) => self.collected(parts(text, by, -1)),
            ("split", [Value::String(text), Value::String(by), Value::Int(limit)]) => {
                self.collected(parts(text, by, *limit))
            }
            ("size", [Value::String(text)]) => {
                self.labour(text.len() as u64 / COUNTED_BYTES).map(|()| count(text.chars().count()))
            }
            _ => return simple(function, arguments).or_else(|| of_optional(function, arguments)),
        };
        Some(found)
    }

    fn contains(&mut self, items: &[Value], needle: &Value) -> Outcome {
        for item in items {
            if self.equal(item, needle)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    /// Returns a list of strings and charges the work that building it takes.
    fn collected(&mut self, texts: impl Iterator<Item = String>) -> Outcome {
        let mut list = Vec::new();
        for text in texts {
            let text = Value::String(Arc::new(text));
            self.copying(&text)?;
            list.push(text);
        }
        Ok(Value::List(Arc::new(list)))
    }

    /// Returns a compiled pattern. A literal pattern is compiled once, if there is room to keep it. It is borrowed: a
    /// copy would allocate its matching memory again.
    fn pattern(&mut self, text: &str) -> Result<Cow<'a, Regex>, EvaluationFailure> {
        let program: &'a Program = self.program;
        let place = program.patterns.get(text);
        if let Some(kept) = place.and_then(PatternSlot::get) {
            return Ok(Cow::Borrowed(&kept.regex));
        }
        let compiled = pattern::compile_small(text);
        let size = compiled.as_ref().map_or(pattern::SMALL_BYTES_MAX, CompiledPattern::bytes);
        self.labour((PATTERN_WORK * size as u64).div_ceil(pattern::SMALL_BYTES_MAX as u64))?;
        let compiled = compiled.map_err(error)?;
        let Some(place) = place else { return Ok(Cow::Owned(compiled.regex.clone())) };
        match place.put(compiled) {
            Ok(kept) => Ok(Cow::Borrowed(&kept.regex)),
            Err(unkept) => Ok(Cow::Owned(unkept.regex.clone())),
        }
    }
}

/// Evaluates functions that take no longer than their price.
fn simple(function: &str, arguments: &[&Value]) -> Option<Outcome> {
    let text = |text: String| Ok(Value::String(Arc::new(text)));
    let found = match (function, arguments) {
        ("size", [sized @ (Value::List(_) | Value::Map(_) | Value::Bytes(_))]) => {
            Ok(Value::Int(i64::try_from(size_of(sized)).unwrap_or(i64::MAX)))
        }
        ("startsWith", [Value::String(text), Value::String(part)]) => {
            Ok(Value::Bool(text.starts_with(&***part)))
        }
        ("endsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.ends_with(&***part))),
        ("contains", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.contains(&***part))),
        ("lowerAscii", [Value::String(letters)]) => text(letters.to_ascii_lowercase()),
        ("upperAscii", [Value::String(letters)]) => text(letters.to_ascii_uppercase()),
        ("string", [same @ Value::String(_)]) | ("int", [same @ Value::Int(_)]) | ("dyn", [same]) => {
            Ok(Value::clone(same))
        }
        ("string", [Value::Int(number)]) => text(number.to_string()),
        ("string", [Value::Bool(is)]) => text(is.to_string()),
        ("bool", [same @ Value::Bool(_)]) => Ok(Value::clone(same)),
        ("bool", [Value::String(text)]) => match &***text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => Err(error("type conversion error from 'string' to 'bool'")),
        },
        ("type", [value]) => Ok(type_of(value)),
        (operators::LOGICAL_NOT, [Value::Bool(is)]) => Ok(Value::Bool(!is)),
        (operators::NEGATE, [Value::Int(number)]) => whole(number.checked_neg()),
        (operators::NEGATE, [Value::Float(number)]) => Ok(Value::Float(-number)),
        (operators::ADD, [Value::List(left), Value::List(right)]) => {
            Ok(Value::List(Arc::new(left.iter().chain(right.iter()).cloned().collect())))
        }
        (operators::ADD, [Value::String(left), Value::String(right)]) => text(format!("{left}{right}")),
        (operator, [Value::Int(left), Value::Int(right)]) => return arithmetic(operator, *left, *right),
        (operator, [left, right]) => return comparison(operator, left, right),
        _ => return None,
    };
    Some(found)
}

/// Splits a string into at most `limit` parts, the last of which is the remainder; a negative limit means all. An empty
/// separator splits it into characters, without the empty parts around them that Rust returns.
fn parts<'t>(text: &'t str, by: &'t str, limit: i64) -> Box<dyn Iterator<Item = String> + 't> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if !by.is_empty() {
        return Box::new(text.splitn(limit, by).map(str::to_owned));
    }
    let mut places = text.char_indices().map(|(place, letter)| (place, place + letter.len_utf8()));
    let mut made = 0;
    Box::new(std::iter::from_fn(move || {
        if made == limit {
            return None;
        }
        made += 1;
        let (start, end) = places.next()?;
        let end = if made == limit { text.len() } else { end };
        Some(text[start..end].to_owned())
    }))
}

fn count(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn whole(number: Option<i64>) -> Outcome {
    number.map(Value::Int).ok_or_else(|| error("integer overflow"))
}

fn arithmetic(operator: &str, left: i64, right: i64) -> Option<Outcome> {
    Some(match operator {
        operators::ADD => whole(left.checked_add(right)),
        operators::SUBSTRACT => whole(left.checked_sub(right)),
        operators::MULTIPLY => whole(left.checked_mul(right)),
        operators::DIVIDE if right == 0 => Err(error("division by zero")),
        operators::DIVIDE => whole(left.checked_div(right)),
        operators::MODULO if right == 0 => Err(error("modulus by zero")),
        operators::MODULO => whole(left.checked_rem(right)),
        _ => return comparison(operator, &Value::Int(left), &Value::Int(right)),
    })
}

fn comparison(operator: &str, left: &Value, right: &Value) -> Option<Outcome> {
    let holds: fn(Ordering) -> bool = match operator {
        operators::LESS => Ordering::is_lt,
        operators::LESS_EQUALS => Ordering::is_le,
        operators::GREATER => Ordering::is_gt,
        operators::GREATER_EQUALS => Ordering::is_ge,
        _ => return None,
    };
    let ordering = match (left, right) {
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        _ => left.partial_cmp(right),
    };
    Some(ordering.map(|ordering| Value::Bool(holds(ordering))).ok_or_else(|| error("no such overload")))
}

/// Evaluates the functions of optionals, and the two list functions that return one.
fn of_optional(function: &str, arguments: &[&Value]) -> Option<Outcome> {
    let found = match (function, arguments) {
        ("optional.none", []) => optional(None),
        ("optional.of", [value]) => optional(Some(Value::clone(value))),
        ("optional.ofNonZeroValue", [value]) => {
            optional(Some(Value::clone(value)).filter(|value| !value.is_zero()))
        }
        ("hasValue", [one]) => Value::Bool(as_optional(one)?.is_some()),
        ("value", [one]) => {
            let value = as_optional(one)?.cloned();
            return Some(value.ok_or_else(|| error("optional.none() dereference")));
        }
        ("or", [one, other]) => Value::clone(if as_optional(one)?.is_some() { one } else { other }),
        ("orValue", [one, other]) => as_optional(one)?.unwrap_or(other).clone(),
        ("first", [Value::List(items)]) => optional(items.first().cloned()),
        ("last", [Value::List(items)]) => optional(items.last().cloned()),
        ("unwrapOpt" | "optional.unwrap", [Value::List(items)]) => {
            let present: Vec<Value> =
                items.iter().filter_map(|item| as_optional(item).flatten().cloned()).collect();
            Value::List(Arc::new(present))
        }
        _ => return None,
    };
    Some(Ok(found))
}

fn index(container: &Value, key: &Value) -> Outcome {
    match (container, key) {
        (Value::List(items), Value::Int(at)) => {
            let item = usize::try_from(*at).ok().and_then(|at| items.get(at));
            item.cloned().ok_or_else(|| error(format!("index out of bounds: {at}")))
        }
        (Value::Map(Map { map }), key) => {
            let found = as_key(key).and_then(|key| map.get(&key));
            found.cloned().ok_or_else(|| error(format!("no such key: {}", shown(key))))
        }
        _ => Err(error("no such overload")),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        other => format!("{other:?}"),
    }
}

/// Returns the price that Kubernetes charges for a call while a rule runs.
fn price(function: &str, arguments: &[&Value]) -> u64 {
    let size = |at: usize| arguments.get(at).map_or(0, |value| size_of(value));
    let traversal = |size: u64| scaled(size, TRAVERSAL);
    match function {
        "check" => CHECK_COST,
        "fieldSelector" | "labelSelector" => selector_cost(size(1)),
        "startsWith" | "endsWith" => traversal(size(1)),
        "bytes" | "format" | "strings.quote" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "url"
        | "cidr" | "ip" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver"
        | "string" => traversal(size(0)).max(1),
        "replace" | "split" | "ip.isCanonical" => traversal(size(0).saturating_mul(2)),
        operators::IN => match arguments.get(1) {
            Some(Value::List(items)) => items.len() as u64,
            _ => 1,
        },
        operators::EQUALS | operators::NOT_EQUALS => traversal(size(0).min(size(1))),
        operators::ADD if matches!(arguments, [Value::String(_) | Value::Bytes(_), _]) => {
            traversal(size(0).saturating_add(size(1)))
        }
        operators::ADD if matches!(arguments, [Value::List(_), _]) => {
            traversal(size(0).saturating_add(size(1))).max(1)
        }
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS
            if matches!(arguments, [Value::String(_) | Value::Bytes(_), _]) =>
        {
            traversal(size(0).min(size(1)))
        }
        "matches" | "find" | "findAll" => {
            traversal(size(0).saturating_add(1)).saturating_mul(scaled(size(1), PATTERN))
        }
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))).max(1),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "join" | "slice" | "reverse"
        | "flatten" => size(0).max(1),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        "distinct" | "sort" => size(0).saturating_mul(size(0)).saturating_mul(2).saturating_add(1),
        "lists.range" => match arguments {
            [Value::Int(count)] => u64::try_from(*count).unwrap_or(0),
            _ => 1,
        },
        _ => 1,
    }
}
