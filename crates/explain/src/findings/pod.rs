//! Pods: what keeps their containers from running, according to the status of the Pod and the references in its spec.

use serde_json::Value;

use super::Finding;
use crate::evidence::{Evidence, SeenObject};
use crate::explanation::CauseCode;
use crate::times;

/// Waiting reasons of a container whose image cannot be used.
const IMAGE_REASONS: [&str; 5] =
    ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"];

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let pods =
        evidence.below().filter(|object| object.key.resource() == "pods" && object.key.group().is_empty());
    pods.flat_map(|pod| find_in_pod(evidence, pod)).collect()
}

fn find_in_pod(evidence: &Evidence, pod: &SeenObject) -> Vec<Finding> {
    let status = &pod.value["status"];
    if pod.deleted_at().is_some() || status["phase"] == "Succeeded" {
        return Vec::new();
    }
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let containers = statuses.iter().flat_map(|list| status[list].as_array().into_iter().flatten());
    let containers = containers.filter_map(|container| find_in_container(evidence, pod, container));
    let found: Vec<Finding> = containers.collect();
    if found.is_empty() { find_in_whole(evidence, pod).into_iter().collect() } else { found }
}

fn find_in_container(evidence: &Evidence, pod: &SeenObject, status: &Value) -> Option<Finding> {
    let name = status["name"].as_str().unwrap_or_default();
    let waiting = &status["state"]["waiting"];
    let reason = waiting["reason"].as_str().unwrap_or_default();
    let message = waiting["message"].as_str().unwrap_or_default();
    let about = &pod.key;
    if IMAGE_REASONS.contains(&reason) {
        let image = status["image"].as_str().filter(|image| !image.is_empty());
        let image = image.or_else(|| image_in_spec(pod, name)).unwrap_or_default();
        let text = format!("cannot use the image {image:?} of container {name} ({reason}): {message}");
        return Some(Finding::new(CauseCode::BadImage, about, text));
    }
    let ended = [&status["lastState"]["terminated"], &status["state"]["terminated"]];
    let ended = ended.into_iter().find(|ended| ended.is_object());
    let restarts = status["restartCount"].as_u64().unwrap_or_default();
    if reason == "CrashLoopBackOff" || (restarts > 2 && status["ready"] == false) {
        let how = ended.map(|ended| describe_end(evidence, ended)).unwrap_or_default();
        let text = format!("is in a crash loop: container {name} has restarted {restarts} times{how}");
        return Some(Finding::new(CauseCode::CrashLoop, about, text).with_next(next_start(message)));
    }
    if reason == "CreateContainerConfigError" {
        let text = format!("cannot start container {name}: {message}");
        return Some(Finding::new(CauseCode::MissingReference, about, text));
    }
    if let Some(ended) = ended.filter(|ended| status["ready"] == false && ended["exitCode"] != 0) {
        let text = format!("failed: container {name}{}", describe_end(evidence, ended));
        return Some(Finding::new(CauseCode::CrashLoop, about, text));
    }
    let is_running = status["state"]["running"].is_object();
    (is_running && status["ready"] == false).then(|| unready(evidence, pod, name)).or_else(|| {
        let text = format!("has not started container {name} ({reason}): {message}");
        let is_stuck = !reason.is_empty() && !matches!(reason, "ContainerCreating" | "PodInitializing");
        is_stuck.then(|| Finding::new(CauseCode::NotReady, about, text))
    })
}

/// Returns why a running container is not ready: the last event about its probe, if there is one.
fn unready(evidence: &Evidence, pod: &SeenObject, container: &str) -> Finding {
    let is_probe = |event: &&Value| {
        event["reason"] == "Unhealthy" && event["involvedObject"]["uid"].as_str() == Some(pod.uid())
    };
    let Some(event) = evidence.events.iter().rev().find(is_probe) else {
        let text = format!("is not Ready: container {container} runs, but is not ready");
        return Finding::new(CauseCode::NotReady, &pod.key, text);
    };
    let count = event["count"].as_u64().or_else(|| event["series"]["count"].as_u64()).unwrap_or(1);
    let message = event["message"].as_str().unwrap_or_default().trim_end_matches([':', ' ', '\n']);
    let text = format!("is not Ready: container {container}: {message} ({count}×)");
    Finding::new(CauseCode::ProbeFailed, &pod.key, text)
}

fn find_in_whole(evidence: &Evidence, pod: &SeenObject) -> Option<Finding> {
    let (spec, status) = (&pod.value["spec"], &pod.value["status"]);
    let about = &pod.key;
    if status["phase"] == "Failed" {
        let words =
            status["message"].as_str().or_else(|| status["reason"].as_str()).unwrap_or("no reason is given");
        return Some(Finding::new(CauseCode::CrashLoop, about, format!("failed: {words}")));
    }
    let is_gated = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let node = spec["nodeName"].as_str().unwrap_or_default();
    if is_gated || crate::state::pending_claim(evidence, pod).is_some() {
        return None;
    }
    if node.is_empty() {
        let condition =
            pod.conditions().find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        let words = condition.and_then(|one| one["message"].as_str()).filter(|words| !words.is_empty());
        let words = match words {
            _ if evidence.has_no_nodes => "the cluster has no node",
            Some(words) => words,
            None => "no scheduler has looked at it",
        };
        return Some(Finding::new(
            CauseCode::Unscheduled,
            about,
            format!("is not assigned to a node: {words}"),
        ));
    }
    find_lost_node(evidence, pod, node)
}

/// Checks whether the node of a Pod has stopped reporting, so that the Pod's status is out of date.
fn find_lost_node(evidence: &Evidence, pod: &SeenObject, node: &str) -> Option<Finding> {
    let seen = evidence.find_related("nodes", "", node);
    let text = if let Some(seen) = seen {
        let ready = seen.conditions().find(|one| one["type"] == "Ready" && one["status"] != "True")?;
        let words = ready["message"].as_str().filter(|words| !words.is_empty());
        let words = words.or_else(|| ready["reason"].as_str()).unwrap_or("no reason is given");
        format!("is on node {node}, which is not Ready: {words}")
    } else {
        let is_missing = evidence.missing.iter().any(|one| one.from == pod.key && one.kind == "Node");
        is_missing.then(|| format!("is on node {node}, which does not exist"))?
    };
    Some(Finding::new(CauseCode::NotReady, &pod.key, text))
}

fn describe_end(evidence: &Evidence, ended: &Value) -> String {
    let reason = ended["reason"].as_str().filter(|reason| *reason != "Error" && !reason.is_empty());
    let code = ended["exitCode"].as_i64().map(|code| format!(", last exit code {code}")).unwrap_or_default();
    let at = ended["finishedAt"].as_str().and_then(|at| at.parse().ok());
    let at = at.map(|at| format!(" ({})", times::both(evidence.now, at))).unwrap_or_default();
    let message = ended["message"].as_str().filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {}", message.trim())).unwrap_or_default();
    format!("{code}{}{at}{message}", reason.map(|reason| format!(", {reason}")).unwrap_or_default())
}

fn next_start(message: &str) -> Option<String> {
    let words = message.split(" restarting").next().unwrap_or_default();
    (!words.is_empty()).then(|| words.to_owned())
}

fn image_in_spec<'a>(pod: &'a SeenObject, container: &str) -> Option<&'a str> {
    let lists = ["initContainers", "containers"];
    let mut containers =
        lists.iter().flat_map(|list| pod.value["spec"][list].as_array().into_iter().flatten());
    containers.find(|one| one["name"] == container)?["image"].as_str()
}
