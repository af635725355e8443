//! Decides which EndpointSlices mirror an Endpoints object: one per address family and set of ports. This module is
//! pure.
//!
//! The subsets are repacked first, as Kubernetes does: an address with the same ports in two subsets is one endpoint,
//! and one that is both ready and not ready on a port is not ready.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{MANAGED_BY, MANAGER};

/// The maximum number of addresses mirrored per set of ports: the same as in Kubernetes, and the limit of a slice.
const ADDRESSES_MAX: usize = 1000;

const SERVICE: &str = "kubernetes.io/service-name";
/// Annotations of the Endpoints that are not copied to the slices.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// A change to the slices.
#[derive(Debug)]
pub(super) enum MirrorChange {
    Create(EndpointSlice),
    Update(Arc<EndpointSlice>, EndpointSlice),
    Delete(Arc<EndpointSlice>),
}

/// The changes to the slices, and the addresses that cannot be mirrored.
#[derive(Debug, Default)]
pub(super) struct MirrorPlan {
    pub(super) changes: Vec<MirrorChange>,
    invalid: usize,
    beyond_limit: usize,
}

/// An event about the Endpoints.
pub(super) struct Warning {
    pub(super) reason: &'static str,
    pub(super) text: String,
}

impl MirrorPlan {
    /// Returns the plan that removes all mirrors.
    pub(super) fn without(slices: &[Arc<EndpointSlice>]) -> Self {
        let changes = slices.iter().cloned().map(MirrorChange::Delete).collect();
        Self { changes, ..Self::default() }
    }

    /// Returns warnings about addresses that are left out.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        // Warns only when the slices change, so that a reconcile that finds everything in order stays silent.
        if self.changes.is_empty() {
            return Vec::new();
        }
        let (invalid, beyond) = (self.invalid, self.beyond_limit);
        let invalid = (invalid > 0).then(|| Warning {
            reason: "InvalidIPAddress",
            text: format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"),
        });
        let beyond = (beyond > 0).then(|| Warning {
            reason: "TooManyAddressesToMirror",
            text: format!(
                "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. {beyond} addresses were skipped"
            ),
        });
        invalid.into_iter().chain(beyond).collect()
    }
}

/// Returns the changes that make the slices mirror the Endpoints.
pub(super) fn mirror_plan(endpoints: &Endpoints, present: &[Arc<EndpointSlice>]) -> MirrorPlan {
    let mut plan = MirrorPlan::default();
    let mut left = present.to_vec();
    for wanted in wanted_slices(endpoints, &mut plan) {
        match left.iter().position(|slice| is_for_same_ports(slice, &wanted)) {
            Some(position) => {
                let slice = left.remove(position);
                if !is_same(&slice, &wanted) {
                    plan.changes.push(MirrorChange::Update(slice, wanted));
                }
            }
            None => plan.changes.push(MirrorChange::Create(wanted)),
        }
    }
    plan.changes.extend(left.into_iter().map(MirrorChange::Delete));
    plan
}

/// Returns a patch that turns the present slice into the wanted one.
pub(super) fn slice_patch(present: &EndpointSlice, wanted: &EndpointSlice) -> Value {
    let changed = |before: &Option<BTreeMap<String, String>>, after: &Option<BTreeMap<String, String>>| {
        let gone = before.iter().flatten().map(|(key, _)| (key.clone(), Value::Null));
        let kept = after.iter().flatten().map(|(key, value)| (key.clone(), json!(value)));
        Value::Object(gone.chain(kept).collect())
    };
    let labels = changed(&present.metadata.labels, &wanted.metadata.labels);
    let annotations = changed(&present.metadata.annotations, &wanted.metadata.annotations);
    json!({"metadata": {"labels": labels, "annotations": annotations},
           "endpoints": wanted.endpoints, "ports": wanted.ports})
}

fn is_for_same_ports(slice: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    slice.address_type == wanted.address_type && sorted_ports(slice) == sorted_ports(wanted)
}

fn sorted_ports(slice: &EndpointSlice) -> Vec<String> {
    let mut ports: Vec<String> = slice.ports.iter().flatten().map(|port| json!(port).to_string()).collect();
    ports.sort_unstable();
    ports
}

fn is_same(slice: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let empty = BTreeMap::new();
    let annotations = |one: &EndpointSlice| one.metadata.annotations.clone().unwrap_or_default();
    let labels = |one: &EndpointSlice| one.metadata.labels.as_ref().unwrap_or(&empty).clone();
    slice.endpoints == wanted.endpoints
        && labels(slice) == labels(wanted)
        && annotations(slice) == annotations(wanted)
}

