//! Event: what happened to an object, kept for a while.

use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::fill::text;
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;
use crate::table::cells;

/// The fields selectors of Events may name, in the core form both groups are kept in.
pub(crate) const SELECTABLE: Selectable = Selectable {
    value: Some(|name, event| (name == "source").then(|| source(event))),
    ..Selectable::fields(&[
        ("involvedObject.kind", Absent::Empty),
        ("involvedObject.namespace", Absent::Empty),
        ("involvedObject.name", Absent::Empty),
        ("involvedObject.uid", Absent::Empty),
        ("involvedObject.apiVersion", Absent::Empty),
        ("involvedObject.resourceVersion", Absent::Empty),
        ("involvedObject.fieldPath", Absent::Empty),
        ("reason", Absent::Empty),
        ("reportingComponent", Absent::Empty),
        ("source", Absent::Empty),
        ("type", Absent::Empty),
    ])
};

/// The columns of Events of both groups.
pub(crate) const COLUMNS: &[Column] = &[
    Column::text("Last Seen"),
    Column::text("Type"),
    Column::text("Reason"),
    Column::text("Object"),
    Column::text("Subobject").wide(),
    Column::text("Source").wide(),
    Column::text("Message"),
    Column::text("First Seen").wide(),
    Column::text("Count").wide(),
    Column::names("Name").wide(),
];

/// What happened to an object, kept for a while.
pub(crate) static EVENT: Kind = Kind {
    short_names: &["ev"],
    strategy: PLAIN.created_by_update().uncollectable().named(NameRule::PathSegment),
    validate: Some(validate::event::core),
    columns: COLUMNS,
    cells: Some(cells::event::event),
    selectable: SELECTABLE,
    ..Kind::namespaced("", "v1", "events", "Event")
};

fn source(event: &Value) -> String {
    let component = event.get("source").map(|source| text(source, "component")).unwrap_or_default();
    if component.is_empty() { text(event, "reportingComponent") } else { component }.to_owned()
}
