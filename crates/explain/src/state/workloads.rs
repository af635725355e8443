//! Controllers of Pods: Deployments and similar kinds, Jobs, CronJobs.

use serde_json::Value;

use super::{StateDescription, unseen};
use crate::evidence::{Evidence, SeenObject};
use crate::times;

/// Judges a kind that maintains a number of Pods.
pub(super) fn assess_replicated(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    let (spec, status) = (&object.value["spec"], &object.value["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let is_daemon_set = object.key.resource() == "daemonsets";
    let (wanted, ready, updated) = if is_daemon_set {
        (number(&status["desiredNumberScheduled"]), &status["numberReady"], &status["updatedNumberScheduled"])
    } else {
        (spec["replicas"].as_i64().unwrap_or(1), &status["readyReplicas"], &status["updatedReplicas"])
    };
    let (ready, updated) = (number(ready), updated.as_i64());
    let counts = format!("{ready} of {wanted} replicas are ready");
    if spec["paused"] == true {
        return StateDescription::waiting(format!(
            "is paused (spec.paused), so changes to its template are not rolled out; {counts}"
        ));
    }
    if status["observedGeneration"].as_i64().is_none() {
        return unseen(evidence, object);
    }
    if wanted == 0 {
        let why = if is_daemon_set { "no node matches it" } else { "spec.replicas is 0" };
        return match number(&status["replicas"]) {
            0 if is_daemon_set => StateDescription::waiting(format!("runs nowhere: {why}")),
            0 => StateDescription::healthy(format!("is healthy and runs no Pods: {why}")),
            left => {
                StateDescription::waiting(format!("is being scaled down: {why}, and {left} Pods are left"))
            }
        };
    }
    // ReplicaSets do not count updated Pods: all of theirs are.
    let is_updated =
        object.key.resource() == "replicasets" || updated.is_none_or(|updated| updated >= wanted);
    if !is_updated && spec["updateStrategy"]["type"] == "OnDelete" {
        let old = wanted - updated.unwrap_or_default();
        return StateDescription::waiting(format!(
            "waits for {old} Pods of the old template to be deleted (updateStrategy is OnDelete); {counts}"
        ));
    }
    if ready >= wanted && is_updated && number(&status["replicas"]) <= wanted {
        return StateDescription::healthy(format!("is healthy: {counts}"));
    }
    let progress = match updated {
        Some(updated) if updated < wanted => format!(", {updated} are of the newest template"),
        _ => String::new(),
    };
    StateDescription::waiting(format!("is not finished: {counts}{progress}")).until_children_are_ready()
}

/// Judges a Job.
pub(super) fn assess_job(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    let (spec, status) = (&object.value["spec"], &object.value["status"]);
    let number = |name: &str| status[name].as_i64().unwrap_or_default();
    let wanted = spec["completions"].as_i64();
    let done = wanted.map_or_else(
        || format!("{} Pods succeeded", number("succeeded")),
        |wanted| format!("{} of {wanted} Pods succeeded", number("succeeded")),
    );
    if object.conditions().any(|one| one["type"] == "Complete" && one["status"] == "True") {
        return StateDescription::healthy(format!("is complete: {done}"));
    }
    if spec["suspend"] == true {
        return StateDescription::waiting("is suspended (spec.suspend): it starts no Pods");
    }
    if status["startTime"].is_null() && number("active") == 0 {
        return unseen(evidence, object);
    }
    StateDescription::waiting(format!(
        "is running: {} active, {done}, {} failed",
        number("active"),
        number("failed")
    ))
    .until_children_are_ready()
}

/// Judges a CronJob.
pub(super) fn assess_cron_job(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    let (spec, status) = (&object.value["spec"], &object.value["status"]);
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    let time = |name: &str| status[name].as_str().and_then(|at| at.parse().ok());
    let last = time("lastScheduleTime").map(|at| times::both(evidence.now, at));
    if spec["suspend"] == true {
        let last = last.map(|last| format!("; its last run was {last}")).unwrap_or_default();
        return StateDescription::waiting(format!("is suspended (spec.suspend): it starts no Jobs{last}"));
    }
    match last {
        Some(last) => {
            StateDescription::healthy(format!("is healthy: its last run was {last} (schedule {schedule:?})"))
        }
        None => StateDescription::waiting(format!("waits for its first run (schedule {schedule:?})")),
    }
}
