//! Defaults of the groups around the core: autoscaling, networking, discovery, RBAC, admission, storage, scheduling
//! and flow control. Each is a handful of fields.

use serde_json::{Map, Value, json};

use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, is_zero, made};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const WEBHOOK_TIMEOUT_S: u32 = 10;
const FLOW_SCHEMA_PRECEDENCE: u32 = 1000;

/// A HorizontalPodAutoscaler in autoscaling/v1.
pub(in crate::kinds) fn autoscaler_v1(object: &mut Fields) {
    if let Some(spec) = made(object, "spec") {
        fill(spec, "minReplicas", 1);
    }
}

/// A HorizontalPodAutoscaler in autoscaling/v2.
pub(in crate::kinds) fn autoscaler(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "minReplicas", 1);
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    fill_zero(spec, "metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    let Some(behavior) = inner(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = made(behavior, "scaleUp") {
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        fill(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = made(behavior, "scaleDown") {
        fill(down, "selectPolicy", "Max");
        fill(down, "policies", json!([percent]));
    }
}

/// A NetworkPolicy.
pub(in crate::kinds) fn network_policy(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            for port in each(rule, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    }
    let types = if is_zero(spec.get("egress")) { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    fill_zero(spec, "policyTypes", types);
}

/// An IngressClass.
pub(in crate::kinds) fn ingress_class(object: &mut Fields) {
    if let Some(parameters) = inner(object, "spec").and_then(|spec| inner(spec, "parameters")) {
        fill(parameters, "scope", "Cluster");
    }
}

/// An EndpointSlice.
pub(in crate::kinds) fn endpoint_slice(object: &mut Fields) {
    for port in each(object, "ports") {
        fill(port, "name", "");
        fill(port, "protocol", "TCP");
    }
}

/// A RoleBinding or ClusterRoleBinding.
pub(in crate::kinds) fn role_binding(object: &mut Fields) {
    if let Some(reference) = made(object, "roleRef") {
        fill_zero(reference, "apiGroup", RBAC_GROUP);
    }
    for subject in each(object, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill_zero(subject, "apiGroup", RBAC_GROUP);
        }
    }
}

/// A ValidatingWebhookConfiguration.
pub(in crate::kinds) fn validating_webhooks(object: &mut Fields) {
    each(object, "webhooks").for_each(webhook);
}

/// A MutatingWebhookConfiguration.
pub(in crate::kinds) fn mutating_webhooks(object: &mut Fields) {
    for one in each(object, "webhooks") {
        webhook(one);
        fill(one, "reinvocationPolicy", "Never");
    }
}

fn webhook(webhook: &mut Fields) {
    fill(webhook, "failurePolicy", "Fail");
    fill(webhook, "timeoutSeconds", WEBHOOK_TIMEOUT_S);
    matching(webhook);
    each(webhook, "rules").for_each(rule_scope);
    if let Some(service) = inner(webhook, "clientConfig").and_then(|config| inner(config, "service")) {
        fill(service, "port", 443);
    }
}

fn matching(parent: &mut Fields) {
    fill(parent, "matchPolicy", "Equivalent");
    fill(parent, "namespaceSelector", Map::new());
    fill(parent, "objectSelector", Map::new());
}

fn rule_scope(rule: &mut Fields) {
    fill(rule, "scope", "*");
}

fn match_resources(resources: &mut Fields) {
    matching(resources);
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list).for_each(rule_scope);
    }
}

/// A ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
pub(in crate::kinds) fn admission_policy(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "failurePolicy", "Fail");
    if let Some(constraints) = inner(spec, "matchConstraints") {
        match_resources(constraints);
    }
}

/// The binding of an admission policy.
pub(in crate::kinds) fn admission_policy_binding(object: &mut Fields) {
    if let Some(resources) = inner(object, "spec").and_then(|spec| inner(spec, "matchResources")) {
        match_resources(resources);
    }
}

/// A StorageClass.
pub(in crate::kinds) fn storage_class(object: &mut Fields) {
    fill(object, "reclaimPolicy", "Delete");
    fill(object, "volumeBindingMode", "Immediate");
}

/// A CSIDriver.
pub(in crate::kinds) fn csi_driver(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, name, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

/// A PriorityClass.
pub(in crate::kinds) fn priority_class(object: &mut Fields) {
    fill(object, "preemptionPolicy", "PreemptLowerPriority");
}

/// A FlowSchema.
pub(in crate::kinds) fn flow_schema(object: &mut Fields) {
    if let Some(spec) = made(object, "spec") {
        fill_zero(spec, "matchingPrecedence", FLOW_SCHEMA_PRECEDENCE);
    }
}

/// A PriorityLevelConfiguration.
pub(in crate::kinds) fn priority_level(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    for (name, shares) in [("exempt", 0), ("limited", 30)] {
        if let Some(level) = inner(spec, name) {
            fill(level, "nominalConcurrencyShares", shares);
            fill(level, "lendablePercent", 0);
        }
    }
    let queuing = inner(spec, "limited")
        .and_then(|limited| inner(limited, "limitResponse"))
        .and_then(|response| inner(response, "queuing"));
    if let Some(queuing) = queuing {
        for (name, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
            fill_zero(queuing, name, value);
        }
    }
}
