//! What the lists of a custom object ask beyond their values: items of sets and maps are unique.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Kind, ListType, Merge, Schema};
use crate::field::{Error, Errors, Path};

/// Lists up to this length are compared pair by pair, without allocating.
const PAIRWISE_MAX: usize = 8;

/// What is wrong with the lists of a whole object.
pub(super) fn validate(schema: &Schema, value: &Value) -> Errors {
    let mut errors = Errors::new();
    below(schema, value, &Path::Root, &mut errors);
    errors
}

fn below(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (&schema.kind, value) {
        (Kind::Object(object), Value::Object(fields)) => {
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
        (Kind::Array(items), Value::Array(elements)) => {
            for (at, element) in elements.iter().enumerate() {
                let path = path.index(at);
                unique(&items.merge, element, &path, errors);
                below(&items.schema, element, &path, errors);
            }
        }
        _ => {}
    }
}

fn unique(merge: &Merge, value: &Value, path: &Path<'_>, errors: &mut Errors) {
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
