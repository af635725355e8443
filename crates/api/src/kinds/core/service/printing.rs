//! Prints Services: addresses and ports.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{age, selectors};

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let address = read::list_at(object, "spec.clusterIPs").first().and_then(Value::as_str);
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.type").into(),
        address.unwrap_or(read::string_at_or(object, "spec.clusterIP", "<none>")).into(),
        external(object).into(),
        ports(object).into(),
        age::age_of_object(object, now).into(),
        selectors::labels(object, "spec.selector").into(),
    ]
}

fn external(object: &Value) -> String {
    let own = read::join_strings_at(object, "spec.externalIPs", ",");
    match read::string_at(object, "spec.type") {
        "ExternalName" => read::string_at(object, "spec.externalName").to_owned(),
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => match (&*balancers(object), &*own) {
            ("", "") => "<pending>".to_owned(),
            ("", addresses) | (addresses, "") => addresses.to_owned(),
            (balancers, own) => format!("{balancers},{own}"),
        },
        _ => "<unknown>".to_owned(),
    }
}

/// Returns the addresses of a load balancer, sorted, without duplicates.
pub(in crate::kinds) fn balancers(object: &Value) -> String {
    let entries = read::list_at(object, "status.loadBalancer.ingress").iter();
    let addresses: BTreeSet<_> = entries
        .map(|entry| read::string_at_or(entry, "ip", read::string_at(entry, "hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    read::joined(addresses, ",")
}

fn ports(object: &Value) -> String {
    let ports = read::list_at(object, "spec.ports").iter().map(|port| {
        let (number, protocol) = (read::integer_at(port, "port"), read::string_at(port, "protocol"));
        match read::integer_at(port, "nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    if ports.is_empty() { "<none>".to_owned() } else { ports }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "rows of literals read better without references")]
    #[track_caller]
    fn check(spec: Value, status: Value, expected: Value) {
        let object = json!({"metadata": {"name": "s"}, "spec": spec, "status": status});
        assert_eq!(Value::from(&cells(&object, Timestamp::UNIX_EPOCH)[1..5]), expected);
    }

    #[test]
    fn services_print_as_recorded() {
        check(
            json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"},
                "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
            json!({}),
            json!(["ClusterIP", "None", "<none>", "80/TCP,53/UDP"]),
        );
        check(
            json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "ports": [
                {"port": 80, "nodePort": 30080, "protocol": "TCP"}]}),
            json!({"loadBalancer": {"ingress": [{"hostname": "b"}, {"ip": "1.2.3.4"}]}}),
            json!(["LoadBalancer", "10.0.0.1", "1.2.3.4,b", "80:30080/TCP"]),
        );
        check(
            json!({"type": "LoadBalancer"}),
            json!({}),
            json!(["LoadBalancer", "<none>", "<pending>", "<none>"]),
        );
        check(
            json!({"type": "ExternalName", "externalName": "example.test"}),
            json!({}),
            json!(["ExternalName", "<none>", "example.test", "<none>"]),
        );
    }
}
