//! Defaults of the kinds that run Pods from a template.

use serde_json::{Value, json};

use super::pod::pod_spec;
use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, is_zero, made};

const HISTORY: u32 = 10;
const PROGRESS_DEADLINE_S: u32 = 600;
const BACKOFF_LIMIT: u32 = 6;

fn spec(object: &mut Fields) -> Option<&mut Fields> {
    made(object, "spec")
}

fn template(parent: &mut Fields) {
    if let Some(spec) = made(parent, "template").and_then(|template| made(template, "spec")) {
        pod_spec(spec);
    }
}

/// A PodTemplate.
pub(in crate::kinds) fn pod_template(object: &mut Fields) {
    template(object);
}

/// A ReplicationController: selector and labels come from its template.
pub(in crate::kinds) fn replication_controller(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "replicas", 1);
    if inner(spec, "template").is_some() {
        template(spec);
    }
    let Some(labels) = template_labels(spec) else { return };
    fill_zero(spec, "selector", labels.clone());
    if let Some(metadata) = made(object, "metadata") {
        fill_zero(metadata, "labels", labels);
    }
}

fn template_labels(spec: &mut Fields) -> Option<Value> {
    let metadata = inner(inner(spec, "template")?, "metadata")?;
    metadata.get("labels").filter(|labels| !is_zero(Some(labels))).cloned()
}

/// A ReplicaSet.
pub(in crate::kinds) fn replica_set(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "replicas", 1);
    template(spec);
}

/// A Deployment.
pub(in crate::kinds) fn deployment(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", HISTORY);
    fill(spec, "progressDeadlineSeconds", PROGRESS_DEADLINE_S);
    rolling_update(spec, "strategy", &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    template(spec);
}

/// The update strategy at `name`: `RollingUpdate` with its parameters unless another type is said.
fn rolling_update(spec: &mut Fields, name: &str, parameters: &[(&str, Value)]) {
    let Some(strategy) = made(spec, name) else { return };
    fill_zero(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
        return;
    }
    let Some(rolling) = made(strategy, "rollingUpdate") else { return };
    for (parameter, value) in parameters {
        fill(rolling, parameter, value.clone());
    }
}

/// A DaemonSet.
pub(in crate::kinds) fn daemon_set(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "revisionHistoryLimit", HISTORY);
    rolling_update(spec, "updateStrategy", &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
    template(spec);
}

/// A StatefulSet.
pub(in crate::kinds) fn stateful_set(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", HISTORY);
    fill_zero(spec, "podManagementPolicy", "OrderedReady");
    stateful_set_strategy(spec);
    if let Some(policy) = made(spec, "persistentVolumeClaimRetentionPolicy") {
        fill_zero(policy, "whenDeleted", "Retain");
        fill_zero(policy, "whenScaled", "Retain");
    }
    for claim in each(spec, "volumeClaimTemplates") {
        fill_zero(claim, "apiVersion", "v1");
        fill_zero(claim, "kind", "PersistentVolumeClaim");
        super::core::persistent_volume_claim(claim);
    }
    template(spec);
}

/// Unlike the others, `RollingUpdate` said in full but without parameters stays without.
fn stateful_set_strategy(spec: &mut Fields) {
    let Some(strategy) = made(spec, "updateStrategy") else { return };
    if is_zero(strategy.get("type")) {
        strategy.insert("type".into(), json!("RollingUpdate"));
        made(strategy, "rollingUpdate");
    }
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(rolling) = inner(strategy, "rollingUpdate")
    {
        fill(rolling, "partition", 0);
    }
}

/// A Job: its labels come from its template.
pub(in crate::kinds) fn job(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    template(spec);
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    fill(spec, "parallelism", 1);
    let backoff =
        if is_absent(spec, "backoffLimitPerIndex") { json!(BACKOFF_LIMIT) } else { json!(i32::MAX) };
    fill(spec, "backoffLimit", backoff);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    failure_policy(spec);
    let labels = template_labels(spec);
    if let (Some(labels), Some(metadata)) = (labels, made(object, "metadata")) {
        fill_zero(metadata, "labels", labels);
    }
}

fn is_absent(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_none_or(Value::is_null)
}

fn failure_policy(spec: &mut Fields) {
    let Some(policy) = inner(spec, "podFailurePolicy") else { return };
    for rule in each(policy, "rules") {
        for pattern in each(rule, "onPodConditions") {
            fill_zero(pattern, "status", "True");
        }
    }
}

/// A CronJob. The Jobs it makes get their own defaults when they are made.
pub(in crate::kinds) fn cron_job(object: &mut Fields) {
    let Some(spec) = spec(object) else { return };
    fill_zero(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = made(spec, "jobTemplate").and_then(|template| made(template, "spec")) {
        template(job);
        failure_policy(job);
    }
}
