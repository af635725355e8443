//! Validates lists in custom objects: the items of sets and maps must be unique.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{ListType, MergeRules, Schema, SchemaType};
use crate::field::{Error, Errors, FieldPath};

/// Lists up to this length are compared pair by pair, without allocating.
const PAIRWISE_MAX: usize = 8;

/// Validates the lists of a whole object.
pub(super) fn validate(schema: &Schema, value: &Value) -> Errors {
    let mut errors = Errors::new();
    below(schema, value, &FieldPath::Root, &mut errors);
    errors
}

fn below(schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    match (&schema.kind, value) {
        (SchemaType::Object(object), Value::Object(fields)) => {
            for (name, value) in fields {
                let Some(property) = object.properties.get(name.as_str()).or(object.additional.as_deref())
                else {
                    continue;
                };
                let path = path.field(name);
                unique(&property.merge, value, &path, errors);
                below(&property.schema, value, &path, errors);
            }
        }
        (SchemaType::Array(items), Value::Array(elements)) => {
            for (at, element) in elements.iter().enumerate() {
                let path = path.index(at);
                unique(&items.merge, element, &path, errors);
                below(&items.schema, element, &path, errors);
            }
        }
        _ => {}
    }
}

fn unique(merge: &MergeRules, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let Value::Array(items) = value else { return };
    let identities: Vec<Cow<'_, Value>> = match &merge.list {
        ListType::Atomic => return,
        ListType::Set => items.iter().map(Cow::Borrowed).collect(),
        ListType::Map(keys) => items.iter().map(|item| Cow::Owned(identity(keys, item))).collect(),
    };
    for (at, value) in duplicates(&identities) {
        errors.push(Error::duplicate(&path.index(at), value));
    }
}

fn identity(keys: &[Box<str>], item: &Value) -> Value {
    let present =
        keys.iter().filter_map(|key| item.get(&**key).map(|value| (key.to_string(), value.clone())));
    Value::Object(present.collect::<Map<_, _>>())
}

fn duplicates<'a>(values: &'a [Cow<'_, Value>]) -> Vec<(usize, &'a Value)> {
    let numbered = values.iter().map(AsRef::as_ref).enumerate();
    if values.len() <= PAIRWISE_MAX {
        return numbered.filter(|(at, value)| values[..*at].iter().any(|one| **one == **value)).collect();
    }
    let mut seen = HashSet::new();
    numbered.filter(|(_, value)| !seen.insert(*value)).collect()
}
