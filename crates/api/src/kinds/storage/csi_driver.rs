//! CSIDriver: a storage driver and what it can do.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::fill::{JsonObject, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// A storage driver and what it can do.
pub(crate) static CSI_DRIVER: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned(),
    defaults: Some(defaults),
    columns: &[
        Column::NAME,
        Column::truth("AttachRequired"),
        Column::truth("PodInfoOnMount"),
        Column::truth("StorageCapacity"),
        Column::text("TokenRequests"),
        Column::truth("RequiresRepublish"),
        Column::text("Modes"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
};

/// Fills in the defaults of a CSIDriver.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_absent(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set_if_absent(spec, name, false);
    }
    set_if_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    set_if_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let must_attach = read::value_at(object, "spec.attachRequired").and_then(Value::as_bool).unwrap_or(true);
    let tokens = read::value_at(object, "spec.tokenRequests").and_then(Value::as_array).map_or_else(
        || "<unset>".to_owned(),
        |requests| read::joined(requests.iter().map(|request| read::string_at(request, "audience")), ","),
    );
    let modes = read::join_strings_at(object, "spec.volumeLifecycleModes", ",");
    vec![
        read::name(object).into(),
        must_attach.into(),
        read::bool_at(object, "spec.podInfoOnMount").into(),
        read::bool_at(object, "spec.storageCapacity").into(),
        tokens.into(),
        read::bool_at(object, "spec.requiresRepublish").into(),
        if modes.is_empty() { "<none>".to_owned() } else { modes }.into(),
        age::age_of_object(object, now).into(),
    ]
}
