//! The counts in the status of workloads: none below zero, and no part above the whole.

use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;

/// What the counts of a kind are held against.
struct Counts {
    /// Not below zero.
    all: &'static [&'static str],
    /// Not above `replicas`.
    parts: &'static [&'static str],
    /// What is said when more are available than ready.
    readiness: &'static str,
}

const DEPLOYMENT: Counts = Counts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    readiness: "cannot be greater than readyReplicas",
};
const REPLICA_SET: Counts = Counts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    readiness: "cannot be greater than readyReplicas",
};
const STATEFUL_SET: Counts = Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    readiness: "cannot be greater than status.readyReplicas",
};
const DAEMON_SET: Counts = Counts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    readiness: "",
};

/// The counts in the status of a Deployment.
pub(in crate::kinds) fn deployment(new: &At<'_>, old: &Value, errors: &mut Errors) {
    check(&DEPLOYMENT, new, old, errors);
}

/// The counts in the status of a ReplicaSet or a ReplicationController.
pub(in crate::kinds) fn replica_set(new: &At<'_>, old: &Value, errors: &mut Errors) {
    check(&REPLICA_SET, new, old, errors);
}

/// The counts in the status of a StatefulSet.
pub(in crate::kinds) fn stateful_set(new: &At<'_>, old: &Value, errors: &mut Errors) {
    check(&STATEFUL_SET, new, old, errors);
}

/// The counts in the status of a DaemonSet.
pub(in crate::kinds) fn daemon_set(new: &At<'_>, old: &Value, errors: &mut Errors) {
    check(&DAEMON_SET, new, old, errors);
}

fn check(counts: &Counts, new: &At<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    for name in counts.all {
        status.field(name).must_not_be_negative(errors);
    }
    let number = |name: &str| status.field(name).number();
    let mut refuse = |name: &str, detail: &str| {
        errors.push(Error::invalid(&status.field(name).path, &json!(number(name)), detail));
    };
    for name in counts.parts.iter().filter(|name| number(name) > number("replicas")) {
        refuse(name, "cannot be greater than status.replicas");
    }
    if number("availableReplicas") > number("readyReplicas") {
        refuse("availableReplicas", counts.readiness);
    }
    // An absent count is below any other.
    let collisions = |status: &Value| status["collisionCount"].as_i64();
    if counts.all.contains(&"collisionCount") && collisions(status.value) < collisions(&old["status"]) {
        refuse("collisionCount", "cannot be decremented");
    }
}
