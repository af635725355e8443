//! Server-side apply: merge the configuration, prune what its manager gave up, settle conflicts, record ownership.
//!
//! **Invariant:** an apply that changes neither object nor ownership returns what is stored, times included.
//! Defaulting, validation and the check of names are the verbs'.

use std::ops::ControlFlow;

use serde_json::Value;

use super::compare::{Difference, compare, created};
use super::managers::{self, Entry, Operation};
use super::place::Place;
use super::set::{self, Fields};
use super::update::{is_same_object, release};
use super::{Manager, ResetFields, element, last_applied, merge, remove, typed, validate};
use crate::field::cut_text;
use crate::schema::Schema;
use crate::status::{Cause, Status};

/// The manager that owns the fields of an object nobody tracked, once somebody applies.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies `config` to `live` (`None`: to be created), and gives the merged object with its managedFields.
///
/// `force` takes fields from other managers instead of refusing.
pub fn apply(
    schema: Option<&Schema>,
    live: Option<&Value>,
    config: &Value,
    manager: &Manager<'_>,
    force: bool,
    reset: &ResetFields,
) -> Result<Value, Status> {
    let root = Place::root(schema);
    check_config(config, manager, root)?;
    let request = Request { root, live, config, manager, reset };
    let entries = request.starting_entries();
    let outcome = if force || manager.name != last_applied::KUBECTL {
        request.perform(entries, force)
    } else {
        request.perform(entries.clone(), false).or_else(|conflicts| {
            let unexcused = request.beyond_last_applied(conflicts);
            if unexcused.is_empty() { request.perform(entries, true) } else { Err(unexcused) }
        })
    };
    let mut object = outcome.map_err(|conflicts| refusal(&conflicts))?;
    if manager.name == last_applied::KUBECTL {
        last_applied::refresh(&mut object, config);
    }
    Ok(object)
}

/// Refuses configurations of another type, with managers of their own, or that do not fit the schema.
fn check_config(config: &Value, manager: &Manager<'_>, root: Place<'_>) -> Result<(), Status> {
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

/// Conflicts told one by one: more than anybody reads.
const CONFLICTS_SHOWN_MAX: usize = 1000;
/// Bytes of the paths told: each repeats the names above its field, so a long name above many would make gigabytes.
const CONFLICTS_BYTES_MAX: usize = 128 * 1024;

/// Fields that another manager holds.
struct Conflict {
    /// Without its fields.
    holder: Entry,
    fields: Fields,
}

struct Request<'a> {
    root: Place<'a>,
    live: Option<&'a Value>,
    config: &'a Value,
    manager: &'a Manager<'a>,
    reset: &'a ResetFields,
}

