//! Finds the conflicts of a server-side apply (fields that it would change but another manager owns) and writes the
//! error that lists them.
//!
//! **Invariant:** the size of the error is limited, however many fields conflict.

use std::ops::ControlFlow;

use super::compare::FieldDifference;
use super::field_set::{self, FieldSet};
use super::manager_entries::ManagerEntry;
use super::path_step;
use crate::field::cut_text;
use crate::status::{Cause, Status};

/// The maximum number of conflicts reported one by one: more than anyone reads.
const CONFLICTS_SHOWN_MAX: usize = 1000;
/// The maximum total length of reported paths: each repeats the names above its field, so a long name above many fields
/// would take gigabytes.
const CONFLICTS_BYTES_MAX: usize = 128 * 1024;

/// Fields that another manager owns.
pub(super) struct OwnershipConflict {
    /// The owner, without its fields.
    pub(super) holder: ManagerEntry,
    pub(super) fields: FieldSet,
}

/// Returns the fields that this apply would change and other managers own.
pub(super) fn find_conflicts(
    entries: &[ManagerEntry],
    difference: &FieldDifference,
) -> Vec<OwnershipConflict> {
    let mut found = Vec::new();
    for entry in entries {
        let fields = field_set::intersection(&entry.fields, &difference.changed);
        if !fields.is_empty() {
            found.push(OwnershipConflict { holder: entry.without_fields(), fields });
        }
    }
    found.sort_by(|left, right| left.holder.identity().cmp(&right.holder.identity()));
    found
}

/// Returns the error for an apply with these conflicts.
pub(super) fn refuse_conflicts(conflicts: &[OwnershipConflict]) -> Status {
    let count = conflicts.iter().map(|conflict| field_set::count(&conflict.fields)).sum::<usize>();
    let mut report = ConflictReport::default();
    for held in conflicts.chunk_by(|left, right| left.holder.is_same_manager(&right.holder)) {
        report.add(held, count);
    }
    if count > report.causes.len() {
        report.lines.push(format!("and {} more", count - report.causes.len()));
    }
    let message = match &*report.causes {
        [one] if count == 1 => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        _ => format!("Apply failed with {count} conflicts: {}", report.lines.join("\n")),
    };
    Status::apply_conflict(message, report.causes)
}

/// The conflicts to report, up to a limit.
#[derive(Default)]
struct ConflictReport {
    lines: Vec<String>,
    causes: Vec<Cause>,
    bytes: usize,
}

impl ConflictReport {
    /// Adds the conflicts with one manager.
    fn add(&mut self, held: &[OwnershipConflict], count: usize) {
        let Some(first) = held.first() else { return };
        let holder = first.holder.shown();
        if count > 1 {
            self.lines.push(format!("conflicts with {holder}:"));
        }
        for conflict in held {
            let _ = field_set::visit_paths(&conflict.fields, &mut |path| {
                if self.causes.len() >= CONFLICTS_SHOWN_MAX || self.bytes >= CONFLICTS_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                let mut field = path.iter().map(|step| path_step::shown(step)).collect::<String>();
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
