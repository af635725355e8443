//! Operators that stand in for parts of a cluster, to run [beside](crate::Simulation::beside) the one under test.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// The name of the Node on which all Pods run.
const NODE: &str = "simulated";

/// What Pods do once they are bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodBehaviour {
    /// They become ready.
    #[default]
    Ready,
    /// They run and never become ready.
    NeverReady,
    /// They fail every time they are started.
    CrashLoop,
    /// They succeed immediately.
    Succeed,
}

/// Returns a kubelet that runs nothing: it binds every Pod to one Node, reports the given behaviour, and confirms its
/// deletion.
pub fn kubelet(behaviour: PodBehaviour) -> Operator {
    let pods = Controller::<Pod>::new().to_the_end().reconcile(move |pod, cx| tend(pod, cx, behaviour));
    Operator::new("kubelet.sim.homeostat.dev").control(pods)
}

async fn tend(pod: Arc<Pod>, cx: Context<Pod>, behaviour: PodBehaviour) -> Result<Action> {
    let api: Api<Pod> = Api::namespaced(cx.client().clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if pod.metadata.deletion_timestamp.is_some() {
        api.delete(&name, &DeleteParams::default().grace_period(0)).await?;
    } else if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}});
        api.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await?;
    } else if phase == "Pending" {
        let status = json!({"status": status(&pod, behaviour, cx.now())});
        api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await?;
    }
    Ok(Action::await_change())
}

fn status(pod: &Pod, behaviour: PodBehaviour, now: jiff::Timestamp) -> Value {
    let is_ready = behaviour == PodBehaviour::Ready;
    let phase = if behaviour == PodBehaviour::Succeed { "Succeeded" } else { "Running" };
    let state = match behaviour {
        PodBehaviour::CrashLoop => json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        PodBehaviour::Succeed => json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
        PodBehaviour::Ready | PodBehaviour::NeverReady => json!({"running": {"startedAt": now.to_string()}}),
    };
    let restarts = if behaviour == PodBehaviour::CrashLoop { 5 } else { 0 };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<Value> = containers
        .map(|container| {
            json!({"name": container.name, "image": container.image, "imageID": "", "ready": is_ready,
                   "restartCount": restarts, "state": state})
        })
        .collect();
    let ready = if is_ready { "True" } else { "False" };
    json!({"phase": phase, "podIP": "10.0.0.1", "containerStatuses": containers,
           "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now.to_string()}]})
}
