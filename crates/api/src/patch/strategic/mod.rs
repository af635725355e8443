//! Strategic merge patch: a merge patch that knows from the schema which lists merge, by which key, and which maps
//! are replaced. Directives inside the patch override the schema.
//!
//! **Invariant:** the patch is only read, so it can be applied again after a conflict. Directives inside new list
//! elements stay in them, as in Kubernetes; decoding the result strictly then reports them. Custom kinds do not support
//! this patch type and are rejected earlier.

mod list;
mod order;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::UNDECLARED;
use super::go_format::{self, GoPrinted};
use super::work_budget::WorkBudget;
use crate::schema::{MergeRules, Property, Schema, SchemaType};
use crate::status::Status;

/// The key that says how the surrounding map or list element is applied.
const DIRECTIVE: &str = "$patch";
/// The key that lists the only keys of the map that may stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// The prefix of a key that lists the elements to remove from a list of scalars.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// The prefix of a key that gives the order of a merged list.
const SET_ORDER: &str = "$setElementOrder";

type PatchFields = Map<String, Value>;

/// Merges `patch` into `target`, which has this schema. After an error, discard the half-changed target.
pub fn apply(target: &mut Value, patch: &Value, schema: &Schema) -> Result<(), Status> {
    let fields = match patch {
        Value::Object(fields) => fields,
        Value::Null => return Ok(()),
        other => return Err(super::not_an_object("", other)),
    };
    match target {
        Value::Object(present) => merge_map(present, fields, Some(schema), &WorkBudget::default()),
        other => Err(wrong_type(&Value::Object(PatchFields::new()), other)),
    }
}

fn merge_map(
    target: &mut PatchFields,
    patch: &PatchFields,
    schema: Option<&Schema>,
    work: &WorkBudget,
) -> Result<(), Status> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return follow_directive(target, patch, directive);
    }
    retain_keys(target, patch, work)?;
    let ordered = order::merge_ordered_lists(target, patch, schema, work)?;
    for (name, change) in patch {
        if name == RETAIN_KEYS || name.starts_with(SET_ORDER) || ordered.contains(&name.as_str()) {
            continue;
        }
        if let Some(list) = directed_list(name, DELETE_FROM_LIST) {
            delete_from_list(target, list?, change, schema, work)?;
        } else {
            merge_field(target, name, change, schema, work)?;
        }
    }
    Ok(())
}

/// Follows a `$patch` among the fields of a map: replaces the map with the rest of the patch, or empties it.
fn follow_directive(target: &mut PatchFields, patch: &PatchFields, directive: &Value) -> Result<(), Status> {
    match directive.as_str() {
        Some("replace") => {
            target.clone_from(patch);
            target.remove(DIRECTIVE);
        }
        Some("delete") => target.clear(),
        _ => return Err(unknown_directive(directive, patch)),
    }
    Ok(())
}

/// Follows `$retainKeys`: drops the fields it does not list. The patch must not set other fields.
fn retain_keys(target: &mut PatchFields, patch: &PatchFields, work: &WorkBudget) -> Result<(), Status> {
    let Some(list) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || Status::bad_request("invalid patch format of retainKeys");
    let kept = list.as_array().ok_or_else(malformed)?;
    work.spend(kept.len() + patch.len() + target.len())?;
    let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_kept = |name: &String| kept.contains(name.as_str());
    let is_directive = |name: &String| {
        name == RETAIN_KEYS || name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER)
    };
    if patch.iter().any(|(name, value)| !value.is_null() && !is_directive(name) && !is_kept(name)) {
        return Err(malformed());
    }
    target.retain(|name, _| is_kept(name));
    Ok(())
}

fn delete_from_list(
    target: &mut PatchFields,
    name: &str,
    items: &Value,
    schema: Option<&Schema>,
    work: &WorkBudget,
) -> Result<(), Status> {
    if items.is_null() {
        target.remove(name);
        return Ok(());
    }
    let (Some(Value::Array(present)), Value::Array(items)) = (target.get_mut(name), items) else {
        return Ok(());
    };
    let place = FieldStrategy::of(schema, name);
    list::delete(present, items, &place, work)
}

fn merge_field(
    target: &mut PatchFields,
    name: &str,
    change: &Value,
    schema: Option<&Schema>,
    work: &WorkBudget,
) -> Result<(), Status> {
    let place = FieldStrategy::of(schema, name);
    match (target.get_mut(name), change) {
        (_, Value::Null) => {
            target.remove(name);
        }
        (Some(Value::Object(present)), Value::Object(fields)) if place.merge.patch.replace => {
            present.clone_from(fields);
        }
        (Some(Value::Object(present)), Value::Object(fields)) => {
            merge_map(present, fields, place.schema, work)?;
        }
        (Some(Value::Array(present)), Value::Array(items)) => {
            list::merge_or_replace(present, items, &place, work)?;
        }
        _ => match without_directives(change) {
            Some(value) => drop(target.insert(name.to_owned(), value)),
            None => drop(target.remove(name)),
        },
    }
    Ok(())
}

/// The merge rules that the schema has for a field. If it has none, maps merge and lists are replaced.
struct FieldStrategy<'a> {
    schema: Option<&'a Schema>,
    merge: &'a MergeRules,
}

impl<'a> FieldStrategy<'a> {
    fn of(schema: Option<&'a Schema>, field: &str) -> Self {
        match schema.map(|schema| &schema.kind) {
            Some(SchemaType::Object(object)) => {
                let property = object.properties.get(field).or(object.additional.as_deref());
                property.map_or(Self { schema: None, merge: &UNDECLARED }, Self::below)
            }
            _ => Self { schema: None, merge: &UNDECLARED },
        }
    }

    fn below(property: &'a Property) -> Self {
        Self { schema: Some(&property.schema), merge: &property.merge }
    }

    /// Returns the schema of the elements of the list.
    fn items(&self) -> Option<&'a Schema> {
        match &self.schema?.kind {
            SchemaType::Array(items) => Some(&items.schema),
            _ => None,
        }
    }

    fn key(&self) -> Option<&'a str> {
        self.merge.patch_key.as_deref()
    }
}

/// Returns the list that a key such as `$setElementOrder/ports` refers to; fails if it names no list.
fn directed_list<'a>(key: &'a str, prefix: &str) -> Option<Result<&'a str, Status>> {
    let rest = key.strip_prefix(prefix)?;
    let about = if prefix == SET_ORDER { "setElementOrder list" } else { "primitive list" };
    let malformed = || Status::bad_request(format!("invalid patch format of {about}"));
    Some(rest.strip_prefix('/').ok_or_else(malformed))
}

/// Returns a new value without its directives: nulls would remove absent fields, and a map with a directive counts as
/// absent.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Some(kept.filter_map(|(name, value)| Some((name.clone(), without_directives(value)?))).collect())
        }
        Value::Array(items) => Some(items.iter().filter_map(without_directives).collect()),
        scalar => Some(scalar.clone()),
    }
}

fn unknown_directive(directive: &Value, map: &PatchFields) -> Status {
    let map = Value::Object(map.clone());
    Status::unclassified(format!("unknown patch type: {} in map: {}", GoPrinted(directive), GoPrinted(&map)))
}

fn missing_key(element: &Value, key: &str) -> Status {
    Status::unclassified(format!("map: {} does not contain declared merge key: {key}", GoPrinted(element)))
}

fn wrong_type(expected: &Value, found: &Value) -> Status {
    let (expected, found) = (go_format::type_of(expected), go_format::type_of(found));
    Status::unclassified(format!("expected a {expected}, but received a {found}"))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests;