/// Returns the slices that the Endpoints should have, and counts the addresses that are left out.
fn wanted_slices(endpoints: &Endpoints, plan: &mut MirrorPlan) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    for (ports, addresses) in repacked(endpoints.subsets.as_deref().unwrap_or_default()) {
        let mut by_family: BTreeMap<&str, Vec<Endpoint>> = BTreeMap::new();
        let mut room = ADDRESSES_MAX;
        for (address, is_ready) in addresses {
            match endpoint(&address, is_ready) {
                None => plan.invalid += 1,
                Some(_) if room == 0 => plan.beyond_limit += 1,
                Some((family, endpoint)) => {
                    room -= 1;
                    by_family.entry(family).or_default().push(endpoint);
                }
            }
        }
        slices.extend(by_family.into_iter().map(|(family, all)| slice(endpoints, family, &ports, all)));
    }
    slices
}

/// Addresses and whether each is ready, by IP and target uid.
type Addresses = BTreeMap<(String, Option<String>), (EndpointAddress, bool)>;

/// A set of ports, and the addresses that have it, each with its readiness.
type PortsAndAddresses = (Vec<EndpointPort>, Vec<(EndpointAddress, bool)>);

/// Returns the sets of ports and the addresses that each has, ready ones first.
fn repacked(subsets: &[EndpointSubset]) -> Vec<PortsAndAddresses> {
    let mut by_port: BTreeMap<String, (Option<EndpointPort>, Addresses)> = BTreeMap::new();
    for subset in subsets {
        for port in ports(subset) {
            let (_, addresses) =
                by_port.entry(json!(port).to_string()).or_insert_with(|| (port.clone(), Addresses::new()));
            add_addresses(addresses, subset);
        }
    }
    let mut packed: Vec<(Vec<EndpointPort>, Addresses)> = Vec::new();
    for (port, addresses) in by_port.into_values() {
        match packed.iter_mut().find(|(ports, known)| !ports.is_empty() && *known == addresses) {
            Some((ports, _)) if port.is_some() => ports.extend(port),
            _ => packed.push((port.into_iter().collect(), addresses)),
        }
    }
    let in_order = |addresses: Addresses| {
        let (ready, unready): (Vec<_>, Vec<_>) = addresses.into_values().partition(|(_, is_ready)| *is_ready);
        ready.into_iter().chain(unready).collect()
    };
    packed.into_iter().map(|(ports, addresses)| (ports, in_order(addresses))).collect()
}

/// Returns the ports of a subset; a single `None` if it has no ports.
fn ports(subset: &EndpointSubset) -> Vec<Option<EndpointPort>> {
    let port = |one: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(one.name.clone().unwrap_or_default()),
        port: Some(one.port),
        protocol: Some(one.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: one.app_protocol.clone(),
    };
    let ports: Vec<_> = subset.ports.iter().flatten().map(|one| Some(port(one))).collect();
    if ports.is_empty() { vec![None] } else { ports }
}

fn add_addresses(addresses: &mut Addresses, subset: &EndpointSubset) {
    let ready = subset.addresses.iter().flatten().map(|one| (one, true));
    let unready = subset.not_ready_addresses.iter().flatten().map(|one| (one, false));
    for (address, is_ready) in ready.chain(unready) {
        let target = address.target_ref.as_ref().and_then(|target| target.uid.clone());
        let known = addresses.entry((address.ip.clone(), target));
        let (_, was_ready) = known.or_insert_with(|| (address.clone(), true));
        *was_ready &= is_ready;
    }
}

/// Returns the family and the endpoint of an address; `None` if it is not an IP address.
fn endpoint(address: &EndpointAddress, is_ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip: IpAddr = address.ip.parse().ok()?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    };
    Some((if ip.is_ipv4() { "IPv4" } else { "IPv6" }, endpoint))
}

