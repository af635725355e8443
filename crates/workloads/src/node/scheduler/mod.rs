//! Implements a scheduler for the Nodes on this machine: binds unbound Pods to the Node that suits them best, or
//! reports why none does.
//!
//! It respects node selectors, affinity, taints, topology spread constraints, a Node's `spec.unschedulable`, volume
//! claims (and creates the ephemeral ones), scheduling gates and `schedulerName`. The decisions are in `node_fit`. It
//! ignores resources, because all Nodes are the same machine, and does not evict one Pod in favour of another.
//!
//! **Invariant:** a decision counts the Pods that were placed just before, even if the cache does not show that yet.

mod cluster;
mod node_fit;
mod pod_affinity;
mod topology_spread;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result, Severity};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, PodCondition, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use self::cluster::{ClusterState, NamespaceLabels};
use self::node_fit::{choose_node, describe_for_all};
use super::{NodeShared, storage};

/// How often to recheck a Pod that fits nowhere, apart from when the Node or one of the Pod's claims changes.
const AGAIN: Duration = Duration::from_secs(10);

/// The Nodes of Pods that were placed but do not appear there yet, by the uid of the Pod.
type Placements = Mutex<BTreeMap<String, String>>;

/// Binds Pods to the Nodes with these names.
pub(super) fn control(nodes: Vec<String>) -> BuiltController {
    let may_come = move |pod: &Pod| {
        let is_for_us = pod.spec.as_ref().is_some_and(is_ours);
        if is_for_us { nodes.clone() } else { Vec::new() }
    };
    let placements = Arc::new(Placements::default());
    Controller::<Pod>::new()
        .needs_state::<NodeShared>()
        .named("scheduler")
        .references::<Node, _>(may_come)
        .references::<PersistentVolumeClaim, _>(storage::claim_names)
        .reads::<Namespace>()
        .writes::<PersistentVolumeClaim>()
        .writes_status::<Pod>()
        .reconcile(move |pod, cx| schedule(pod, cx, Arc::clone(&placements)))
}

async fn schedule(pod: Arc<Pod>, cx: Context<Pod>, placements: Arc<Placements>) -> Result {
    let Some(spec) = pod.spec.as_ref().filter(|spec| is_ours(spec)) else {
        return Ok(Action::await_change());
    };
    make_claims(spec, &cx).await?;
    let names = cx.state::<NodeShared>().options.names();
    let choice = match missing_claim(&pod, &cx)? {
        Some(why) => Err(describe_for_all(spec, names.len(), &why)),
        None => place(&pod, &names, &cx, &placements)?,
    };
    match choice {
        Ok(node) => {
            let bound = bind(&pod, &cx, &node).await;
            if !matches!(bound, Ok(true)) {
                lock(&placements).remove(pod.metadata.uid.as_deref().unwrap_or_default());
            }
            bound?;
            Ok(Action::await_change())
        }
        Err(why) => {
            report_unschedulable(&pod, &cx, &why);
            Ok(Action::requeue(AGAIN))
        }
    }
}

fn lock(placements: &Placements) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
    placements.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chooses a Node and remembers the choice until the cache shows it, or returns why none fits.
fn place(
    pod: &Pod,
    names: &[String],
    cx: &Context<Pod>,
    placements: &Placements,
) -> Result<std::result::Result<String, String>, Error> {
    // This is held from the read until the choice, so that no two Pods are placed without counting each other.
    let mut placements = lock(placements);
    let pods = cx.list::<Pod>()?;
    let bound_node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone().filter(|name| !name.is_empty());
    let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
    let is_unseen = |placed: &str| pods.iter().any(|pod| bound_node(pod).is_none() && uid(pod) == placed);
    placements.retain(|placed, _| *placed != uid(pod) && is_unseen(placed));
    let node_of = |pod: &Pod| bound_node(pod).or_else(|| placements.get(&uid(pod)).cloned());
    let nodes = names.iter().map(|name| cx.get::<Node>(&**name)).collect::<Result<Vec<_>, _>>()?;
    let nodes: Vec<Arc<Node>> = nodes.into_iter().flatten().collect();
    let missing = names.len() - nodes.len();
    let cluster = ClusterState::new(nodes, pods.clone(), namespace_labels(cx)?, node_of);
    let choice = choose_node(pod, &cluster, missing);
    if let Ok(node) = &choice {
        placements.insert(uid(pod), node.clone());
    }
    Ok(choice)
}

fn namespace_labels(cx: &Context<Pod>) -> Result<NamespaceLabels, Error> {
    let labels = |namespace: Arc<Namespace>| {
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        Some((namespace.metadata.name.clone()?, labels))
    };
    Ok(cx.list::<Namespace>()?.into_iter().filter_map(labels).collect())
}

fn is_ours(spec: &PodSpec) -> bool {
    let is_unbound = spec.node_name.as_deref().unwrap_or_default().is_empty();
    let scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
    is_unbound && scheduler == "default-scheduler" && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
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

/// Describes a claim that the Pod needs but does not have, if any.
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
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    });
    cx.replace_status(&status);
}

/// Binds the Pod. Returns whether it still existed and was unbound.
async fn bind(pod: &Pod, cx: &Context<Pod>, node: &str) -> Result<bool> {
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
            Ok(true)
        }
        // Another scheduler was faster, or the Pod is gone: the next event will show it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
