//! Shows a Deployment whose Pods are processes on this machine.

use homeostat::kube::api::{DeleteParams, ListParams};
use homeostat::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::demo::demo_run::{DemoRun, json};

const NAME: &str = "web";
const REPLICAS: usize = 2;

pub(super) async fn request_objects(run: &mut DemoRun<'_>) {
    let container =
        json!({"name": "web", "image": "none", "command": ["sh", "-c", "echo up; exec sleep 3600"]});
    let template = json!({"metadata": {"labels": {"app": NAME}}, "spec": {"containers": [container]}});
    let spec =
        json!({"replicas": REPLICAS, "selector": {"matchLabels": {"app": NAME}}, "template": template});
    run.apply::<Deployment>(NAME, "two replicas of a process", json!({ "spec": spec })).await;
}

pub(super) async fn wait_until_ready(run: &mut DemoRun<'_>) {
    wait_until_all_ready(run, "both replicas are running", |_| true).await;
}

pub(super) async fn break_and_wait(run: &mut DemoRun<'_>) {
    let Some(pod) = ready_pods(run).await.into_iter().next() else { return };
    let name = name_of(&pod);
    run.note_broken(&format!("Pod/{name}"), "the Pod is deleted");
    let deleted = run.environment.api::<Pod>().delete(&name, &DeleteParams::default()).await;
    run.note_result("Deployment/web", deleted.map(drop));
    wait_until_all_ready(run, "another replica is running", |pods| {
        pods.iter().all(|pod| name_of(pod) != name)
    })
    .await;

    let Some(pod) = ready_pods(run).await.into_iter().next() else { return };
    let (name, pid) = (name_of(&pod), pid_of(&pod));
    run.note_broken(&format!("Pod/{name}"), &format!("its process {} is killed", pid.unwrap_or_default()));
    let killed = kill(pid);
    run.note_result("Deployment/web", killed);
    wait_until_all_ready(run, "the process was started again", |pods| {
        pods.iter().any(|pod| name_of(pod) == name && pid_of(pod).is_some() && pid_of(pod) != pid)
    })
    .await;
}

/// Kills the process.
pub(super) fn kill(pid: Option<i32>) -> Result<(), String> {
    let pid = pid.and_then(Pid::from_raw).ok_or("found no process to kill")?;
    kill_process(pid, Signal::KILL).map_err(|error| error.to_string())
}

/// Returns the process of a Pod's first container.
pub(super) fn pid_of(pod: &Value) -> Option<i32> {
    pod["status"]["containerStatuses"][0]["containerID"].as_str()?.strip_prefix("process://")?.parse().ok()
}

pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions
            .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn name_of(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Returns the replicas that are ready.
async fn ready_pods(run: &DemoRun<'_>) -> Vec<Value> {
    let pods = run.environment.api::<Pod>().list(&ListParams::default().labels("app=web")).await;
    pods.into_iter().flatten().map(|pod| json(&pod)).filter(is_ready).collect()
}

async fn wait_until_all_ready(run: &mut DemoRun<'_>, words: &str, is_fine: impl Fn(&[Value]) -> bool) {
    let pods = run.environment.api::<Pod>();
    let selector = ListParams::default().labels("app=web");
    run.wait_until("Deployment/web", words, || async {
        let pods = pods.list(&selector).await.ok()?;
        let ready: Vec<Value> = pods.iter().map(json).filter(is_ready).collect();
        (ready.len() == REPLICAS && is_fine(&ready)).then_some(())
    })
    .await;
}