fn slice(endpoints: &Endpoints, family: &str, ports: &[EndpointPort], all: Vec<Endpoint>) -> EndpointSlice {
    let name = endpoints.metadata.name.clone().unwrap_or_default();
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_MIRRORED.contains(&key.as_str()));
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels.insert(SERVICE.to_owned(), name.clone());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            labels: Some(labels),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: Some(all),
        ports: Some(ports.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn endpoints(subsets: Value) -> Endpoints {
        let metadata = json!({"name": "web", "labels": {"app": "web"},
            "annotations": {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"}});
        serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
    }

    /// Checks the slices, each written as `family ports: addresses`, with `!` before addresses that are not ready.
    #[track_caller]
    fn check(subsets: Value, expected: &[&str]) {
        let described = |slice: &EndpointSlice| {
            let ports: Vec<String> =
                slice.ports.iter().flatten().map(|port| port.port.unwrap().to_string()).collect();
            let addresses: Vec<String> = (slice.endpoints.iter().flatten())
                .map(|one| {
                    let is_ready = one.conditions.as_ref().unwrap().ready == Some(true);
                    format!("{}{}", if is_ready { "" } else { "!" }, one.addresses[0])
                })
                .collect();
            format!("{} {}: {}", slice.address_type, ports.join(","), addresses.join(" "))
        };
        let slices = wanted_slices(&endpoints(subsets), &mut MirrorPlan::default());
        assert_eq!(slices.iter().map(described).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn slices_by_family_and_ports() {
        let subset = |ports: &[i32], ready: &[&str], unready: &[&str]| {
            let ips = |all: &[&str]| all.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
            let ports: Vec<Value> =
                ports.iter().map(|port| json!({"port": port, "name": format!("p{port}")})).collect();
            json!({"ports": ports, "addresses": ips(ready), "notReadyAddresses": ips(unready)})
        };
        check(json!(null), &[]);
        check(json!([subset(&[80], &[], &[])]), &[]);
        check(json!([subset(&[80], &["10.1.2.3"], &["10.1.2.4"])]), &["IPv4 80: 10.1.2.3 !10.1.2.4"]);
        check(json!([subset(&[], &["10.1.2.3"], &[])]), &["IPv4 : 10.1.2.3"]);
        check(
            json!([subset(&[80], &["10.1.2.3", "fd00::1"], &[])]),
            &["IPv4 80: 10.1.2.3", "IPv6 80: fd00::1"],
        );
        let same = json!([subset(&[80], &["10.0.0.1"], &[]), subset(&[80], &["10.0.0.2"], &["10.0.0.1"])]);
        check(same, &["IPv4 80: 10.0.0.2 !10.0.0.1"]);
        let two = json!([subset(&[80, 81], &["10.0.0.1"], &[]), subset(&[90], &["10.0.0.2"], &[])]);
        check(two, &["IPv4 80,81: 10.0.0.1", "IPv4 90: 10.0.0.2"]);
        check(json!([subset(&[80], &["host", "10.0.0.1"], &[])]), &["IPv4 80: 10.0.0.1"]);
    }

    #[test]
    fn a_slice_is_kept_changed_or_removed() {
        let subsets = |ip: &str, port: i32| json!([{"ports": [{"port": port}], "addresses": [{"ip": ip}]}]);
        let made = |subsets: Value| {
            let mut slices = wanted_slices(&endpoints(subsets), &mut MirrorPlan::default());
            Arc::new(slices.remove(0))
        };
        let present = [made(subsets("10.0.0.1", 80))];
        assert!(mirror_plan(&endpoints(subsets("10.0.0.1", 80)), &present).changes.is_empty());
        let changed = mirror_plan(&endpoints(subsets("10.0.0.2", 80)), &present).changes;
        assert!(matches!(&changed[..], [MirrorChange::Update(..)]), "{changed:?}");
        let replaced = mirror_plan(&endpoints(subsets("10.0.0.1", 90)), &present).changes;
        assert!(matches!(&replaced[..], [MirrorChange::Create(_), MirrorChange::Delete(_)]), "{replaced:?}");
        let doubled = [made(subsets("10.0.0.1", 80)), made(subsets("10.0.0.1", 80))];
        let removed = mirror_plan(&endpoints(subsets("10.0.0.1", 80)), &doubled).changes;
        assert!(matches!(&removed[..], [MirrorChange::Delete(_)]), "{removed:?}");
    }

    #[test]
    fn metadata_follows_the_endpoints() {
        let mut before = wanted_slices(
            &endpoints(json!([{"ports": [{"port": 80}], "addresses": [{"ip": "10.0.0.1"}]}])),
            &mut MirrorPlan::default(),
        )
        .remove(0);
        let after = before.clone();
        assert_eq!(json!(after.metadata.annotations), json!({"note": "kept"}));
        before.metadata.labels.get_or_insert_default().insert("old".into(), "1".into());
        let patch = slice_patch(&before, &after);
        assert_eq!(
            patch["metadata"]["labels"],
            json!({"app": "web", "old": null, SERVICE: "web", MANAGED_BY: MANAGER})
        );
    }

    #[test]
    fn what_is_left_out_is_told() {
        let many: Vec<Value> =
            (0..1002).map(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)})).collect();
        let mut all = many;
        all.push(json!({"ip": "host"}));
        let plan = mirror_plan(&endpoints(json!([{"ports": [{"port": 80}], "addresses": all}])), &[]);
        let warnings: Vec<String> =
            plan.warnings().iter().map(|one| format!("{}: {}", one.reason, one.text)).collect();
        assert_eq!(
            warnings,
            [
                "InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
                "TooManyAddressesToMirror: A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"
            ]
        );
    }
}
