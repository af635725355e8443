//! Amounts of resources: names that are known or fully qualified, numbers that can be had.
//!
//! **Invariant:** a resource somebody else defines (`example.com/card`) is counted in whole pieces and given to one
//! container only, so that its request is its limit. Whether huge pages fit their size is deliberately not judged.

use homeostat_core::quantity::parse_nanos;
use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::names;

const NANOS_PER_MILLI: i128 = 1_000_000;
const MILLIS_PER_ONE: i128 = 1_000;
/// Quotas of requests put this in front of the name.
const REQUESTS_PREFIX: &str = "requests.";
/// What is counted, not measured.
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

/// Requests and limits: well-named, not negative, and no request above its limit.
pub(in crate::kinds) fn of_container(resources: &At<'_>, errors: &mut Errors) {
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

/// The amount in billionths; `None`: not an amount.
pub(in crate::kinds) fn nanos(amount: &Value) -> Option<i128> {
    match amount {
        Value::String(text) => parse_nanos(text),
        Value::Number(number) => parse_nanos(&number.to_string()),
        _ => None,
    }
}

/// May more of it be promised than there is?
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

/// An amount is not negative, and what is counted is whole.
pub(in crate::kinds) fn value(name: &str, amount: &At<'_>, errors: &mut Errors) {
    let Some(nanos) = nanos(amount.value) else { return };
    if nanos < 0 {
        amount.invalid("must be greater than or equal to 0", errors);
    }
    let millis = nanos.div_euclid(NANOS_PER_MILLI) + i128::from(nanos.rem_euclid(NANOS_PER_MILLI) > 0);
    if millis % MILLIS_PER_ONE != 0 && (COUNTED.contains(&name) || is_extended(name)) {
        amount.invalid("must be an integer", errors);
    }
}

/// The name of a resource a container can ask for.
pub(in crate::kinds) fn container_name(name: &str, amount: &At<'_>, errors: &mut Errors) {
    any_name(name, amount, errors);
    let is_standard =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !is_standard {
        complain(name, amount, "must be a standard resource for containers", errors);
    } else if !is_native(name) && !is_extended(name) {
        complain(name, amount, "doesn't follow extended resource name standard", errors);
    }
}

/// The name of a resource a quota can limit.
pub(in crate::kinds) fn quota_name(name: &str, amount: &At<'_>, errors: &mut Errors) {
    any_name(name, amount, errors);
    if !name.contains('/') && !is_quota(name) {
        complain(name, amount, "must be a standard resource for quota", errors);
    }
}

/// Does the server itself keep the quota of this resource?
pub(in crate::kinds) fn is_quota(name: &str) -> bool {
    let is_huge = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    is_huge || COUNTED.contains(&name) || MEASURED.contains(&name)
}

/// The name of any resource.
pub(in crate::kinds) fn any_name(name: &str, amount: &At<'_>, errors: &mut Errors) {
    let complaints = names::qualified(name);
    if complaints.is_empty() && !name.contains('/') && !is_quota(name) && name != "storage" {
        complain(name, amount, "must be a standard resource type or fully qualified", errors);
    }
    for complaint in complaints {
        complain(name, amount, &complaint, errors);
    }
}

fn complain(name: &str, amount: &At<'_>, detail: &str, errors: &mut Errors) {
    errors.push(Error::invalid(&amount.path, &json!(name), detail));
}
