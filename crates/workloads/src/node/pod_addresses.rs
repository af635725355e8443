//! Assigns each Pod its own address, although all of them are on this machine.
//!
//! On Linux, all of `127.0.0.0/8` leads to this machine. A program that listens on all addresses, or on its Pod's
//! address, is reachable at that address; two Pods that listen on their own addresses can use the same port. On other
//! systems, and for Pods with `hostNetwork`, the address is `127.0.0.1`.
//!
//! **Invariant:** a Pod keeps the address that its status shows, and no two living Pods share one.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use homeostat_core::hash::fnv_32;
use k8s_openapi::api::core::v1::Pod;

/// The first address, `127.1.0.0`: systems use some of the lower ones (`127.0.0.53`, `127.0.1.1`).
const FIRST: u32 = 0x7f01_0000;
/// The number of addresses, up to `127.254.255.255`.
const COUNT: u32 = 254 << 16;

/// The uid of the Pod that has each address.
#[derive(Default)]
pub(crate) struct PodAddresses(Mutex<HashMap<Ipv4Addr, String>>);

impl PodAddresses {
    /// Returns the Pod's address: the one it has, or a free one.
    pub(crate) fn assign(&self, pod: &Pod) -> Ipv4Addr {
        let is_machines = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        if is_machines || !cfg!(target_os = "linux") {
            return Ipv4Addr::LOCALHOST;
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let known = reported_address(pod);
        if known == Some(Ipv4Addr::LOCALHOST) {
            // An earlier release assigned this address.
            return Ipv4Addr::LOCALHOST;
        }
        // Anyone who may write the status can write any address there; only one that this function could assign is
        // trusted.
        let known = known.filter(|address| (FIRST..FIRST + COUNT).contains(&address.to_bits()));
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = search_start(uid);
        let others = (0..COUNT).map(|step| Ipv4Addr::from(FIRST + (start + step) % COUNT));
        let is_free = |address: &Ipv4Addr| taken.get(address).is_none_or(|other| other == uid);
        // The first and the last of each 256 look like a network address and a broadcast address.
        let is_plain = |address: &Ipv4Addr| !matches!(address.octets()[3], 0 | 255);
        let found = known.into_iter().chain(others).filter(is_plain).find(is_free);
        let found = found.unwrap_or(Ipv4Addr::LOCALHOST);
        taken.insert(found, uid.to_owned());
        found
    }

    /// Frees the addresses of all other Pods.
    pub(crate) fn retain_pods(&self, pods: &HashSet<&str>) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, uid| pods.contains(uid.as_str()));
    }
}

/// Returns the address in the Pod's status.
pub(crate) fn reported_address(pod: &Pod) -> Option<Ipv4Addr> {
    pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()
}

/// Returns where the search begins. It depends on the uid, so that an address is not reused soon.
fn search_start(uid: &str) -> u32 {
    fnv_32(uid.as_bytes()) % COUNT
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, mut spec: Value, address: Option<&str>) -> Pod {
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": spec, "status": {"podIP": address}}))
            .unwrap()
    }

    #[test]
    fn every_pod_has_an_address_of_its_own() {
        let addresses = PodAddresses::default();
        let mut all: Vec<Ipv4Addr> =
            (0..5000).map(|index| addresses.assign(&pod(&index.to_string(), json!({}), None))).collect();
        assert!(all.iter().all(|address| address.is_loopback() && address.octets()[1] != 0));
        assert_eq!(addresses.assign(&pod("7", json!({}), None)), all[7], "the same again");
        let first = all[0].to_string();
        assert_ne!(addresses.assign(&pod("thief", json!({}), Some(&first))), all[0]);
        addresses.retain_pods(&HashSet::from(["7"]));
        assert_eq!(addresses.assign(&pod("heir", json!({}), Some(&first))), all[0]);
        let elsewhere = addresses.assign(&pod("elsewhere", json!({}), Some("10.0.0.7")));
        assert!(elsewhere.is_loopback(), "a status cannot send probes elsewhere: {elsewhere}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5000);
        for (spec, known) in [(json!({"hostNetwork": true}), None), (json!({}), Some("127.0.0.1"))] {
            assert_eq!(addresses.assign(&pod("machine", spec, known)), Ipv4Addr::LOCALHOST);
        }
    }
}
