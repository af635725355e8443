//! Compiles single expressions, as used in match conditions and admission policies, once, and evaluates them with any
//! variables within a budget of cost and work.
//!
//! Objects are plain here: field names are not escaped, and strings remain strings regardless of their format.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::{Key, Map};
use kube_cel::cel;
use serde_json::Value as Json;

use super::authorizer::{AuthorizerValue, CelAuthorizer, ResourceTarget};
use super::eval::{Evaluation, EvaluationFailure};
use super::lists::TypedLists;
use super::program::Program;
use super::source::on_deep_stack;
use super::value::as_optional;

/// The work that one evaluation may take, regardless of its cost: about ten milliseconds.
const WORK_MAX: u64 = 2_000_000;

/// How much work is charged as one unit of cost. Some calls have a low cost but take a long time, and a policy may have
/// thousands of them; a unit of cost is about 50 ns, a unit of work 5 ns.
const WORK_PER_COST: u64 = 10;

/// The maximum number of parts in a value: as many as the largest object has. A part that occurs in several places
/// counts each time, as it does in the JSON of the value.
const PARTS_MAX: u64 = 500_000;
/// The maximum nesting of a value: deeper than any object, yet far from overflowing the stack of any code that walks
/// it.
const DEPTH_MAX: usize = 1000;
/// The number of parts of a value that cost as much as one step; they are cheap because they are only counted.
const PARTS_PER_COST: u64 = 4;

/// A compiled expression.
#[derive(Debug)]
pub struct CelExpression(Program);

/// A value of an expression or of a variable.
#[derive(Clone, Debug)]
pub struct CelData(Value);

/// The reason an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CelFailure {
    /// It cannot be evaluated for these variables.
    Error(String),
    /// It costs too much.
    Budget,
}

impl CelExpression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Fails if the text is not an expression; the message says where.
    pub fn compile(text: &str) -> Result<Self, String> {
        on_deep_stack(|| Program::read(text)).map(Self)
    }

    /// Evaluates the expression. Its cost is taken from the budget.
    ///
    /// # Errors
    /// Fails if the expression has no value, or its cost exceeds the budget or the limit for one evaluation.
    pub fn evaluate(
        &self,
        variables: &[(&str, CelData)],
        authorizer: Option<&dyn CelAuthorizer>,
        budget: &mut u64,
    ) -> Result<CelData, CelFailure> {
        let scope = variables.iter().map(|(name, data)| (*name, data.0.clone())).collect();
        let evaluation = Evaluation::with_variables(&self.0, scope, WORK_MAX, TypedLists::default());
        let mut evaluation = evaluation.authorized_by(authorizer);
        let outcome = evaluation.run();
        let by_work = (WORK_MAX - evaluation.work) / WORK_PER_COST;
        *budget = budget.checked_sub(evaluation.cost.max(by_work)).ok_or(CelFailure::Budget)?;
        match outcome {
            Ok(value) => {
                let parts = count_parts(&value)?;
                *budget = budget.checked_sub(parts / PARTS_PER_COST).ok_or(CelFailure::Budget)?;
                Ok(CelData(value))
            }
            Err(EvaluationFailure::Error(why)) => Err(CelFailure::Error(why)),
            Err(EvaluationFailure::Limit) => Err(CelFailure::Budget),
        }
    }
}

impl CelData {
    /// Converts JSON.
    pub fn from_json(json: &Json) -> Self {
        Self(convert(json))
    }

    /// Returns the `authorizer` of the user who sent the request.
    pub fn authorizer() -> Self {
        Self(AuthorizerValue::Authorizer(None).into_value())
    }

    /// Returns the authorizer of the requested resource: `authorizer.requestResource`.
    pub fn request_resource_authorizer(target: ResourceTarget) -> Self {
        Self(AuthorizerValue::ResourceCheck(None, target).into_value())
    }

    /// Creates a map of named values.
    pub fn from_fields(fields: &[(String, Self)]) -> Self {
        let entries = fields.iter().map(|(name, data)| (Key::String(Arc::new(name.clone())), data.0.clone()));
        Self(Value::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) }))
    }

    /// Returns the boolean; `None` if the value has a different type.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(is) = self.0 { Some(is) } else { None }
    }

    /// Returns the string; `None` if the value has a different type.
    pub fn as_text(&self) -> Option<&str> {
        if let Value::String(text) = &self.0 { Some(text) } else { None }
    }

    /// Returns whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.0, Value::Null)
    }

    /// Converts to JSON; `None` if it has no JSON form. Absent optional values are left out of maps.
    pub fn to_json(&self) -> Option<Json> {
        to_json(&self.0)
    }
}

