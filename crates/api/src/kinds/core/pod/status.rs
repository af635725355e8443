//! Validates the status of a Pod: it has conditions with valid names, valid addresses, a quality of service class that
//! does not change, and containers that do not restart against their restart policy.
//!
//! Statuses of claims, users and devices are deliberately not validated.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::field::Error;
use crate::names;
use crate::object::fill::first_by_name;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

/// Conditions every Pod has.
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

const ENDED: &str = "may not be transitioned to non-terminated state";

/// Validates the status of a changed Pod.
pub(in crate::kinds) fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let before = &old["status"];
    for condition in status.field("conditions").items() {
        count(&condition.field("observedGeneration"), errors);
        let kind = condition.field("type");
        if !SYSTEM_CONDITIONS.contains(&kind.text()) {
            kind.must_be_qualified(&condition.field("Type"), errors);
        }
    }
    validate_nominated_node(&status.field("nominatedNodeName"), old, errors);
    count(&status.field("observedGeneration"), errors);
    status.field("qosClass").must_stay(&before["qosClass"], errors);
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        validate_restarts(&status.field(list), read::list_at(before, list), &old["spec"], containers, errors);
    }
    validate_addresses(&status.field("podIPs"), read::list_at(before, "podIPs"), errors);
    let hosts = status.field("hostIPs");
    if let Some(first) = hosts.items().next()
        && first.field("ip").text() != read::string_at(status.value, "hostIP")
    {
        first.field("ip").invalid("must be equal to `hostIP`", errors);
    }
    validate_addresses(&hosts, read::list_at(before, "hostIPs"), errors);
}

fn count(number: &ValueAt<'_>, errors: &mut Errors) {
    if number.number() < 0 {
        number.invalid("must be a non-negative integer", errors);
    }
}

/// Validates the nominated node; a Pod that is already bound to a node cannot get one.
fn validate_nominated_node(node: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    if node.is_zero() || node.text() == read::string_at(&old["status"], "nominatedNodeName") {
        return;
    }
    node.must_pass(names::subdomain, errors);
    if !read::string_at(&old["spec"], "nodeName").is_empty() {
        node.forbidden("may not be set on pods that are already bound to a node", errors);
    }
}

/// Allows at most one address of each family; existing addresses are not validated again.
fn validate_addresses(list: &ValueAt<'_>, before: &[Value], errors: &mut Errors) {
    let known: HashSet<&str> = before.iter().map(|old| read::string_at(old, "ip")).collect();
    for one in list.items() {
        let address = one.field("ip");
        if !known.contains(address.text()) {
            ValueAt { value: address.value, path: one.path }.must_be_address(errors);
        }
    }
    if list.len() < 2 {
        return;
    }
    let shown: Vec<&str> = items_of(list).collect();
    let families = |wanted: fn(&IpAddr) -> bool| {
        shown.iter().filter(|text| text.parse::<IpAddr>().is_ok_and(|address| wanted(&address))).count()
    };
    if shown.len() > 2 || families(IpAddr::is_ipv4) != 1 || families(IpAddr::is_ipv6) != 1 {
        // kube-apiserver prints the fields by their Go names.
        let shown: Vec<Value> = shown.iter().map(|address| json!({ "IP": address })).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(&list.path, &json!(shown), detail));
    }
}

fn items_of<'a>(list: &ValueAt<'a>) -> impl Iterator<Item = &'a str> {
    list.value.as_array().into_iter().flatten().map(|one| read::string_at(one, "ip"))
}

/// Requires that a terminated container runs again only if it may be restarted.
fn validate_restarts(
    list: &ValueAt<'_>,
    before: &[Value],
    spec: &Value,
    containers: &str,
    errors: &mut Errors,
) {
    if ["containers", "initContainers"].iter().any(|list| restarts_all(read::list_at(spec, list)))
        && !containers.is_empty()
    {
        return;
    }
    let statuses = first_by_name(list.value.as_array().map(Vec::as_slice).unwrap_or_default());
    let specs = first_by_name(read::list_at(spec, containers));
    for (at, old) in before.iter().enumerate() {
        let ended = &old["state"]["terminated"];
        let now = statuses.get(read::string_at(old, "name"));
        if ended.is_null() || now.is_none_or(|now| !now["state"]["terminated"].is_null()) {
            continue;
        }
        let container = specs.get(read::string_at(old, "name"));
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        if !container.is_some_and(|container| may_restart(container, spec, code)) {
            errors.push(Error::forbidden(&list.path.index(at).field("state"), ENDED));
        }
    }
}

fn restarts_all(containers: &[Value]) -> bool {
    let mut rules = containers.iter().flat_map(|one| read::list_at(one, "restartPolicyRules"));
    rules.any(|rule| read::string_at(rule, "action") == "RestartAllContainers")
}

/// Returns whether a container may be restarted: its own rules decide, then its own policy, then the Pod's.
fn may_restart(container: &Value, spec: &Value, code: i64) -> bool {
    let fits = |rule: &Value| {
        let codes = &rule["exitCodes"];
        let is_listed = read::list_at(codes, "values").contains(&json!(code));
        match read::string_at(codes, "operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    if read::list_at(container, "restartPolicyRules").iter().any(fits) {
        return true;
    }
    let own = read::string_at(container, "restartPolicy");
    match if own.is_empty() { read::string_at(spec, "restartPolicy") } else { own } {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}
