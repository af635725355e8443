//! Allocates cluster IPs and node ports for Services.
//!
//! **Invariant:** an address or port belongs to one Service at a time. The allocator lives in memory, is filled from
//! the stored Services at startup ([`ServiceAllocator::observe`]) and is notified of every successful write
//! ([`ServiceAllocator::record_commit`]). Values allocated for a failed write become free automatically, so a client
//! that keeps trying to create an existing Service cannot use up the ports. IPv4 only: this is a single-stack cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::Entropy;
use serde_json::{Value, json};

use super::SERVICE_NETWORK;
use crate::field::{Error, Errors, FieldPath};
use crate::object::fill::{JsonObject, is_zero, object_mut, objects_mut};
use crate::object::read;

const NODE_PORT_MIN: u16 = 30_000;
const NODE_PORT_MAX: u16 = 32_767;
/// The node port that a dry run shows: no real allocation can return it.
const DRY_RUN_PORT: u16 = 32_769;
/// The number of later allocations after which the write for which a value was allocated must have completed: far more
/// than may be in flight.
const RESERVATIONS_MAX: u64 = 1024;
/// Twice the number of live reservations, with one address and one port each.
const PRUNE_AT: usize = 4096;
/// Random attempts before the search becomes linear; if half the range is taken, the chance that the linear search is
/// needed is 2^-16.
const RANDOM_TRIES: usize = 16;

/// The addresses and ports that a Service holds.
#[derive(Clone, Debug, Default)]
struct HeldValues {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<u16>,
}

impl HeldValues {
    fn of(service: &Value) -> Self {
        let spec = &service["spec"];
        let addresses = read::list_at(spec, "clusterIPs").iter().filter_map(|one| one.as_str()?.parse().ok());
        let ports = read::list_at(spec, "ports").iter().map(|port| &port["nodePort"]);
        let ports = ports.chain([&spec["healthCheckNodePort"]]);
        let ports = ports.filter_map(|port| u16::try_from(port.as_u64()?).ok()).filter(|port| *port != 0);
        Self { addresses: addresses.collect(), ports: ports.collect() }
    }
}

/// Whether an allocation is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceAllocationMode {
    /// The values are allocated.
    Real,
    /// The values are only shown; nothing is allocated.
    DryRun,
}

/// The values that are taken by stored Services or by unfinished writes.
#[derive(Clone, Debug, Default)]
struct TakenValues {
    held: HeldValues,
    /// The number of the allocation that reserved each value.
    reserved_addresses: BTreeMap<Ipv4Addr, u64>,
    reserved_ports: BTreeMap<u16, u64>,
    allocations: u64,
}

impl TakenValues {
    fn has_address(&self, address: Ipv4Addr) -> bool {
        self.held.addresses.contains(&address) || self.is_live(self.reserved_addresses.get(&address))
    }

    fn has_port(&self, port: u16) -> bool {
        self.held.ports.contains(&port) || self.is_live(self.reserved_ports.get(&port))
    }

    fn is_live(&self, reservation: Option<&u64>) -> bool {
        reservation.is_some_and(|allocation| allocation + RESERVATIONS_MAX > self.allocations)
    }

    fn reserve(&mut self, fresh: HeldValues) {
        self.allocations += 1;
        // Pruned only if half of the reservations may be stale, so that allocation is cheap on average.
        if self.reserved_addresses.len() + self.reserved_ports.len() > PRUNE_AT {
            let oldest = self.allocations.saturating_sub(RESERVATIONS_MAX);
            self.reserved_addresses.retain(|_, allocation| *allocation > oldest);
            self.reserved_ports.retain(|_, allocation| *allocation > oldest);
        }
        self.reserved_addresses
            .extend(fresh.addresses.into_iter().map(|address| (address, self.allocations)));
        self.reserved_ports.extend(fresh.ports.into_iter().map(|port| (port, self.allocations)));
    }

    fn forget(&mut self, held: &HeldValues) {
        for address in &held.addresses {
            self.held.addresses.remove(address);
            self.reserved_addresses.remove(address);
        }
        for port in &held.ports {
            self.held.ports.remove(port);
            self.reserved_ports.remove(port);
        }
    }

    fn hold(&mut self, held: HeldValues) {
        self.forget(&held);
        self.held.addresses.extend(held.addresses);
        self.held.ports.extend(held.ports);
    }
}

/// Allocates addresses and node ports.
#[derive(Debug, Default)]
pub struct ServiceAllocator {
    taken: Mutex<TakenValues>,
}

