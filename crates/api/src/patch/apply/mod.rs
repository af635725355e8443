//! Implements server-side apply and tracks field ownership (`metadata.managedFields`).
//!
//! The verbs call [`track_update`] for every write that is not an apply, [`apply()`] for every apply, and
//! [`keep_times`] after defaulting, so that a write that changes nothing but a timestamp is skipped. A write through
//! a Scale is tracked on the object it scales, with `scale` as the subresource.
//!
//! **Invariant:** sets of fields are kept in their `FieldsV1` form and edited in place. All entries are read with the
//! schema of the request's version: all versions of a kind share their stored form.

mod apply_request;
mod compare;
mod conflicts;
mod field_set;
mod last_applied;
mod manager_entries;
mod merge;
mod owned_fields;
mod path_step;
mod remove_fields;
mod schema_position;
mod track_update;
mod validate;

use jiff::Timestamp;

pub use apply_request::{apply, merge_configuration};
use field_set::FieldSet;
use manager_entries::{ManagerEntry, ManagerOperation};
pub use track_update::{keep_times, track_update};

/// The field manager of a write, and the endpoint it writes through.
#[derive(Clone, Copy, Debug)]
pub struct FieldManager<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// `apiVersion` of the endpoint's objects.
    pub api_version: &'a str,
    /// `kind` of the endpoint's objects.
    pub kind: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write.
    pub time: Timestamp,
}

/// Dotted paths that the endpoint never writes, regardless of the request, so no manager comes to own them through it.
pub type ResetFields = [&'static str];

impl FieldManager<'_> {
    fn entry(&self, operation: ManagerOperation, fields: FieldSet) -> ManagerEntry {
        ManagerEntry {
            manager: if self.name.is_empty() { "unknown".to_owned() } else { self.name.to_owned() },
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            // As in Kubernetes, writes through a Scale have no time.
            time: (self.subresource != "scale").then(|| self.time_text()),
            fields,
        }
    }

    /// Returns the time as Kubernetes writes it, in whole seconds.
    fn time_text(&self) -> String {
        let whole = Timestamp::from_second(self.time.as_second()).unwrap_or(self.time);
        whole.to_string()
    }
}
