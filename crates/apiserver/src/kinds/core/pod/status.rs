//! The status of a Pod: conditions with proper names, addresses that are some, a class that stays, and containers that do
//! not come back from the end their restart policy gave them.
//!
//! Statuses of claims, users and devices are deliberately not judged.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::fill::{first_by_name, items, text};
use crate::kinds::names;
use crate::kinds::validate::at::{At, Errors};

/// Conditions every Pod has.
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

const ENDED: &str = "may not be transitioned to non-terminated state";

/// The status of a changed Pod.
pub(in crate::kinds) fn validate_status(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let before = &old["status"];
    for condition in status.field("conditions").items() {
        count(&condition.field("observedGeneration"), errors);
        let kind = condition.field("type");
        if !SYSTEM_CONDITIONS.contains(&kind.text()) {
            kind.must_be_qualified(&condition.field("Type"), errors);
        }
    }
    nomination(&status.field("nominatedNodeName"), old, errors);
    count(&status.field("observedGeneration"), errors);
    status.field("qosClass").must_stay(&before["qosClass"], errors);
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        endings(&status.field(list), items(before, list), &old["spec"], containers, errors);
    }
    addresses(&status.field("podIPs"), items(before, "podIPs"), errors);
    let hosts = status.field("hostIPs");
    if let Some(first) = hosts.items().next()
        && first.field("ip").text() != text(status.value, "hostIP")
    {
        first.field("ip").invalid("must be equal to `hostIP`", errors);
    }
    addresses(&hosts, items(before, "hostIPs"), errors);
}

fn count(number: &At<'_>, errors: &mut Errors) {
    if number.number() < 0 {
        number.invalid("must be a non-negative integer", errors);
    }
}

/// The node a Pod hopes for; who has one hopes no more.
fn nomination(node: &At<'_>, old: &Value, errors: &mut Errors) {
    if node.is_zero() || node.text() == text(&old["status"], "nominatedNodeName") {
        return;
    }
    node.must_pass(names::subdomain, errors);
    if !text(&old["spec"], "nodeName").is_empty() {
        node.forbidden("may not be set on pods that are already bound to a node", errors);
    }
}

/// At most one address of each family; those that stood there before are not judged again.
fn addresses(list: &At<'_>, before: &[Value], errors: &mut Errors) {
    let known: HashSet<&str> = before.iter().map(|old| text(old, "ip")).collect();
    for one in list.items() {
        let address = one.field("ip");
        if !known.contains(address.text()) {
            At { value: address.value, path: one.path }.must_be_address(errors);
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
        // The real server prints the fields by their Go names.
        let shown: Vec<Value> = shown.iter().map(|address| json!({ "IP": address })).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(&list.path, &json!(shown), detail));
    }
}

fn items_of<'a>(list: &At<'a>) -> impl Iterator<Item = &'a str> {
    list.value.as_array().into_iter().flatten().map(|one| text(one, "ip"))
}

/// A container that ended runs again only if it may be restarted.
fn endings(list: &At<'_>, before: &[Value], spec: &Value, containers: &str, errors: &mut Errors) {
    if ["containers", "initContainers"].iter().any(|list| restarts_all(items(spec, list)))
        && !containers.is_empty()
    {
        return;
    }
    let statuses = first_by_name(list.value.as_array().map(Vec::as_slice).unwrap_or_default());
    let specs = first_by_name(items(spec, containers));
    for (at, old) in before.iter().enumerate() {
        let ended = &old["state"]["terminated"];
        let now = statuses.get(text(old, "name"));
        if ended.is_null() || now.is_none_or(|now| !now["state"]["terminated"].is_null()) {
            continue;
        }
        let container = specs.get(text(old, "name"));
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        if !container.is_some_and(|container| may_restart(container, spec, code)) {
            errors.push(Error::forbidden(&list.path.index(at).field("state"), ENDED));
        }
    }
}

fn restarts_all(containers: &[Value]) -> bool {
    let mut rules = containers.iter().flat_map(|one| items(one, "restartPolicyRules"));
    rules.any(|rule| text(rule, "action") == "RestartAllContainers")
}

/// Its own rules first, then its own policy, then that of the Pod.
fn may_restart(container: &Value, spec: &Value, code: i64) -> bool {
    let fits = |rule: &Value| {
        let codes = &rule["exitCodes"];
        let is_listed = items(codes, "values").contains(&json!(code));
        match text(codes, "operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    if items(container, "restartPolicyRules").iter().any(fits) {
        return true;
    }
    let own = text(container, "restartPolicy");
    match if own.is_empty() { text(spec, "restartPolicy") } else { own } {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}