/// Returns the number of parts of a value. Rejects a value with too many parts or too much nesting: comparing,
/// serializing or dropping it could exhaust the stack or the memory.
fn count_parts(value: &Value) -> Result<u64, CelFailure> {
    let mut parts = 0;
    let mut waiting = vec![(value, 0)];
    while let Some((value, depth)) = waiting.pop() {
        parts += 1;
        if parts > PARTS_MAX || depth > DEPTH_MAX {
            return Err(CelFailure::Budget);
        }
        match value {
            Value::List(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Map(map) => waiting.extend(map.map.values().map(|value| (value, depth + 1))),
            other => {
                if let Some(Some(inner)) = as_optional(other) {
                    waiting.push((inner, depth + 1));
                }
            }
        }
    }
    Ok(parts)
}

fn convert(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is) => Value::Bool(*is),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::UInt(number),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(convert).collect())),
        Json::Object(fields) => {
            let entries =
                fields.iter().map(|(name, field)| (Key::String(Arc::new(name.clone())), convert(field)));
            Value::Map(Map { map: Arc::new(entries.collect()) })
        }
    }
}

fn to_json(value: &Value) -> Option<Json> {
    if let Some(inner) = as_optional(value) {
        return inner.and_then(to_json);
    }
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(is) => (*is).into(),
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::Float(number) => serde_json::Number::from_f64(*number).map(Json::Number)?,
        Value::String(text) => Json::String((**text).clone()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Value::Map(map) => {
            let mut fields = serde_json::Map::new();
            for (key, value) in map.map.iter() {
                if as_optional(value).is_some_and(|inner| inner.is_none()) {
                    continue;
                }
                fields.insert(key.to_string(), to_json(value)?);
            }
            Json::Object(fields)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(text: &str, object: &Json) -> Result<Json, CelFailure> {
        let expression = CelExpression::compile(text).expect("it compiles");
        let variables = [("object", CelData::from_json(object))];
        expression
            .evaluate(&variables, None, &mut 10_000_000)
            .map(|value| value.to_json().unwrap_or_default())
    }

    #[test]
    fn fields_and_keys_are_read_by_their_names() {
        let object =
            json!({"metadata": {"labels": {"a-b/c": "d"}, "namespace": "n"}, "spec": {"replicas": 3}});
        let check = |text: &str, expected: Json| assert_eq!(evaluate(text, &object), Ok(expected), "{text}");
        check("object.metadata.labels['a-b/c'] == 'd'", json!(true));
        check("object.metadata.namespace", json!("n"));
        check("object.spec.replicas <= 2", json!(false));
        check("has(object.spec.paused) ? 1 : {'a': [1, 2]}", json!({"a": [1, 2]}));
        assert!(matches!(evaluate("object.spec.none == 1", &object), Err(CelFailure::Error(_))));
    }

    /// Each step doubles the value or nests it deeper, and is cheap on its own.
    #[test]
    fn values_that_grow_from_variable_to_variable_are_refused() {
        let check = |text: &str, steps: usize| {
            let expression = CelExpression::compile(text).expect("it compiles");
            let (mut value, mut budget) = (CelData::from_json(&json!(1)), 10_000_000);
            for _ in 0..steps {
                value = expression.evaluate(&[("v", value)], None, &mut budget)?;
            }
            Ok(value)
        };
        assert!(check("[v, v]", 15).is_ok());
        assert_eq!(check("[v, v]", 26).err(), Some(CelFailure::Budget));
        assert_eq!(check("{'a': v, 'b': v}", 26).err(), Some(CelFailure::Budget));
        let deep = format!("{}v{}", "[".repeat(40), "]".repeat(40));
        assert!(check(&deep, 20).is_ok());
        assert_eq!(check(&deep, 1000).err(), Some(CelFailure::Budget));
    }

    #[test]
    fn a_budget_ends() {
        let expression =
            CelExpression::compile("object.all(a, object.all(b, a == b || true))").expect("fine");
        let object = CelData::from_json(&json!((0..300).collect::<Vec<_>>()));
        assert_eq!(
            expression.evaluate(&[("object", object)], None, &mut 1000).err(),
            Some(CelFailure::Budget)
        );
    }

    /// The price of a comparison depends only on the outermost list.
    #[test]
    fn work_counts_where_the_price_is_low() {
        let expression = CelExpression::compile("object == object").expect("it compiles");
        let object = CelData::from_json(&json!([(0..100_000).collect::<Vec<_>>()]));
        let mut budget = 10_000_000;
        let mut rounds = 0;
        while expression.evaluate(&[("object", object.clone())], None, &mut budget).is_ok() {
            rounds += 1;
            assert!(rounds < 2000, "the comparisons cost {} each", (10_000_000 - budget) / rounds);
        }
        assert!(rounds > 100, "{rounds}");
    }
}
