//! A scheduler for the Nodes of this machine: binds unbound Pods to the Node with the fewest Pods, or reports why it
//! cannot.
//!
//! It respects `nodeSelector`, a Node's `spec.unschedulable`, volume claims (and creates the ephemeral ones),
//! scheduling gates and `schedulerName`. It ignores affinity, taints and resources: all Nodes are the same machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Control, Controller, Result, Severity};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodCondition, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{NodeShared, storage};

/// How often to check a Pod again that fits nowhere, besides when the Node or one of the Pod's claims changes.
const AGAIN: Duration = Duration::from_secs(10);

/// Binds Pods to the Nodes with these names.
pub(super) fn control(nodes: Vec<String>) -> Control {
    let may_come = move |pod: &Pod| {
        let is_for_us = pod.spec.as_ref().is_some_and(is_ours);
        if is_for_us { nodes.clone() } else { Vec::new() }
    };
    Controller::<Pod>::new()
        .needs_state::<NodeShared>()
        .named("scheduler")
        .references::<Node, _>(may_come)
        .references::<PersistentVolumeClaim, _>(storage::claim_names)
        .writes::<PersistentVolumeClaim>()
        .writes_status::<Pod>()
        .reconcile(schedule)
}

async fn schedule(pod: Arc<Pod>, cx: Context<Pod>) -> Result {
    let Some(spec) = pod.spec.as_ref().filter(|spec| is_ours(spec)) else {
        return Ok(Action::await_change());
    };
    let shared = cx.state::<NodeShared>();
    let names = shared.options.names();
    make_claims(spec, &cx).await?;
    let node = match choose_node(spec, &names, &cx)? {
        Ok(node) => missing_claim(&pod, &cx)?.map_or(Ok(node), Err),
        Err(why) => Err(why),
    };
    match node {
        Ok(node) => {
            bind(&pod, &cx, node).await?;
            Ok(Action::await_change())
        }
        Err(why) => {
            report_unschedulable(&pod, &cx, &format!("0/{} nodes are available: {why}.", names.len()));
            Ok(Action::requeue(AGAIN))
        }
    }
}

/// Returns the suitable Node with the fewest Pods, or why there is none.
fn choose_node<'a>(
    spec: &PodSpec,
    names: &'a [String],
    cx: &Context<Pod>,
) -> Result<std::result::Result<&'a str, String>> {
    let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
    let mut suitable = Vec::new();
    for name in names {
        match cx.get::<Node>(&**name)?.as_deref().map(|node| misfit(spec, node)) {
            Some(None) => suitable.push(&**name),
            Some(Some(why)) => *reasons.entry(why).or_default() += 1,
            None => *reasons.entry("node(s) were not registered yet").or_default() += 1,
        }
    }
    if let [only] = suitable[..] {
        return Ok(Ok(only));
    }
    let pods = if suitable.is_empty() { Vec::new() } else { cx.list::<Pod>()? };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()) {
        *counts.entry(node).or_default() += 1;
    }
    let fewest = suitable.into_iter().min_by_key(|name| counts.get(name).copied().unwrap_or_default());
    let why = || reasons.iter().map(|(why, count)| format!("{count} {why}")).collect::<Vec<_>>().join(", ");
    Ok(fewest.ok_or_else(why))
}

fn is_ours(spec: &PodSpec) -> bool {
    let is_unbound = spec.node_name.as_deref().unwrap_or_default().is_empty();
    let scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
    is_unbound && scheduler == "default-scheduler" && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

/// Returns why the Pod does not fit the node, if it does not.
fn misfit(spec: &PodSpec, node: &Node) -> Option<&'static str> {
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        return Some("node(s) were unschedulable");
    }
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let mut wanted = spec.node_selector.iter().flatten();
    let does_fit = wanted.all(|(key, value)| labels.get(key) == Some(value));
    (!does_fit).then_some("node(s) didn't match Pod's node affinity/selector")
}

/// Creates the claims of the Pod's ephemeral volumes.
async fn make_claims(spec: &PodSpec, cx: &Context<Pod>) -> Result<()> {
    for volume in spec.volumes.iter().flatten() {
        let template = volume.ephemeral.as_ref().and_then(|own| own.volume_claim_template.as_ref());
        let (Some(template), Some(name)) = (template, storage::claim_name(cx.object(), volume)) else {
            continue;
        };
        if cx.get::<PersistentVolumeClaim>(&*name)?.is_none() {
            let mut metadata = template.metadata.clone().unwrap_or_default();
            metadata.name = Some(name);
            let spec = Some(template.spec.clone());
            let claim = PersistentVolumeClaim { metadata, spec, status: None };
            cx.create::<_, PersistentVolumeClaim>(claim).await?;
        }
    }
    Ok(())
}

/// Describes what the Pod claims and does not have, if anything.
fn missing_claim(pod: &Pod, cx: &Context<Pod>) -> Result<Option<String>> {
    for (volume, name) in storage::claims(pod) {
        match cx.get::<PersistentVolumeClaim>(&*name)? {
            None => return Ok(Some(format!("persistentvolumeclaim \"{name}\" not found"))),
            Some(claim) if volume.ephemeral.is_some() && !storage::is_made_for(&claim, pod) => {
                return Ok(Some(format!("PVC {name} was not created for the pod")));
            }
            Some(claim) if storage::volume_of(&claim).is_none() => {
                return Ok(Some("pod has unbound immediate PersistentVolumeClaims".to_owned()));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

fn report_unschedulable(pod: &Pod, cx: &Context<Pod>, message: &str) {
    let mut status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    let is_told = |one: &PodCondition| one.type_ == "PodScheduled" && one.message.as_deref() == Some(message);
    if conditions.iter().any(is_told) {
        return;
    }
    cx.event(Severity::Warning, "FailedScheduling", message);
    conditions.retain(|one| one.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(cx.now())),
        ..PodCondition::default()
    });
    cx.replace_status(&status);
}

async fn bind(pod: &Pod, cx: &Context<Pod>, node: &str) -> Result<()> {
    let (name, namespace) = (cx.key().name(), cx.key().namespace());
    let pods: Api<Pod> = Api::namespaced(cx.client().clone(), namespace);
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let bound: Result<Value, kube::Error> =
        pods.create_subresource("binding", name, &PostParams::default(), &binding).await;
    match bound {
        Ok(_) => {
            cx.event(
                Severity::Normal,
                "Scheduled",
                format!("Successfully assigned {namespace}/{name} to {node}"),
            );
            Ok(())
        }
        // Another scheduler was faster, or the Pod is gone: the next event shows it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