impl ServiceAllocator {
    /// Returns an allocator that has allocated the same addresses and ports.
    #[must_use]
    pub fn forked(&self) -> Self {
        Self { taken: Mutex::new(self.taken().clone()) }
    }

    fn taken(&self) -> MutexGuard<'_, TakenValues> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the values that a stored Service holds; call this for each one at startup.
    pub fn observe(&self, service: &Value) {
        self.record_commit(None, Some(service));
    }

    /// Records that a write succeeded: the values that `old` held become free unless `new` holds them. A failed write
    /// needs no call; the values allocated for it become free about a thousand allocations later.
    pub fn record_commit(&self, old: Option<&Value>, new: Option<&Value>) {
        let mut taken = self.taken();
        if let Some(old) = old {
            taken.forget(&HeldValues::of(old));
        }
        if let Some(new) = new {
            taken.hold(HeldValues::of(new));
        }
    }

    /// Fills in the addresses and ports that a prepared and valid Service still needs. On error nothing is allocated.
    pub fn allocate(
        &self,
        service: &mut Value,
        old: Option<&Value>,
        mode: ServiceAllocationMode,
        entropy: &Entropy,
    ) -> Result<(), Errors> {
        let held = old.map(HeldValues::of).unwrap_or_default();
        let Some(spec) = service.as_object_mut().and_then(|service| object_mut(service, "spec")) else {
            return Ok(());
        };
        check_families(spec)?;
        let mut taken = self.taken();
        let mut claim =
            ServiceAllocation { taken: &taken, held: &held, fresh: HeldValues::default(), mode, entropy };
        claim.address(spec)?;
        claim.ports(spec)?;
        let fresh = claim.fresh;
        if mode == ServiceAllocationMode::Real {
            taken.reserve(fresh);
        }
        Ok(())
    }
}

