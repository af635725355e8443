//! Ephemeral volume claims: the operator of Kopf's tutorial, one handler for each thing that happens to a claim.
//!
//! An `EphemeralVolumeClaim` asks for a volume of a size. It gets a PersistentVolumeClaim that it owns: created with
//! the claim (step 1), resized when its size changes (step 2), labelled like the claim (step 3), and deleted with it
//! through ownership, without any code (step 4). Claims of a [`VolumePool`] report to it (step 5). A volume that
//! is deleted by hand is created again (step 6).

use std::collections::BTreeMap;

use homeostat::prelude::*;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

mod pool;

pub use pool::{POOL, VolumePool, VolumePoolSpec, VolumePoolStatus};

/// A claim for a volume of a size.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
#[kube(
    group = "kopf.dev",
    version = "v1",
    kind = "EphemeralVolumeClaim",
    shortname = "evc",
    namespaced,
    status = "EphemeralVolumeClaimStatus"
)]
pub struct EphemeralVolumeClaimSpec {
    /// The size, as a quantity: `1G`.
    #[serde(default)]
    pub size: String,
}

/// The results of the handlers, each under its id.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct EphemeralVolumeClaimStatus {
    /// The result of `create`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Created>,
    /// The condition `Handled`: whether the handlers have finished.
    #[serde(flatten)]
    pub base: StandardStatus,
}

/// The result of `create`.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    /// The name of the PersistentVolumeClaim.
    pub pvc_name: String,
}

/// How long a deleted volume may be missing. Ticks less than a minute apart are not recorded, so they write nothing.
const RESTORE_INTERVAL: Duration = Duration::from_secs(30);

/// Returns the operator.
pub fn operator() -> Operator {
    let handlers = Handlers::<EphemeralVolumeClaim>::new()
        .on_create("create", create)
        .on_update("resize", resize)
        .on_field("relabel", labels, relabel)
        .on_field("report", pool::membership, pool::report)
        .on_delete("leave", pool::leave)
        .label(POOL, ValueFilter::Present)
        .every("restore", RESTORE_INTERVAL, restore)
        .initial_delay(RESTORE_INTERVAL);
    let claims =
        Controller::new().owns::<PersistentVolumeClaim>().reports_to::<VolumePool>().handlers(handlers);
    Operator::new("evc.kopf.dev")
        .crd::<EphemeralVolumeClaim>()
        .crd::<VolumePool>()
        .control(claims)
        .control(pool::pools())
}

/// Step 1: creates the volume. The result is stored in `status.create`.
async fn create(
    claim: Arc<EphemeralVolumeClaim>,
    cx: HandlerContext<EphemeralVolumeClaim>,
) -> Result<Created> {
    let volume = cx.apply(volume(&claim)?).await?;
    cx.event(Severity::Normal, "Created", format!("created the volume claim {}", volume.name_any()));
    Ok(Created { pvc_name: volume.name_any() })
}

/// Step 2: resizes the volume when the size has changed.
async fn resize(diff: Diff<EphemeralVolumeClaim>, cx: HandlerContext<EphemeralVolumeClaim>) -> Result<()> {
    if diff.touches(&["spec", "size"]) {
        cx.apply(volume(&diff.new)?).await?;
    }
    Ok(())
}

/// Step 3: makes the same changes to the volume's labels; its other labels are left alone.
async fn relabel(
    labels: FieldUpdate<BTreeMap<String, String>>,
    claim: Arc<EphemeralVolumeClaim>,
    cx: HandlerContext<EphemeralVolumeClaim>,
) -> Result<()> {
    let changed = labels
        .changes()
        .into_iter()
        .filter_map(|change| Some((change.path.last()?.clone(), change.new.into())));
    let patch: BTreeMap<String, Value> = changed.collect();
    let volumes: Api<PersistentVolumeClaim> = Api::namespaced(cx.client().clone(), cx.key().namespace());
    let patch = Patch::Merge(json!({"metadata": {"labels": patch}}));
    volumes.patch(&claim.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Step 6: creates the volume again if it has been deleted. No handler of a change notices that, because the claim
/// has not changed.
async fn restore(claim: Arc<EphemeralVolumeClaim>, cx: HandlerContext<EphemeralVolumeClaim>) -> Result<()> {
    if !claim.spec.size.is_empty() && cx.get::<PersistentVolumeClaim>(&*claim.name_any())?.is_none() {
        cx.apply(volume(&claim)?).await?;
    }
    Ok(())
}

fn labels(claim: &EphemeralVolumeClaim) -> BTreeMap<String, String> {
    claim.labels().clone()
}

/// Returns the volume of a claim. Step 4 is in here: `apply` makes the claim its owner, so it is deleted with the
/// claim.
fn volume(claim: &EphemeralVolumeClaim) -> Result<PersistentVolumeClaim> {
    if claim.spec.size.is_empty() {
        return Err(terminal("spec.size must be set"));
    }
    Ok(from_json(&json!({
        "metadata": {"name": claim.name_any(), "labels": claim.labels()},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": claim.spec.size}},
        },
    }))?)
}
