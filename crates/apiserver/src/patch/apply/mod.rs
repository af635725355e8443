//! Server-side apply and the bookkeeping of who manages which field (`metadata.managedFields`).
//!
//! The verbs call [`track_update`] for every write that is no apply, [`apply()`] for every apply, and after defaulting
//! [`keep_times`], so that a write that changes nothing but a timestamp is none. A write through a Scale is
//! tracked on the object it scales, with `scale` as the subresource.
//!
//! **Invariant:** sets of fields are kept as `FieldsV1` writes them and are edited in place. All entries are read with
//! the schema of the request's version: versions of one kind share their stored form.

mod compare;
mod element;
mod last_applied;
mod managers;
mod merge;
mod perform;
mod place;
mod remove;
mod set;
mod typed;
mod update;
mod validate;

use jiff::Timestamp;

use managers::{Entry, Operation};
pub use perform::apply;
use set::Fields;
pub use update::{keep_times, track_update};

/// Who writes, through which endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// `apiVersion` of the endpoint's objects.
    pub api_version: &'a str,
    /// `kind` of the endpoint's objects.
    pub kind: &'a str,
    /// The subresource written through; empty for the object itself.
    pub subresource: &'a str,
    /// When.
    pub time: Timestamp,
}

/// Dotted paths the endpoint does not write, whatever the request says: nobody comes to own them through it.
pub type ResetFields = [&'static str];

impl Manager<'_> {
    fn entry(&self, operation: Operation, fields: Fields) -> Entry {
        Entry {
            manager: if self.name.is_empty() { "unknown".to_owned() } else { self.name.to_owned() },
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            // As in Kubernetes, what came through a Scale has no time.
            time: (self.subresource != "scale").then(|| self.time_text()),
            fields,
        }
    }

    /// The time as Kubernetes writes it, in whole seconds.
    fn time_text(&self) -> String {
        let whole = Timestamp::from_second(self.time.as_second()).unwrap_or(self.time);
        whole.to_string()
    }
}
