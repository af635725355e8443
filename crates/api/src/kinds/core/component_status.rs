//! ComponentStatus: the health of the control plane's parts; it is no longer reported.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::Column;
use crate::resource::declaration::BuiltInKind;

/// The health of the control plane's parts; it is no longer reported.
pub(crate) static COMPONENT_STATUS: BuiltInKind = BuiltInKind {
    verbs: &["get", "list"],
    short_names: &["cs"],
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: &[Column::NAME, Column::text("Status"), Column::text("Message"), Column::text("Error")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("", "v1", "componentstatuses", "ComponentStatus")
};

fn cells(object: &Value, _: Timestamp) -> Vec<Value> {
    let conditions = read::list_at(object, "conditions");
    let healthy = conditions.iter().find(|condition| read::string_at(condition, "type") == "Healthy");
    let status = match healthy.map(|condition| read::string_at(condition, "status")) {
        None => "Unknown",
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
    };
    let said = |field| healthy.map_or("", |condition| read::string_at(condition, field)).into();
    vec![read::name(object).into(), status.into(), said("message"), said("error")]
}