/// Rejects two families if only one is configured, unless nothing is allocated at all.
fn check_families(spec: &JsonObject) -> Result<(), Errors> {
    let is_open =
        spec.get("clusterIP").and_then(Value::as_str) == Some("None") && is_zero(spec.get("selector"));
    if is_open || spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return Ok(());
    }
    let root = FieldPath::Root.field("spec");
    let mut errors = Errors::new();
    if let Some(policy) = spec.get("ipFamilyPolicy").filter(|policy| **policy == "RequireDualStack") {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&root.field("ipFamilyPolicy"), policy, detail));
    }
    let families = root.field("ipFamilies");
    for (at, family) in spec.get("ipFamilies").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if family != "IPv4" {
            errors.push(Error::invalid(&families.index(at), family, "not configured on this cluster"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// One allocation in progress.
struct ServiceAllocation<'a> {
    taken: &'a TakenValues,
    held: &'a HeldValues,
    fresh: HeldValues,
    mode: ServiceAllocationMode,
    entropy: &'a Entropy,
}

impl ServiceAllocation<'_> {
    fn address(&mut self, spec: &mut JsonObject) -> Result<(), Errors> {
        let said = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default();
        if said == "None" || spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
            return Ok(());
        }
        if said.is_empty() {
            let address = self.free_address()?.to_string();
            spec.insert("clusterIP".into(), json!(address));
            spec.insert("clusterIPs".into(), json!([address]));
            return Ok(());
        }
        let Ok(address) = said.parse::<Ipv4Addr>() else { return Ok(()) };
        if self.held.addresses.contains(&address) {
            return Ok(());
        }
        let detail = if !is_in_network(address) {
            "the provided network does not match the current range"
        } else if self.taken.has_address(address) {
            "provided IP is already allocated"
        } else {
            self.fresh.addresses.insert(address);
            return Ok(());
        };
        let root = FieldPath::Root.field("spec");
        let detail = format!("failed to allocate IP {said}: {detail}");
        Err(Error::invalid(&root.field("clusterIPs"), &json!([said]), &detail).into())
    }

    fn free_address(&mut self) -> Result<Ipv4Addr, Errors> {
        let (base, bits) = SERVICE_NETWORK;
        // Excludes the network address, this server's address and the broadcast address.
        let count = (1_u32 << (32 - bits)) - 3;
        let address = |offset: u32| Ipv4Addr::from(u32::from(base) + 2 + offset);
        let is_free = |offset: &u32| !self.taken.has_address(address(*offset));
        if self.mode == ServiceAllocationMode::DryRun {
            return Ok(address(0));
        }
        let drawn = |_| u32::try_from(self.entropy.below(u64::from(count))).expect("below a 32-bit count");
        let found = (0..RANDOM_TRIES).map(drawn).find(is_free).or_else(|| (0..count).find(is_free));
        let found = found.map(address).ok_or_else(|| full("clusterIPs", "range is full"))?;
        self.fresh.addresses.insert(found);
        Ok(found)
    }

    fn ports(&mut self, spec: &mut JsonObject) -> Result<(), Errors> {
        let is = |name: &str| spec.get("type").and_then(Value::as_str) == Some(name);
        let is_balanced = is("LoadBalancer");
        let is_optional =
            is_balanced && spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
        let needs_ports = is_balanced || is("NodePort");
        let needs_health =
            is_balanced && spec.get("externalTrafficPolicy").is_some_and(|policy| policy == "Local");
        let root = FieldPath::Root.field("spec");
        let list = root.field("ports");
        for (at, port) in objects_mut(spec, "ports").enumerate().filter(|_| needs_ports) {
            let place = list.index(at);
            if is_zero(port.get("nodePort")) && is_optional {
                continue;
            }
            // TCP and UDP ports with the same number may share a node port.
            self.port(port, "nodePort", &place)?;
        }
        if needs_health { self.port(spec, "healthCheckNodePort", &root) } else { Ok(()) }
    }

    fn port(&mut self, holder: &mut JsonObject, name: &str, place: &FieldPath<'_>) -> Result<(), Errors> {
        let said = holder.get(name).cloned().filter(|number| !is_zero(Some(number)));
        let Some(said) = said else {
            let number = self.free_port()?;
            holder.insert(name.into(), json!(number));
            return Ok(());
        };
        let number = said.as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or(0);
        if self.held.ports.contains(&number) || self.fresh.ports.contains(&number) {
            return Ok(());
        }
        let detail = if !(NODE_PORT_MIN..=NODE_PORT_MAX).contains(&number) {
            format!(
                "provided port is not in the valid range. The range of valid ports is {NODE_PORT_MIN}-{NODE_PORT_MAX}"
            )
        } else if self.taken.has_port(number) {
            "provided port is already allocated".into()
        } else {
            self.fresh.ports.insert(number);
            return Ok(());
        };
        Err(Error::invalid(&place.field(name), &said, &detail).into())
    }

    fn free_port(&mut self) -> Result<u16, Errors> {
        let next = |fresh: &HeldValues| {
            fresh.ports.last().map_or(DRY_RUN_PORT, |last| (*last + 1).max(DRY_RUN_PORT))
        };
        if self.mode == ServiceAllocationMode::DryRun {
            let number = next(&self.fresh);
            self.fresh.ports.insert(number);
            return Ok(number);
        }
        let count = u64::from(NODE_PORT_MAX - NODE_PORT_MIN) + 1;
        let is_free = |port: &u16| !self.taken.has_port(*port) && !self.fresh.ports.contains(port);
        let drawn = |_| NODE_PORT_MIN + u16::try_from(self.entropy.below(count)).expect("below 2768");
        let found = (0..RANDOM_TRIES).map(drawn).find(is_free);
        let found = found.or_else(|| (NODE_PORT_MIN..=NODE_PORT_MAX).find(is_free));
        let found = found.ok_or_else(|| full("ports", "range is full"))?;
        self.fresh.ports.insert(found);
        Ok(found)
    }
}

fn full(name: &str, detail: &str) -> Errors {
    let root = FieldPath::Root.field("spec");
    Error::forbidden(&root.field(name), detail).into()
}

