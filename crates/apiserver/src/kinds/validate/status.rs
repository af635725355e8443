//! What a status may say: phases that fit the object, addresses that are some, counts that add up.
//!
//! **Invariant:** what stood there before and does not change is not judged again where Kubernetes tolerates it. Whether a
//! status is true is deliberately nobody's business here.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::fill::{items, text};
use crate::kinds::names;

/// Where an Ingress is reached.
pub(in crate::kinds) fn ingress(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let known = balanced(old).iter().map(|one| text(one, "ip")).collect();
    for ingress in status.field("loadBalancer").field("ingress").items() {
        reachable(&ingress, &known, errors);
    }
}

/// No count of a budget is below zero.
pub(in crate::kinds) fn budget(new: &At<'_>, _: &Value, errors: &mut Errors) {
    let status = new.field("status");
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.field(name).must_not_be_negative(errors);
    }
}

/// The phase of a Namespace says whether it is being deleted, and nothing else.
pub(in crate::kinds) fn namespace(new: &At<'_>, _: &Value, errors: &mut Errors) {
    let is_deleting = !new.value["metadata"]["deletionTimestamp"].is_null();
    let (expected, mark) = if is_deleting { ("Terminating", "not empty") } else { ("Active", "empty") };
    let status = new.field("status");
    let phase = status.field("phase");
    let phase = if phase.is_zero() { "Active" } else { phase.text() };
    if phase != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` is {mark}");
        errors.push(Error::invalid(&status.path.field("Phase"), &json!(phase), &detail));
    }
}

fn balanced(object: &Value) -> &[Value] {
    items(&object["status"]["loadBalancer"], "ingress")
}

/// Only load balancers have somewhere to be reached.
pub(in crate::kinds) fn service(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let balancer = status.field("loadBalancer");
    let list = balancer.field("ingress");
    if list.len() > 0 && new.value["spec"]["type"] != "LoadBalancer" {
        list.forbidden("may only be used when `spec.type` is 'LoadBalancer'", errors);
        return;
    }
    let known = balanced(old).iter().map(|one| text(one, "ip")).collect();
    for ingress in list.items() {
        reachable(&ingress, &known, errors);
        let (mode, has_address) = (ingress.field("ipMode"), !ingress.field("ip").is_zero());
        match (mode.is_set(), has_address) {
            (false, true) => mode.required("must be specified when `ip` is set", errors),
            (true, false) => mode.forbidden("may not be specified when `ip` is not set", errors),
            _ => mode.must_be_one_of(&["Proxy", "VIP"], errors),
        }
    }
}

/// Where a load balancer is reached: by an address, by a name, or by both.
fn reachable(ingress: &At<'_>, known: &HashSet<&str>, errors: &mut Errors) {
    let (address, host) = (ingress.field("ip"), ingress.field("hostname"));
    if !address.is_zero() && !known.contains(address.text()) {
        address.must_be_address(errors);
    }
    host.must_pass(names::subdomain, errors);
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
}
