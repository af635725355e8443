//! Ingresses, network policies, addresses and endpoints.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read, selector};
use super::service::balancers;
use super::shortened;

/// More hosts, ports or addresses than these are only counted.
const SHOWN: usize = 3;

pub(crate) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = if read::list(object, "spec.tls").is_empty() { "80" } else { "80, 443" };
    vec![
        read::name(object).into(),
        read::text_or(object, "spec.ingressClassName", "<none>").into(),
        hosts(object).into(),
        balancers(object).into(),
        ports.into(),
        age::of(object, now).into(),
    ]
}

/// Rules without a host are not shown, but counted once the list is cut.
fn hosts(object: &Value) -> String {
    let rules = read::list(object, "spec.rules");
    let named = |rule: &&Value| !read::text(rule, "host").is_empty();
    let shown: Vec<_> = rules.iter().filter(named).take(SHOWN).map(|rule| read::text(rule, "host")).collect();
    let full_after =
        rules.iter().enumerate().filter(|(_, rule)| named(rule)).nth(SHOWN - 1).map(|(at, _)| at + 1);
    match (shown.is_empty(), full_after) {
        (true, _) => "*".to_owned(),
        (false, Some(at)) if at < rules.len() => {
            format!("{} + {} more...", shown.join(","), rules.len() - SHOWN)
        }
        (false, _) => shown.join(","),
    }
}

pub(crate) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = annotation(object, "ingressclass.kubernetes.io/is-default-class") == "true";
    let parameters = read::at(object, "spec.parameters").map_or_else(
        || "<none>".to_owned(),
        |parameters| {
            let (kind, name) = (read::text(parameters, "kind"), read::text(parameters, "name"));
            match read::at(parameters, "apiGroup").and_then(Value::as_str) {
                Some(group) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        },
    );
    vec![
        marked(read::name(object), is_default).into(),
        read::text(object, "spec.controller").into(),
        parameters.into(),
        age::of(object, now).into(),
    ]
}

/// An annotation's value; its name has dots, so it is no path.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let annotations = read::map(object, "metadata.annotations");
    annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// The name, marked when it is the default.
pub(crate) fn marked(name: &str, is_default: bool) -> String {
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

pub(crate) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let selector = selector::selector(object, "spec.podSelector");
    vec![read::name(object).into(), selector.into(), age::of(object, now).into()]
}

pub(crate) fn service_cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::texts(object, "spec.cidrs", ",").into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn ip_address(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = read::at(object, "spec.parentRef").map_or_else(|| "<none>".to_owned(), parent);
    vec![read::name(object).into(), parent.into(), age::of(object, now).into()]
}

fn parent(parent: &Value) -> String {
    let resource = [read::text(parent, "resource"), read::text(parent, "group")];
    let resource = read::joined(resource.into_iter().filter(|text| !text.is_empty()), ".").to_lowercase();
    let parts = [&*resource, read::text(parent, "namespace"), read::text(parent, "name")];
    read::joined(parts.into_iter().filter(|text| !text.is_empty()), "/")
}

pub(crate) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let addresses: Vec<_> = read::list(object, "subsets").iter().flat_map(subset).collect();
    let has_subsets = !read::list(object, "subsets").is_empty();
    let shown = if has_subsets { shortened(&addresses, SHOWN, ",") } else { "<none>".to_owned() };
    vec![read::name(object).into(), shown.into(), age::of(object, now).into()]
}

/// Each address with each port; headless services have no ports.
fn subset(subset: &Value) -> Vec<String> {
    let addresses = read::list(subset, "addresses");
    let ports = read::list(subset, "ports");
    if ports.is_empty() {
        return addresses.iter().map(|address| read::text(address, "ip").to_owned()).collect();
    }
    let with = |port: &Value| {
        let port = read::number(port, "port");
        addresses
            .iter()
            .map(move |address| host_and_port(read::text(address, "ip"), port))
            .collect::<Vec<_>>()
    };
    ports.iter().flat_map(with).collect()
}

fn host_and_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

pub(crate) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<_> = read::list(object, "ports")
        .iter()
        .map(|port| match read::at(port, "port") {
            Some(number) => number.to_string(),
            None => read::at(port, "name").and_then(Value::as_str).unwrap_or("*").to_owned(),
        })
        .collect();
    let endpoints = read::list(object, "endpoints").iter();
    let addresses: Vec<_> = endpoints
        .flat_map(|endpoint| read::list(endpoint, "addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        read::name(object).into(),
        read::text(object, "addressType").into(),
        or_unset(shortened(&ports, SHOWN, ",")).into(),
        or_unset(shortened(&addresses, SHOWN, ",")).into(),
        age::of(object, now).into(),
    ]
}

fn or_unset(text: String) -> String {
    if text.is_empty() { "<unset>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "rows of literals read better without references")]
    #[track_caller]
    fn check(cells: crate::kinds::printing::Cells, mut object: Value, expected: Value) {
        object["metadata"]["name"] = json!("n");
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), expected);
    }

    #[test]
    fn hosts_are_listed_and_cut() {
        let rules = |hosts: &[&str]| hosts.iter().map(|host| json!({"host": host})).collect::<Vec<_>>();
        let printed = |hosts: &[&str]| super::hosts(&json!({"spec": {"rules": rules(hosts)}}));
        assert_eq!(printed(&[]), "*");
        assert_eq!(printed(&["", "a"]), "a");
        assert_eq!(printed(&["a", "b", "c"]), "a,b,c");
        assert_eq!(printed(&["a", "b", "c", "d", ""]), "a,b,c + 2 more...");
    }

    #[test]
    fn networking_kinds_print_like_kubernetes() {
        check(
            ingress,
            json!({"spec": {"tls": [{}], "rules": [{"host": "h"}]}}),
            json!(["n", "<none>", "h", "", "80, 443", "<unknown>"]),
        );
        check(
            ingress_class,
            json!({"metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                "spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "p"}}}),
            json!(["n (default)", "c", "K.g/p", "<unknown>"]),
        );
        check(
            endpoints,
            json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 80}, {"port": 81}]}]}),
            json!(["n", "1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...", "<unknown>"]),
        );
        check(
            endpoint_slice,
            json!({"addressType": "IPv4", "ports": [{"name": "x"}], "endpoints": []}),
            json!(["n", "IPv4", "x", "<unset>", "<unknown>"]),
        );
        check(network_policy, json!({"spec": {"podSelector": {}}}), json!(["n", "<none>", "<unknown>"]));
        check(
            ip_address,
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "d", "name": "s"}}}),
            json!(["n", "services/d/s", "<unknown>"]),
        );
    }
}