fn is_in_network(address: Ipv4Addr) -> bool {
    let (base, bits) = SERVICE_NETWORK;
    u32::from(address) >> (32 - bits) == u32::from(base) >> (32 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::core::service::cluster_ip_fields::synchronize;

    fn prepared(mut service: Value, old: Option<&Value>) -> Value {
        crate::kinds::defaults::default(crate::kinds::declared("", "v1", "Service"), &mut service);
        synchronize(service.as_object_mut().expect("an object"), old);
        service
    }

    fn allocated(allocator: &ServiceAllocator, service: Value, old: Option<&Value>) -> Value {
        let mut service = prepared(service, old);
        allocator
            .allocate(&mut service, old, ServiceAllocationMode::Real, &Entropy::seeded(1))
            .expect("allocates");
        service
    }

    #[test]
    fn an_update_keeps_the_address_it_does_not_mention() {
        let allocator = ServiceAllocator::default();
        let old =
            allocated(&allocator, json!({"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}), None);
        assert_eq!(old["spec"]["ipFamilies"], json!(["IPv4"]));
        assert_eq!(old["spec"]["ipFamilyPolicy"], "SingleStack");
        assert_eq!(old["spec"]["clusterIPs"][0], old["spec"]["clusterIP"]);
        let new = allocated(
            &allocator,
            json!({"spec": {"selector": {"a": "c"}, "ports": [{"port": 80}]}}),
            Some(&old),
        );
        assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"]);
        assert_eq!(new["spec"]["clusterIPs"], old["spec"]["clusterIPs"]);
    }

    #[test]
    fn a_headless_service_without_selector_wants_both_families() {
        let service = prepared(json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}), None);
        assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        assert_eq!(service["spec"]["ipFamilyPolicy"], "RequireDualStack");
        assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
        let mut selecting = service.clone();
        selecting["spec"]["selector"] = json!({"a": "b"});
        let errors = ServiceAllocator::default().allocate(
            &mut selecting,
            None,
            ServiceAllocationMode::Real,
            &Entropy::seeded(1),
        );
        assert!(errors.is_err());
    }

    #[test]
    fn a_change_of_type_takes_and_gives_back() {
        let allocator = ServiceAllocator::default();
        let node =
            allocated(&allocator, json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}), None);
        let number = node["spec"]["ports"][0]["nodePort"].as_u64().expect("a node port");
        assert!((30_000..32_768).contains(&number));
        let mut plain = node.clone();
        plain["spec"]["type"] = json!("ClusterIP");
        let plain = allocated(&allocator, plain, Some(&node));
        assert_eq!(plain["spec"]["ports"][0].get("nodePort"), None);
        assert_eq!(plain["spec"].get("externalTrafficPolicy"), None);
        allocator.record_commit(Some(&node), Some(&plain));
        let again = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]}});
        allocated(&allocator, again, None);
    }

    #[test]
    fn what_is_taken_is_refused() {
        let allocator = ServiceAllocator::default();
        let first = allocated(&allocator, json!({"spec": {"ports": [{"port": 80}]}}), None);
        let address = &first["spec"]["clusterIP"];
        let mut second = prepared(json!({"spec": {"clusterIP": address, "ports": [{"port": 80}]}}), None);
        let errors = allocator
            .allocate(&mut second, None, ServiceAllocationMode::Real, &Entropy::seeded(2))
            .expect_err("taken");
        assert!(errors[0].body.ends_with("provided IP is already allocated"), "{}", errors[0]);
        allocator.record_commit(Some(&first), None);
        allocator
            .allocate(&mut second, None, ServiceAllocationMode::Real, &Entropy::seeded(2))
            .expect("free again");
    }

    #[test]
    fn writes_that_fail_do_not_use_up_the_ports() {
        let allocator = ServiceAllocator::default();
        let kept =
            allocated(&allocator, json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}), None);
        allocator.observe(&kept);
        let number = kept["spec"]["ports"][0]["nodePort"].as_u64().expect("a node port");
        let entropy = Entropy::seeded(9);
        let wanted = prepared(json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}), None);
        for _ in 0..3 * RESERVATIONS_MAX {
            let mut failed = wanted.clone();
            allocator
                .allocate(&mut failed, None, ServiceAllocationMode::Real, &entropy)
                .expect("there is always a port");
            assert_ne!(failed["spec"]["ports"][0]["nodePort"], json!(number));
        }
        assert!(allocator.taken().reserved_ports.len() <= PRUNE_AT);
    }

    #[test]
    fn a_dry_run_shows_a_port_nobody_gets() {
        let mut service = prepared(json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}), None);
        let allocator = ServiceAllocator::default();
        allocator
            .allocate(&mut service, None, ServiceAllocationMode::DryRun, &Entropy::seeded(1))
            .expect("allocates");
        assert_eq!(service["spec"]["ports"][0]["nodePort"], json!(DRY_RUN_PORT));
        assert_eq!(allocator.taken().allocations, 0);
    }

    #[test]
    fn an_external_name_needs_nothing() {
        let service = json!({"spec": {"type": "ExternalName", "externalName": "a.b"}});
        let service = allocated(&ServiceAllocator::default(), service, None);
        assert_eq!(
            service["spec"],
            json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"})
        );
    }
}
