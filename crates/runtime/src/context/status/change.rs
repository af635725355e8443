//! Represents the changes that a reconciler made to a status, without the rest of the status.
//!
//! A change is the difference between the status a draft started from and the final status: by entry for maps, by type
//! for conditions, and as a whole for every other list. It contains nothing that the reconciler did not touch, so it
//! does not affect the parts that other writers of the same status wrote, and the change can be applied again to a
//! newer status. This module performs no I/O; `json_patch` turns a change into a patch.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The field of a status that lists conditions, each identified by its type.
pub(super) const CONDITIONS: &str = "conditions";

/// The changes to an object's fields, by name.
pub(super) type Fields = BTreeMap<String, FieldChange>;

/// The changes that a reconciler made to a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StatusChange {
    pub(super) fields: Fields,
    pub(super) conditions: Vec<ConditionChange>,
}

/// How one field changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum FieldChange {
    /// Set to this value.
    Set(Value),
    /// Set to this value if absent: a default of the type that was not set explicitly.
    SetIfAbsent(Value),
    /// The field is removed. If others have since added members to an object, only the known members are removed.
    Remove(Value),
    /// The field is an object, and these of its own fields change.
    Within(Fields),
}

/// How the condition with one type changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ConditionChange {
    pub(super) r#type: String,
    pub(super) change: EntryChange,
}

/// How one entry of a list changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum EntryChange {
    /// These fields are set to these values; null removes a field.
    Set {
        fields: Map<String, Value>,
        /// The complete entry, if there is none yet.
        whole: Map<String, Value>,
        /// Whether we maintain its transition time, which changes when the condition's status does.
        is_dated: bool,
    },
    /// Removed.
    Remove,
}

impl StatusChange {
    /// Compares a status with the one it was derived from. A status derived from nothing includes its type's
    /// `defaults`.
    pub(super) fn between(base: &Value, new: &Value, defaults: &Value) -> Self {
        let (mut base, mut new) = (object(base), object(new));
        let conditions = match (entries(base.get(CONDITIONS)), entries(new.get(CONDITIONS))) {
            (Some(old), Some(now)) => {
                let changes = changed_conditions(&old, &now);
                base.remove(CONDITIONS);
                new.remove(CONDITIONS);
                changes
            }
            _ => Vec::new(),
        };
        let fields = if base.is_empty() { introduced(&new, &object(defaults)) } else { between(&base, &new) };
        Self { fields, conditions }
    }

    /// Sets one entry of a map, or removes it.
    pub(in crate::context) fn entry(map: &str, name: &str, value: Option<&Value>) -> Self {
        let change = match value {
            Some(value) => FieldChange::Set(value.clone()),
            // It is removed whatever it contains.
            None => FieldChange::Remove(Value::Null),
        };
        let within = FieldChange::Within(Fields::from([(name.to_owned(), change)]));
        Self { fields: Fields::from([(map.to_owned(), within)]), conditions: Vec::new() }
    }

    /// Sets one field.
    pub(in crate::context) fn set(&mut self, name: &str, value: Value) {
        self.fields.insert(name.to_owned(), FieldChange::Set(value));
    }

    /// Sets a condition. Its transition time is determined when it is written.
    pub(in crate::context) fn set_condition(&mut self, condition: &Condition) {
        self.conditions.retain(|other| other.r#type != condition.type_);
        let mut fields = object(&json!(condition));
        fields.remove("type");
        fields.remove("lastTransitionTime");
        let change = EntryChange::Set { whole: fields.clone(), fields, is_dated: true };
        self.conditions.push(ConditionChange { r#type: condition.type_.clone(), change });
    }
}

/// Returns the fields of an object; an empty map for any other value.
fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn between(old: &Map<String, Value>, new: &Map<String, Value>) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in new {
        let change = match (old.get(name), value) {
            (Some(before), value) if before == value => continue,
            (Some(Value::Object(before)), Value::Object(now)) => FieldChange::Within(between(before, now)),
            (None, Value::Object(now)) if !now.is_empty() => {
                FieldChange::Within(introduced(now, &Map::new()))
            }
            (_, value) => FieldChange::Set(value.clone()),
        };
        fields.insert(name.clone(), change);
    }
    let gone = old.iter().filter(|(name, _)| !new.contains_key(*name));
    fields.extend(gone.map(|(name, value)| (name.clone(), FieldChange::Remove(value.clone()))));
    fields
}

/// Returns the changes that introduce an object that did not exist.
fn introduced(new: &Map<String, Value>, defaults: &Map<String, Value>) -> Fields {
    let change = |(name, value): (&String, &Value)| {
        let default = defaults.get(name);
        let change = match value {
            Value::Object(fields) if !fields.is_empty() => {
                FieldChange::Within(introduced(fields, &object(default.unwrap_or(&Value::Null))))
            }
            value if default == Some(value) => FieldChange::SetIfAbsent(value.clone()),
            value => FieldChange::Set(value.clone()),
        };
        (name.clone(), change)
    };
    new.iter().map(change).collect()
}

/// Returns the entries of a list of conditions by their type; `None` if it is another kind of list.
fn entries(list: Option<&Value>) -> Option<Vec<(&str, &Map<String, Value>)>> {
    let items = match list {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(list) => list.as_array()?,
    };
    let mut types = BTreeSet::new();
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        let r#type = item["type"].as_str()?;
        if !types.insert(r#type) {
            return None;
        }
        entries.push((r#type, item.as_object()?));
    }
    Some(entries)
}

fn changed_conditions(
    old: &[(&str, &Map<String, Value>)],
    new: &[(&str, &Map<String, Value>)],
) -> Vec<ConditionChange> {
    let find = |entries: &[(&str, &Map<String, Value>)], r#type: &str| {
        entries.iter().find(|(other, _)| *other == r#type).map(|(_, fields)| (*fields).clone())
    };
    let mut changes = Vec::new();
    for (r#type, now) in new {
        let before = find(old, r#type).unwrap_or_default();
        let mut fields: Map<String, Value> = now
            .iter()
            .filter(|(name, value)| before.get(*name) != Some(value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let gone = before.keys().filter(|name| !now.contains_key(*name));
        fields.extend(gone.map(|name| (name.clone(), Value::Null)));
        fields.remove("type");
        if !fields.is_empty() || !old.iter().any(|(other, _)| other == r#type) {
            let change = EntryChange::Set { fields, whole: (*now).clone(), is_dated: false };
            changes.push(ConditionChange { r#type: (*r#type).to_owned(), change });
        }
    }
    let gone = old.iter().filter(|(r#type, _)| find(new, r#type).is_none());
    changes.extend(
        gone.map(|(r#type, _)| ConditionChange { r#type: (*r#type).to_owned(), change: EntryChange::Remove }),
    );
    changes
}
