//! Validates amounts of resources: names must be known or fully qualified, and quantities must be valid.
//!
//! **Invariant:** an extended resource (`example.com/card`) is counted in whole units and given to one container
//! only, so its request must equal its limit. Whether huge pages fit their size is deliberately not validated.

use homeostat_core::quantity::parse_nanos;
use serde_json::{Value, json};

use crate::field::Error;
use crate::names;
use crate::resource::value_at::{Errors, ValueAt};

const NANOS_PER_MILLI: i128 = 1_000_000;
const MILLIS_PER_ONE: i128 = 1_000;
/// The prefix of resource names in quotas for requests.
const REQUESTS_PREFIX: &str = "requests.";
/// Resources that are counted, not measured.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const MEASURED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Validates requests and limits: names must be valid, amounts must not be negative, and no request may exceed its
/// limit.
pub(in crate::kinds) fn of_container(resources: &ValueAt<'_>, errors: &mut Errors) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for list in [&limits, &requests] {
        for (name, amount) in list.entries() {
            container_name(name, &amount, errors);
            value(name, &amount, errors);
        }
    }
    for (name, request) in requests.entries() {
        let limit = limits.key(name);
        if !limit.is_set() && !may_overcommit(name) {
            limits.required("Limit must be set for non overcommitable resources", errors);
        }
        let (Some(wanted), Some(allowed)) = (nanos(request.value), nanos(limit.value)) else { continue };
        let detail = if wanted != allowed && !may_overcommit(name) {
            format!("must be equal to {name} limit of {}", limit.text())
        } else if wanted > allowed {
            format!("must be less than or equal to {name} limit of {}", limit.text())
        } else {
            continue;
        };
        errors.push(Error::invalid(&requests.path, request.value, &detail));
    }
    let asks_for = |wanted: fn(&str) -> bool| {
        [&limits, &requests].iter().any(|list| list.entries().any(|(name, _)| wanted(name)))
    };
    if asks_for(|name| name.starts_with("hugepages-")) && !asks_for(|name| matches!(name, "cpu" | "memory")) {
        resources.forbidden("HugePages require cpu or memory", errors);
    }
}

/// Returns the amount in billionths; `None` if the value is not an amount.
pub(in crate::kinds) fn nanos(amount: &Value) -> Option<i128> {
    match amount {
        Value::String(text) => parse_nanos(text),
        Value::Number(number) => parse_nanos(&number.to_string()),
        _ => None,
    }
}

/// Returns whether the resource may be overcommitted.
pub(in crate::kinds) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS_PREFIX)
        && names::qualified(&format!("{REQUESTS_PREFIX}{name}")).is_empty()
}

/// Rejects a negative amount, and a fractional one if the resource is counted.
pub(in crate::kinds) fn value(name: &str, amount: &ValueAt<'_>, errors: &mut Errors) {
    let Some(nanos) = nanos(amount.value) else { return };
    if nanos < 0 {
        amount.invalid("must be greater than or equal to 0", errors);
    }
    let millis = nanos.div_euclid(NANOS_PER_MILLI) + i128::from(nanos.rem_euclid(NANOS_PER_MILLI) > 0);
    if millis % MILLIS_PER_ONE != 0 && (COUNTED.contains(&name) || is_extended(name)) {
        amount.invalid("must be an integer", errors);
    }
}

/// Validates the name of a resource that a container can ask for.
pub(in crate::kinds) fn container_name(name: &str, amount: &ValueAt<'_>, errors: &mut Errors) {
    any_name(name, amount, errors);
    let is_standard =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !is_standard {
        report_name(name, amount, "must be a standard resource for containers", errors);
    } else if !is_native(name) && !is_extended(name) {
        report_name(name, amount, "doesn't follow extended resource name standard", errors);
    }
}

/// Validates the name of a resource that a quota can limit.
pub(in crate::kinds) fn quota_name(name: &str, amount: &ValueAt<'_>, errors: &mut Errors) {
    any_name(name, amount, errors);
    if !name.contains('/') && !is_quota(name) {
        report_name(name, amount, "must be a standard resource for quota", errors);
    }
}

/// Returns whether the server itself maintains the quota for this resource.
pub(in crate::kinds) fn is_quota(name: &str) -> bool {
    let is_huge = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    is_huge || COUNTED.contains(&name) || MEASURED.contains(&name)
}

/// Validates the name of any resource.
pub(in crate::kinds) fn any_name(name: &str, amount: &ValueAt<'_>, errors: &mut Errors) {
    let error_texts = names::qualified(name);
    if error_texts.is_empty() && !name.contains('/') && !is_quota(name) && name != "storage" {
        report_name(name, amount, "must be a standard resource type or fully qualified", errors);
    }
    for error_text in error_texts {
        report_name(name, amount, &error_text, errors);
    }
}

fn report_name(name: &str, amount: &ValueAt<'_>, detail: &str, errors: &mut Errors) {
    errors.push(Error::invalid(&amount.path, &json!(name), detail));
}
