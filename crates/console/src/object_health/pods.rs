//! The state of a Pod: from its containers first, then from its phase.

use serde_json::Value;

use super::StateSummary;
use crate::field::seconds;

/// Waiting reasons of a container that is starting; all other reasons are failures.
const ON_THE_WAY: &[&str] = &["", "ContainerCreating", "PodInitializing"];

/// Judges a Pod.
pub(super) fn judge_pod(object: &Value) -> StateSummary {
    let status = &object["status"];
    let phase = status["phase"].as_str().unwrap_or("Pending");
    let since = condition(status, "Ready").map_or(0, |ready| seconds(&ready["lastTransitionTime"]));
    let verdict = match phase {
        "Succeeded" => StateSummary::good("Succeeded"),
        "Failed" => StateSummary::bad("Failed", failure_of_pod(status)),
        _ => broken_container(status).unwrap_or_else(|| judge_running(phase, status)),
    };
    verdict.since(since)
}

/// Judges a Pod whose containers do not fail.
fn judge_running(phase: &str, status: &Value) -> StateSummary {
    let is_ready = condition(status, "Ready").is_some_and(|ready| ready["status"] == "True");
    let unscheduled = condition(status, "PodScheduled").filter(|one| one["status"] == "False");
    match (phase, unscheduled) {
        (_, Some(unscheduled)) => {
            StateSummary::waiting("Pending", format!("no node takes it: {}", words_of(unscheduled)))
        }
        ("Running", _) if is_ready => StateSummary::good(with_restarts("Running", status)),
        ("Running", _) => {
            let cause = condition(status, "Ready").map(words_of).unwrap_or_default();
            StateSummary::waiting(
                with_restarts("not ready", status),
                format!("it runs and is not ready: {cause}"),
            )
        }
        _ => StateSummary::waiting(phase, "no node has started it yet"),
    }
}

/// Returns why a container fails to run, if one does.
fn broken_container(status: &Value) -> Option<StateSummary> {
    containers(status).find_map(|container| {
        let waiting = &container["state"]["waiting"];
        let reason = waiting["reason"].as_str().unwrap_or_default();
        if ON_THE_WAY.contains(&reason) {
            return None;
        }
        let name = container["name"].as_str().unwrap_or_default();
        let message = waiting["message"].as_str().unwrap_or_default();
        let last = describe_end(&container["lastState"]["terminated"]);
        let cause =
            [message, &last].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        Some(StateSummary::bad(with_restarts(reason, status), format!("container {name}: {cause}")))
    })
}

fn failure_of_pod(status: &Value) -> String {
    let said = words_of(status);
    if !said.is_empty() {
        return said;
    }
    let ends = containers(status).filter(|container| container["state"]["terminated"]["exitCode"] != 0);
    let ends = ends.map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        format!("container {name}: {}", describe_end(&container["state"]["terminated"]))
    });
    ends.collect::<Vec<_>>().join("; ")
}

/// Returns how a container ended: `ended with 3 (Error)`.
fn describe_end(terminated: &Value) -> String {
    let Some(code) = terminated["exitCode"].as_i64() else { return String::new() };
    let words = words_of(terminated);
    if words.is_empty() { format!("ended with {code}") } else { format!("ended with {code} ({words})") }
}

fn with_restarts(words: &str, status: &Value) -> String {
    match containers(status).filter_map(|container| container["restartCount"].as_i64()).sum::<i64>() {
        0 => words.to_owned(),
        1 => format!("{words}, 1 restart"),
        many => format!("{words}, {many} restarts"),
    }
}

fn containers(status: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.into_iter().flat_map(|list| status[list].as_array().into_iter().flatten())
}

fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == name)
}

/// Returns the message and the reason, if present.
pub(super) fn words_of(value: &Value) -> String {
    let part = |name: &str| value[name].as_str().unwrap_or_default();
    match (part("message"), part("reason")) {
        ("", reason) => reason.to_owned(),
        (message, _) => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::check;

    fn pod(phase: &str, container: &Value) -> Value {
        json!({"status": {"phase": phase, "containerStatuses": [container]}})
    }

    #[test]
    fn the_container_that_fails_is_the_cause() {
        let waiting = |reason: &str, message: &str| json!({"name": "app", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}});
        check(
            "pods",
            &pod("Pending", &waiting("ErrImagePull", "no such program: webb")),
            "bad | ErrImagePull | container app: no such program: webb",
        );
        check(
            "pods",
            &pod("Pending", &waiting("CreateContainerConfigError", "configmap \"settings\" not found")),
            "bad | CreateContainerConfigError | container app: configmap \"settings\" not found",
        );
        let mut crash = waiting("CrashLoopBackOff", "back-off 40s restarting failed container");
        crash["restartCount"] = json!(4);
        crash["lastState"] = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        check(
            "pods",
            &pod("Running", &crash),
            "bad | CrashLoopBackOff, 4 restarts | container app: back-off 40s restarting failed container; ended with 3 (Error)",
        );
    }

    #[test]
    fn a_pod_without_trouble_is_judged_by_its_phase() {
        let fine = json!({"name": "app", "state": {"running": {}}});
        let mut running = pod("Running", &fine);
        running["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        check("pods", &running, "good | Running | ");
        running["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "message": "probe failed"}]);
        check("pods", &running, "wait | not ready | it runs and is not ready: probe failed");
        let unscheduled = json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no nodes"}]}});
        check("pods", &unscheduled, "wait | Pending | no node takes it: no nodes");
        let failed = pod(
            "Failed",
            &json!({"name": "app", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}),
        );
        check("pods", &failed, "bad | Failed | container app: ended with 1 (Error)");
    }
}
