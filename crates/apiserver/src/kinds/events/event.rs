//! Event: what happened to an object, kept for a while.

use std::borrow::Cow;

use crate::kinds::core::event;
use crate::kinds::declaration::{Conversion, Kind};
use crate::kinds::events::convert::{from_core, to_core};
use crate::kinds::selectable::Selectable;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;
use crate::table::cells;

/// What happened to an object, kept for a while.
pub(crate) static EVENT: Kind = Kind {
    short_names: &["ev"],
    stored_in: ("", "v1"),
    conversion: Some(Conversion {
        is_current: |_, _| false,
        from_stored: |event, _| from_core(event),
        to_stored: |event, _| Some(to_core(event.clone())),
    }),
    strategy: PLAIN.created_by_update().uncollectable(),
    validate_create: Some(validate::event::newer_create),
    validate_update: Some(validate::event::newer_update),
    judged_as: Some(to_core),
    columns: event::COLUMNS,
    cells: Some(cells::event::event),
    selectable: Selectable { alias: Some(core_field), ..event::SELECTABLE },
    ..Kind::namespaced("events.k8s.io", "v1", "events", "Event")
};

/// The core name of a field; `None`: this group has no such field.
fn core_field(name: &str) -> Option<Cow<'_, str>> {
    match name {
        "reportingController" => Some("reportingComponent".into()),
        "source" | "reportingComponent" => None,
        name if name.starts_with("involvedObject.") => None,
        name => Some(match name.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}").into(),
            None => name.into(),
        }),
    }
}
