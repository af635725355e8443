//! Performs a server-side apply: merges the configuration, prunes the fields that its manager gave up, and records
//! ownership. `conflicts` finds the fields that other managers own.
//!
//! **Invariant:** an apply that changes neither object nor ownership returns the stored object, times included. The
//! verbs handle defaulting, validation and name checks.

use serde_json::Value;

use super::compare::{FieldDifference, compare, created};
use super::conflicts::{OwnershipConflict, find_conflicts, refuse_conflicts};
use super::field_set::{self, FieldSet};
use super::manager_entries::{self, ManagerEntry, ManagerOperation};
use super::schema_position::SchemaPosition;
use super::track_update::{is_same_object, release};
use super::{FieldManager, ResetFields, last_applied, merge, owned_fields, remove_fields, validate};
use crate::resource::Resource;
use crate::schema::Schema;
use crate::status::Status;

/// The manager that owns the fields of an untracked object after the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Merges a configuration into an object as an apply would, without recording who owns which field.
pub fn merge_configuration(resource: &Resource, object: &mut Value, config: &Value) {
    merge::merge(object, config, SchemaPosition::root(resource.schema().as_deref()));
}

/// Applies `config` to `live` (`None` to create it), and returns the merged object with its managedFields.
///
/// `force` takes fields from other managers instead of reporting a conflict.
pub fn apply(
    schema: Option<&Schema>,
    live: Option<&Value>,
    config: &Value,
    manager: &FieldManager<'_>,
    force: bool,
    reset: &ResetFields,
) -> Result<Value, Status> {
    let root = SchemaPosition::root(schema);
    check_config(config, manager, root)?;
    let request = ApplyRequest { root, live, config, manager, reset };
    let entries = request.starting_entries();
    let outcome = if force || manager.name != last_applied::KUBECTL {
        request.perform(entries, force)
    } else {
        request.perform(entries.clone(), false).or_else(|conflicts| {
            let unexcused = request.beyond_last_applied(conflicts);
            if unexcused.is_empty() { request.perform(entries, true) } else { Err(unexcused) }
        })
    };
    let mut object = outcome.map_err(|conflicts| refuse_conflicts(&conflicts))?;
    if manager.name == last_applied::KUBECTL {
        last_applied::refresh(&mut object, config);
    }
    Ok(object)
}

/// Rejects configurations that have a different type, have their own managedFields, or do not fit the schema.
fn check_config(config: &Value, manager: &FieldManager<'_>, root: SchemaPosition<'_>) -> Result<(), Status> {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let shown = format!("{group}/{version}, Kind={kind}");
    if (api_version, kind) != (manager.api_version, manager.kind) {
        return Err(Status::bad_request(format!("invalid object type: {shown}")));
    }
    if config.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    validate::validate(config, root).map_err(|wrong| {
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let about = format!("{namespace}/{name}; {shown}");
        Status::unclassified(format!("failed to create typed patch object ({about}): {wrong}"))
    })
}

struct ApplyRequest<'a> {
    root: SchemaPosition<'a>,
    live: Option<&'a Value>,
    config: &'a Value,
    manager: &'a FieldManager<'a>,
    reset: &'a ResetFields,
}

impl ApplyRequest<'_> {
    /// Returns the managers before this apply. Everything in an untracked object belongs to a separate manager.
    fn starting_entries(&self) -> Vec<ManagerEntry> {
        let Some(live) = self.live else { return Vec::new() };
        let mut entries = manager_entries::managed_fields_of(live)
            .cloned()
            .map(manager_entries::stored)
            .unwrap_or_default();
        for entry in &mut entries {
            owned_fields::reconcile(&mut entry.fields, self.root);
        }
        if entries.is_empty() {
            let before = FieldManager { name: BEFORE_FIRST_APPLY, ..*self.manager };
            entries.push(before.entry(ManagerOperation::Update, created(live, self.root, self.reset)));
            entries.retain(|entry| !entry.fields.is_empty());
        }
        entries
    }

    fn perform(&self, mut entries: Vec<ManagerEntry>, force: bool) -> Result<Value, Vec<OwnershipConflict>> {
        let mut owned = owned_fields::field_set(self.config, self.root);
        field_set::remove_below(&mut owned, self.reset);
        let mut own = self.manager.entry(ManagerOperation::Apply, owned);
        let last = entries.iter().position(|entry| entry.is_same_manager(&own)).map(|at| entries.remove(at));
        let mut object = self.merged();
        if let Some(last) = &last {
            self.prune(&mut object, &last.fields, &own.fields, &entries);
        }
        let difference = self.live.map_or_else(FieldDifference::default, |live| {
            compare(live, &object, self.root).without(self.reset)
        });
        let conflicts = find_conflicts(&entries, &difference);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        release(&mut entries, &difference);
        if self.live.is_some_and(|live| is_same_object(live, &object)) {
            own.time = last.and_then(|last| last.time);
        }
        entries.push(own);
        manager_entries::put(&mut object, entries);
        Ok(object)
    }

    fn merged(&self) -> Value {
        let Some(live) = self.live else { return self.config.clone() };
        let mut object = live.clone();
        manager_entries::take(&mut object);
        merge::merge(&mut object, self.config, self.root);
        object
    }

    /// Removes the fields that this manager applied last time but not now, unless another manager owns them. Unowned
    /// fields stay, and so do the objects and lists that contain them.
    fn prune(&self, object: &mut Value, last: &FieldSet, owned: &FieldSet, others: &[ManagerEntry]) {
        if field_set::contains_all(owned, last) {
            return;
        }
        let named = |set: &FieldSet| owned_fields::with_named_parents(set, self.root);
        let last = named(last);
        let mut still_owned = named(owned);
        for other in others {
            field_set::add(&mut still_owned, &named(&other.fields));
        }
        let all = named(&owned_fields::field_set(object, self.root));
        let kept = self.kept_without(object, &last);
        field_set::add(&mut still_owned, &kept);
        let mut given_up = all.clone();
        field_set::subtract(&mut given_up, &still_owned);
        let kept = self.kept_without(object, &given_up);
        let mut gone = all;
        field_set::subtract(&mut gone, &kept);
        remove_fields::remove(object, &field_set::intersection(&gone, &last), self.root);
        // A map that lost its last item is now null; the configuration may say that it is present but empty.
        merge::merge(object, self.config, self.root);
    }

    /// Returns the fields of the object that remain after removing these items.
    fn kept_without(&self, object: &Value, items: &FieldSet) -> FieldSet {
        let mut rest = object.clone();
        remove_fields::remove(&mut rest, items, self.root);
        owned_fields::with_named_parents(&owned_fields::field_set(&rest, self.root), self.root)
    }

    /// Returns the conflicts that an earlier client-side apply does not excuse.
    fn beyond_last_applied(&self, mut conflicts: Vec<OwnershipConflict>) -> Vec<OwnershipConflict> {
        let transferable =
            self.live.and_then(|live| last_applied::transferable(live, self.manager.api_version, self.root));
        if let Some(transferable) = transferable {
            for conflict in &mut conflicts {
                field_set::subtract(&mut conflict.fields, &transferable);
            }
            conflicts.retain(|conflict| !conflict.fields.is_empty());
        }
        conflicts
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
#[path = "tests.rs"]
mod tests;
