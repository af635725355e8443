//! ResourceClaim: a request for devices.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::subresource::STATUS;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};

/// A request for devices.
pub(crate) static RESOURCE_CLAIM: BuiltInKind = BuiltInKind {
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(ALL_BUT_STATUS),
    columns: &[Column::NAME, Column::text("State"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
};

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_allocated = read::value_at(object, "status.allocation").is_some();
    let is_reserved = !read::list_at(object, "status.reservedFor").is_empty();
    let states = [
        ("deleted", read::is_deleted(object)),
        ("pending", !is_allocated && !read::is_deleted(object)),
        ("allocated", is_allocated),
        ("reserved", is_allocated && is_reserved),
    ];
    let state = read::joined(states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state), ",");
    vec![read::name(object).into(), state.into(), age::age_of_object(object, now).into()]
}
