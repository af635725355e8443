//! The scaling behavior in the annotation of v1. Kubernetes writes its internal type there, with capitalized names and
//! null for absent values, and reads names in any case.

use serde_json::{Map, Value, json};

const DIRECTIONS: [&str; 2] = ["scaleUp", "scaleDown"];
const RULES: [&str; 4] = ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"];
const POLICY: [&str; 3] = ["type", "value", "periodSeconds"];

/// Converts a v2 behavior to the form in which the internal type is written.
pub(super) fn to_internal(behavior: &Value) -> Value {
    capitalized(behavior, &DIRECTIONS, |_, rules| {
        capitalized(rules, &RULES, |name, value| match value.as_array() {
            Some(policies) if name == "policies" => {
                policies.iter().map(|policy| capitalized(policy, &POLICY, |_, value| value.clone())).collect()
            }
            _ => value.clone(),
        })
    })
}

/// Returns all fields of an object under capitalized names; absent fields are null, and so is an absent object.
fn capitalized(object: &Value, names: &[&str], inside: impl Fn(&str, &Value) -> Value) -> Value {
    if !object.is_object() {
        return Value::Null;
    }
    let field = |name: &&str| (internal_name(name), inside(name, &object[*name]));
    Value::Object(names.iter().map(field).collect())
}

fn internal_name(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

/// Converts the form in which the internal type is written to a v2 behavior; `None` if it is empty.
pub(super) fn from_internal(internal: &Value) -> Option<Value> {
    let behavior = named(internal, &DIRECTIONS, |_, rules| {
        named(&rules, &RULES, |name, value| match value {
            Value::Array(policies) if name == "policies" => {
                let policy = |policy: &Value| named(policy, &POLICY, |_, value| value);
                policies.iter().map(policy).collect()
            }
            other => other,
        })
    });
    (behavior != json!({})).then_some(behavior)
}

/// Returns the fields of an object under their v2 names, without nulls. A value that is not an object is kept; the type
/// check rejects it later.
fn named(object: &Value, names: &[&str], inside: impl Fn(&str, Value) -> Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let known = |(name, value): (&String, &Value)| {
        let name = names.iter().find(|one| one.eq_ignore_ascii_case(name)).filter(|_| !value.is_null())?;
        Some(((*name).to_owned(), inside(name, value.clone())))
    };
    Value::Object(fields.iter().filter_map(known).collect::<Map<_, _>>())
}
