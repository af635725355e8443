//! Network traffic to Pods: the kinds of `networking.k8s.io`, one file each.

pub mod ingress;
pub mod ingress_class;
pub(crate) mod ip_address;
pub(crate) mod network_policy;
pub(crate) mod service_cidr;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &ingress_class::INGRESS_CLASS,
    &ingress::INGRESS,
    &ip_address::IP_ADDRESS,
    &network_policy::NETWORK_POLICY,
    &service_cidr::SERVICE_CIDR,
];

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "rows of literals read better without references")]
    #[track_caller]
    fn check(cells: crate::printing::PrintCells, mut object: Value, expected: Value) {
        object["metadata"]["name"] = json!("n");
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), expected);
    }

    #[test]
    fn hosts_are_listed_and_cut() {
        let rules = |hosts: &[&str]| hosts.iter().map(|host| json!({"host": host})).collect::<Vec<_>>();
        let printed = |hosts: &[&str]| {
            crate::kinds::networking::ingress::hosts(&json!({"spec": {"rules": rules(hosts)}}))
        };
        assert_eq!(printed(&[]), "*");
        assert_eq!(printed(&["", "a"]), "a");
        assert_eq!(printed(&["a", "b", "c"]), "a,b,c");
        assert_eq!(printed(&["a", "b", "c", "d", ""]), "a,b,c + 2 more...");
    }

    #[test]
    fn networking_kinds_print_like_kubernetes() {
        check(
            crate::kinds::networking::ingress::cells,
            json!({"spec": {"tls": [{}], "rules": [{"host": "h"}]}}),
            json!(["n", "<none>", "h", "", "80, 443", "<unknown>"]),
        );
        check(
            crate::kinds::networking::ingress_class::cells,
            json!({"metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                "spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "p"}}}),
            json!(["n (default)", "c", "K.g/p", "<unknown>"]),
        );
        check(
            crate::kinds::core::endpoints::cells,
            json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 80}, {"port": 81}]}]}),
            json!(["n", "1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...", "<unknown>"]),
        );
        check(
            crate::kinds::discovery::endpoint_slice::cells,
            json!({"addressType": "IPv4", "ports": [{"name": "x"}], "endpoints": []}),
            json!(["n", "IPv4", "x", "<unset>", "<unknown>"]),
        );
        check(
            crate::kinds::networking::network_policy::cells,
            json!({"spec": {"podSelector": {}}}),
            json!(["n", "<none>", "<unknown>"]),
        );
        check(
            crate::kinds::networking::ip_address::cells,
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "d", "name": "s"}}}),
            json!(["n", "services/d/s", "<unknown>"]),
        );
    }
}
