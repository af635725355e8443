//! CSIDriver: a storage driver and what it can do.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::declaration::Kind;
use crate::kinds::fill::{Fields, fill, fill_zero, made};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;

/// A storage driver and what it can do.
pub(crate) static CSI_DRIVER: Kind = Kind {
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
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
};

/// A CSIDriver.
fn defaults(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, name, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let must_attach = read::at(object, "spec.attachRequired").and_then(Value::as_bool).unwrap_or(true);
    let tokens = read::at(object, "spec.tokenRequests").and_then(Value::as_array).map_or_else(
        || "<unset>".to_owned(),
        |requests| read::joined(requests.iter().map(|request| read::text(request, "audience")), ","),
    );
    let modes = read::texts(object, "spec.volumeLifecycleModes", ",");
    vec![
        read::name(object).into(),
        must_attach.into(),
        read::flag(object, "spec.podInfoOnMount").into(),
        read::flag(object, "spec.storageCapacity").into(),
        tokens.into(),
        read::flag(object, "spec.requiresRepublish").into(),
        if modes.is_empty() { "<none>".to_owned() } else { modes }.into(),
        age::of(object, now).into(),
    ]
}
