//! The state of the built-in workloads: how many of their Pods are ready, and whether a condition reports a failure.

use serde_json::Value;

use super::StateSummary;
use super::pods::words_of;
use crate::field::seconds;

/// Judges a kind with `spec.replicas` and `status.readyReplicas`.
pub(super) fn judge_replicas(object: &Value) -> StateSummary {
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = object["status"]["readyReplicas"].as_i64().unwrap_or(0);
    judge_counts(object, wanted, ready)
}

/// Judges a DaemonSet.
pub(super) fn judge_daemon_set(object: &Value) -> StateSummary {
    let count = |name: &str| object["status"][name].as_i64().unwrap_or(0);
    judge_counts(object, count("desiredNumberScheduled"), count("numberReady"))
}

fn judge_counts(object: &Value, wanted: i64, ready: i64) -> StateSummary {
    let words = format!("{ready}/{wanted} ready");
    let failing = find(object, |one| {
        (one["type"] == "ReplicaFailure" && one["status"] == "True")
            || (one["type"] == "Progressing" && one["status"] == "False")
    });
    if let Some(failing) = failing {
        return StateSummary::bad(words, words_of(failing)).since(seconds(&failing["lastTransitionTime"]));
    }
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    let observed = object["status"]["observedGeneration"].as_i64().unwrap_or(0);
    if observed < generation {
        return StateSummary::waiting(words, "its controller has not seen the last edit yet");
    }
    if ready >= wanted {
        return StateSummary::good(words);
    }
    let since = find(object, |one| one["type"] == "Available" && one["status"] == "False")
        .map_or(0, |one| seconds(&one["lastTransitionTime"]));
    let missing = wanted - ready;
    StateSummary::waiting(
        words,
        format!("{missing} of its Pods {} not ready", if missing == 1 { "is" } else { "are" }),
    )
    .since(since)
}

/// Judges a Job.
pub(super) fn judge_job(object: &Value) -> StateSummary {
    let count = |name: &str| object["status"][name].as_i64().unwrap_or(0);
    if let Some(failed) = find(object, |one| one["type"] == "Failed" && one["status"] == "True") {
        return StateSummary::bad("Failed", words_of(failed)).since(seconds(&failed["lastTransitionTime"]));
    }
    if find(object, |one| one["type"] == "Complete" && one["status"] == "True").is_some() {
        return StateSummary::good("Complete");
    }
    let words = format!("{} active, {} failed", count("active"), count("failed"));
    StateSummary::waiting(words, "its Pods have not finished yet")
        .since(seconds(&object["status"]["startTime"]))
}

fn find(object: &Value, is_meant: impl Fn(&Value) -> bool) -> Option<&Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| is_meant(one))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::check;

    #[test]
    fn ready_pods_are_counted() {
        let deployment = |ready: i64, observed: i64| json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": {"readyReplicas": ready, "observedGeneration": observed}});
        check("apps/deployments", &deployment(3, 2), "good | 3/3 ready | ");
        check("apps/deployments", &deployment(2, 2), "wait | 2/3 ready | 1 of its Pods is not ready");
        check(
            "apps/deployments",
            &deployment(3, 1),
            "wait | 3/3 ready | its controller has not seen the last edit yet",
        );
        let mut failing = deployment(0, 2);
        failing["status"]["conditions"] =
            json!([{"type": "ReplicaFailure", "status": "True", "message": "pods is forbidden"}]);
        check("apps/replicasets", &failing, "bad | 0/3 ready | pods is forbidden");
    }

    #[test]
    fn a_job_succeeds_or_fails() {
        let job = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "message": "too often"}]}});
        check("batch/jobs", &job("Failed"), "bad | Failed | too often");
        check("batch/jobs", &job("Complete"), "good | Complete | ");
        check(
            "batch/jobs",
            &json!({"status": {"active": 1}}),
            "wait | 1 active, 0 failed | its Pods have not finished yet",
        );
    }
}
