//! Validates the counts in the status of workloads: none is negative, and no part is greater than the whole.

use serde_json::{Value, json};

use crate::field::Error;
use crate::resource::value_at::{Errors, ValueAt};

/// The rules for the counts of a kind.
pub(in crate::kinds) struct CountRules {
    /// Counts that must not be negative.
    pub(in crate::kinds) all: &'static [&'static str],
    /// Counts that must not be greater than `replicas`.
    pub(in crate::kinds) parts: &'static [&'static str],
    /// The message if more replicas are available than ready.
    pub(in crate::kinds) readiness: &'static str,
}

const REPLICA_SET: CountRules = CountRules {
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

/// Validates the counts in the status of a ReplicaSet or a ReplicationController.
pub(in crate::kinds) fn replica_set(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate_status_counts(&REPLICA_SET, new, old, errors);
}

pub(in crate::kinds) fn validate_status_counts(
    counts: &CountRules,
    new: &ValueAt<'_>,
    old: &Value,
    errors: &mut Errors,
) {
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
    // An absent count is less than any other.
    let collisions = |status: &Value| status["collisionCount"].as_i64();
    if counts.all.contains(&"collisionCount") && collisions(status.value) < collisions(&old["status"]) {
        refuse("collisionCount", "cannot be decremented");
    }
}