impl Request<'_> {
    /// The managers before this apply. Everything in an untracked object has one of its own.
    fn starting_entries(&self) -> Vec<Entry> {
        let Some(live) = self.live else { return Vec::new() };
        let mut entries = managers::of(live).cloned().map(managers::stored).unwrap_or_default();
        for entry in &mut entries {
            typed::reconcile(&mut entry.fields, self.root);
        }
        if entries.is_empty() {
            let before = Manager { name: BEFORE_FIRST_APPLY, ..*self.manager };
            entries.push(before.entry(Operation::Update, created(live, self.root, self.reset)));
            entries.retain(|entry| !entry.fields.is_empty());
        }
        entries
    }

    fn perform(&self, mut entries: Vec<Entry>, force: bool) -> Result<Value, Vec<Conflict>> {
        let mut owned = typed::field_set(self.config, self.root);
        set::remove_below(&mut owned, self.reset);
        let mut own = self.manager.entry(Operation::Apply, owned);
        let last = entries.iter().position(|entry| entry.is_same_manager(&own)).map(|at| entries.remove(at));
        let mut object = self.merged();
        if let Some(last) = &last {
            self.prune(&mut object, &last.fields, &own.fields, &entries);
        }
        let difference = self
            .live
            .map_or_else(Difference::default, |live| compare(live, &object, self.root).without(self.reset));
        let conflicts = conflicts(&entries, &difference);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        release(&mut entries, &difference);
        if self.live.is_some_and(|live| is_same_object(live, &object)) {
            own.time = last.and_then(|last| last.time);
        }
        entries.push(own);
        managers::put(&mut object, entries);
        Ok(object)
    }

    fn merged(&self) -> Value {
        let Some(live) = self.live else { return self.config.clone() };
        let mut object = live.clone();
        managers::take(&mut object);
        merge::merge(&mut object, self.config, self.root);
        object
    }

    /// Removes what this manager applied last time and does not apply now, unless another manager owns it. Fields
    /// that nobody owns stay, and so does what contains them.
    fn prune(&self, object: &mut Value, last: &Fields, owned: &Fields, others: &[Entry]) {
        if set::contains_all(owned, last) {
            return;
        }
        let named = |set: &Fields| typed::with_named_parents(set, self.root);
        let last = named(last);
        let mut still_owned = named(owned);
        for other in others {
            set::add(&mut still_owned, &named(&other.fields));
        }
        let all = named(&typed::field_set(object, self.root));
        let kept = self.kept_without(object, &last);
        set::add(&mut still_owned, &kept);
        let mut given_up = all.clone();
        set::subtract(&mut given_up, &still_owned);
        let kept = self.kept_without(object, &given_up);
        let mut gone = all;
        set::subtract(&mut gone, &kept);
        remove::remove(object, &set::intersection(&gone, &last), self.root);
        // A map that lost its last item is null now; the configuration may say that it is there, empty.
        merge::merge(object, self.config, self.root);
    }

    /// The fields of the object that are left when these items are taken out.
    fn kept_without(&self, object: &Value, items: &Fields) -> Fields {
        let mut rest = object.clone();
        remove::remove(&mut rest, items, self.root);
        typed::with_named_parents(&typed::field_set(&rest, self.root), self.root)
    }

    /// The conflicts that client-side apply does not excuse.
    fn beyond_last_applied(&self, mut conflicts: Vec<Conflict>) -> Vec<Conflict> {
        let transferable =
            self.live.and_then(|live| last_applied::transferable(live, self.manager.api_version, self.root));
        if let Some(transferable) = transferable {
            for conflict in &mut conflicts {
                set::subtract(&mut conflict.fields, &transferable);
            }
            conflicts.retain(|conflict| !conflict.fields.is_empty());
        }
        conflicts
    }
}

/// The fields that others own and this apply would change.
fn conflicts(entries: &[Entry], difference: &Difference) -> Vec<Conflict> {
    let mut found = Vec::new();
    for entry in entries {
        let fields = set::intersection(&entry.fields, &difference.changed);
        if !fields.is_empty() {
            found.push(Conflict { holder: entry.without_fields(), fields });
        }
    }
    found.sort_by(|left, right| left.holder.identity().cmp(&right.holder.identity()));
    found
}

fn refusal(conflicts: &[Conflict]) -> Status {
    let count = conflicts.iter().map(|conflict| set::count(&conflict.fields)).sum::<usize>();
    let mut told = Told::default();
    for held in conflicts.chunk_by(|left, right| left.holder.is_same_manager(&right.holder)) {
        told.tell(held, count);
    }
    if count > told.causes.len() {
        told.lines.push(format!("and {} more", count - told.causes.len()));
    }
    let message = match &*told.causes {
        [one] if count == 1 => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        _ => format!("Apply failed with {count} conflicts: {}", told.lines.join("\n")),
    };
    Status::apply_conflict(message, told.causes)
}

/// The conflicts that are told, up to a limit.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    causes: Vec<Cause>,
    bytes: usize,
}

impl Told {
    /// Tells of the conflicts with one manager.
    fn tell(&mut self, held: &[Conflict], count: usize) {
        let Some(first) = held.first() else { return };
        let holder = first.holder.shown();
        if count > 1 {
            self.lines.push(format!("conflicts with {holder}:"));
        }
        for conflict in held {
            let _ = set::visit_paths(&conflict.fields, &mut |path| {
                if self.causes.len() >= CONFLICTS_SHOWN_MAX || self.bytes >= CONFLICTS_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                let mut field = path.iter().map(|step| element::shown(step)).collect::<String>();
                cut_text(&mut field, CONFLICTS_BYTES_MAX);
                self.bytes += field.len();
                self.lines.push(format!("- {field}"));
                let (reason, message) =
                    ("FieldManagerConflict".to_owned(), format!("conflict with {holder}"));
                self.causes.push(Cause { reason, message, field });
                ControlFlow::Continue(())
            });
        }
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
#[path = "tests.rs"]
mod tests;
