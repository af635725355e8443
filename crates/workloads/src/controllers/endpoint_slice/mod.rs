//! Handles EndpointSlices: the addresses of the Pods behind a Service. Services without a selector are left alone:
//! their endpoints are managed by others. The decisions are in `plan`; `endpoints` builds an Endpoints object from the
//! same data.

mod endpoints;
mod plan;

use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use self::plan::{EndpointGroup, SliceChange, endpoint_groups, slice_changes};
use super::ownership::{label_selector, matches_labels};
use super::partial_pod::{PartialPod, PodsInNamespace};

const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

pub(super) fn control() -> BuiltController {
    Controller::<Service>::new()
        .named("endpoint-slice-controller")
        .owns::<EndpointSlice>()
        .owns::<Endpoints>()
        .selects::<PartialPod, _>(pod_selector)
        .index::<PartialPod, PodsInNamespace, _>(|pod: &PartialPod| Some(PodsInNamespace::of(&pod.metadata)))
        .starts_fresh()
        .reconcile(reconcile)
}

/// Returns the selector for a Service's Pods; `None` if it has no selector.
fn pod_selector(service: &Service) -> Option<LabelSelector> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
    let labels = spec.selector.clone().filter(|labels| !labels.is_empty())?;
    Some(label_selector(&meta::LabelSelector { match_labels: Some(labels), match_expressions: None }))
}

async fn reconcile(service: Arc<Service>, cx: Context<Service>) -> Result {
    let Some(selector) = pod_selector(&service) else { return Ok(Action::await_change()) };
    let mut pods = cx.indexed::<PartialPod, _>(&PodsInNamespace::of(&service.metadata))?;
    pods.retain(|pod| matches_labels(&selector, &pod.metadata));
    let groups = endpoint_groups(&service, &pods);
    cx.adopt(endpoints::endpoints(&service, &groups)).await?;
    let existing: Vec<EndpointSlice> = cx
        .owned::<EndpointSlice>()?
        .iter()
        .filter(|slice| is_managed(slice))
        .map(|slice| (**slice).clone())
        .collect();
    for change in slice_changes(&existing, groups) {
        apply_change(&cx, &service, change).await?;
    }
    Ok(Action::await_change())
}

fn is_managed(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == MANAGER)
        && slice.metadata.deletion_timestamp.is_none()
}

async fn apply_change(
    cx: &Context<Service>,
    service: &Service,
    change: SliceChange<'_>,
) -> Result<(), Error> {
    match change {
        SliceChange::Create(group) => {
            cx.create::<_, EndpointSlice>(new_slice(service, group)).await?;
        }
        SliceChange::Update(slice, group) => {
            let patch = json!({"endpoints": group.endpoints, "ports": group.ports});
            cx.patch(slice, patch).await?;
        }
        SliceChange::Delete(slice) => {
            cx.delete(slice).await?;
        }
    }
    Ok(())
}

fn new_slice(service: &Service, group: EndpointGroup) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    let is_headless = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None");
    if is_headless {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let generate_name = Some(format!("{name}-"));
    labels.insert(SERVICE.to_owned(), name);
    EndpointSlice {
        metadata: ObjectMeta { generate_name, labels: Some(labels), ..ObjectMeta::default() },
        address_type: group.address_type,
        endpoints: Some(group.endpoints),
        ports: Some(group.ports),
    }
}
