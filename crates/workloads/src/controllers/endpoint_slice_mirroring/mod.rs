//! Mirrors Endpoints that people write by hand into EndpointSlices, for Services without a selector. The decisions are
//! in `plan`.
//!
//! The slices belong to the Endpoints and disappear with them. Endpoints with the label
//! `endpointslice.kubernetes.io/skip-mirror` are left alone, and so are old leader election records.

mod plan;

use std::sync::Arc;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result, Severity};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use self::plan::{MirrorChange, MirrorPlan, mirror_plan, slice_patch};

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

pub(super) fn control() -> BuiltController {
    Controller::<Endpoints>::new()
        .named("endpoint-slice-mirroring-controller")
        .owns::<EndpointSlice>()
        .references::<Service, _>(|endpoints: &Endpoints| endpoints.metadata.name.clone())
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile(endpoints: Arc<Endpoints>, cx: Context<Endpoints>) -> Result {
    let mut slices = cx.owned::<EndpointSlice>()?;
    slices.retain(|slice| is_mirror(slice));
    let is_wanted = is_mirrored(&endpoints) && has_service_without_selector(&cx)?;
    let plan = if is_wanted { mirror_plan(&endpoints, &slices) } else { MirrorPlan::without(&slices) };
    for message in plan.warnings() {
        cx.event(Severity::Warning, message.reason, message.text);
    }
    for change in plan.changes {
        apply_change(&cx, change).await?;
    }
    Ok(Action::await_change())
}

/// Returns whether these Endpoints should be mirrored, provided that their Service has no selector.
fn is_mirrored(endpoints: &Endpoints) -> bool {
    let (labels, annotations) = (&endpoints.metadata.labels, &endpoints.metadata.annotations);
    let is_skipped = labels.as_ref().and_then(|labels| labels.get(SKIP)).is_some_and(|value| value == "true");
    !is_skipped && !annotations.as_ref().is_some_and(|annotations| annotations.contains_key(LEADER))
}

fn has_service_without_selector(cx: &Context<Endpoints>) -> Result<bool, Error> {
    let service = cx.get::<Service>(cx.key().name())?;
    Ok(service.is_some_and(|service| service.spec.as_ref().is_none_or(|spec| spec.selector.is_none())))
}

fn is_mirror(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == MANAGER)
        && slice.metadata.deletion_timestamp.is_none()
}

async fn apply_change(cx: &Context<Endpoints>, change: MirrorChange) -> Result<(), Error> {
    match change {
        MirrorChange::Create(slice) => {
            cx.create::<_, EndpointSlice>(slice).await?;
        }
        MirrorChange::Update(present, wanted) => {
            cx.patch(&*present, slice_patch(&present, &wanted)).await?;
        }
        MirrorChange::Delete(slice) => {
            cx.delete(&*slice).await?;
        }
    }
    Ok(())
}
