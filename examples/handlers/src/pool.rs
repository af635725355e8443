//! Pools of volumes: claims with the label `pool` report to the pool with that name, which counts them.
//!
//! Each claim writes one entry of the pool's status, `status.children.{claim}`, however many others do so at the same
//! moment; the pool reacts to that field and otherwise knows nothing about claims.

use std::collections::BTreeMap;

use homeostat::prelude::*;

use crate::EphemeralVolumeClaim;

/// The label of a claim that names its pool.
pub const POOL: &str = "pool";

/// A group of claims.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
#[kube(group = "kopf.dev", version = "v1", kind = "VolumePool", namespaced, status = "VolumePoolStatus")]
pub struct VolumePoolSpec {}

/// The reports of a pool's claims, and their sum.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct VolumePoolStatus {
    /// The size of each claim, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, String>,
    /// How many claims there are.
    #[serde(default)]
    pub claims: usize,
    /// The condition `Handled`: whether the handlers have finished.
    #[serde(flatten)]
    pub base: StandardStatus,
}

/// A claim's report, and the pool that gets it.
#[derive(Serialize, Deserialize, Clone, PartialEq)]
pub(crate) struct Membership {
    pool: Option<String>,
    size: String,
}

pub(crate) fn membership(claim: &EphemeralVolumeClaim) -> Membership {
    Membership { pool: claim.labels().get(POOL).cloned(), size: claim.spec.size.clone() }
}

/// Step 5: reports a claim's size to its pool, and withdraws the report from a pool it has left.
pub(crate) async fn report(
    membership: FieldUpdate<Membership>,
    claim: Arc<EphemeralVolumeClaim>,
    cx: HandlerContext<EphemeralVolumeClaim>,
) -> Result<()> {
    let Membership { pool, size } = membership.new;
    let former = membership.old.and_then(|old| old.pool).filter(|former| Some(former) != pool.as_ref());
    if let Some(former) = former {
        cx.withdraw_report::<VolumePool>(former.as_str(), claim.name_any()).await?;
    }
    if let Some(pool) = pool {
        cx.report::<VolumePool>(pool.as_str(), claim.name_any(), size).await?;
    }
    Ok(())
}

/// Removes a deleted claim from its pool.
pub(crate) async fn leave(
    claim: Arc<EphemeralVolumeClaim>,
    cx: HandlerContext<EphemeralVolumeClaim>,
) -> Result<()> {
    if let Some(pool) = claim.labels().get(POOL) {
        cx.withdraw_report::<VolumePool>(pool.as_str(), claim.name_any()).await?;
    }
    Ok(())
}

/// Returns the other half of step 5: the pool reacts to its claims' reports.
pub(crate) fn pools() -> BuiltController {
    Controller::new().handlers(Handlers::new().on_field("tally", children, tally))
}

fn children(pool: &VolumePool) -> BTreeMap<String, String> {
    pool.status.clone().unwrap_or_default().children
}

async fn tally(
    children: FieldUpdate<BTreeMap<String, String>>,
    _: Arc<VolumePool>,
    cx: HandlerContext<VolumePool>,
) -> Result<()> {
    cx.status(|status| status.claims = children.new.len());
    Ok(())
}
