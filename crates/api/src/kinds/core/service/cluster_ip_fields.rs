//! Synchronizes the linked fields of a Service: `clusterIP` and `clusterIPs`, IP families and their policy, and values
//! left over after a type change. Old clients know only some of these fields; they must not lose the others.
//!
//! Nothing is allocated here: `service_allocator` fills in the missing values afterwards.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::object::fill::{JsonObject, is_zero, object_or_insert, objects_mut};

fn text<'a>(spec: &'a JsonObject, name: &str) -> &'a str {
    spec.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_named_outside(spec: &JsonObject) -> bool {
    text(spec, "type") == "ExternalName"
}

fn needs_node_port(spec: &JsonObject) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn is_balanced(spec: &JsonObject) -> bool {
    text(spec, "type") == "LoadBalancer"
}

fn needs_health_port(spec: &JsonObject) -> bool {
    is_balanced(spec) && text(spec, "externalTrafficPolicy") == "Local"
}

fn is_external(spec: &JsonObject) -> bool {
    needs_node_port(spec) || (text(spec, "type") == "ClusterIP" && !is_zero(spec.get("externalIPs")))
}

/// Synchronizes the linked fields of a new Service, or of one that replaces `old`.
pub(super) fn synchronize(service: &mut JsonObject, old: Option<&Value>) {
    let old = old.and_then(|old| old.get("spec")?.as_object());
    let Some(spec) = object_or_insert(service, "spec") else { return };
    if let Some(old) = old {
        drop_by_type(spec, old);
        keep_allocated(spec, old);
    }
    link_addresses(spec, old);
    if !is_named_outside(spec) {
        set_families(spec, old);
    }
    if old.is_some() && !is_balanced(spec) {
        service.insert("status".into(), json!({"loadBalancer": {}}));
    }
}

/// Clears values that the new type does not use and that the client did not change.
fn drop_by_type(spec: &mut JsonObject, old: &JsonObject) {
    let mut useless: Vec<&str> = Vec::new();
    if !is_named_outside(old) && is_named_outside(spec) {
        useless.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if needs_health_port(old) && !needs_health_port(spec) {
        useless.push("healthCheckNodePort");
    }
    if is_balanced(old) && !is_balanced(spec) {
        useless.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_external(old) && !is_external(spec) {
        useless.push("externalTrafficPolicy");
    }
    for name in useless {
        if spec.get(name) == old.get(name) {
            spec.remove(name);
        }
    }
    if needs_node_port(old) && !needs_node_port(spec) && node_ports(old).eq(node_ports(spec)) {
        for port in objects_mut(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

fn node_ports(spec: &JsonObject) -> impl Iterator<Item = Option<&Value>> {
    ports(spec).map(|port| port.get("nodePort"))
}

fn ports(spec: &JsonObject) -> impl Iterator<Item = &Value> {
    spec.get("ports").and_then(Value::as_array).into_iter().flatten()
}

/// Keeps allocated values that the update does not repeat.
fn keep_allocated(spec: &mut JsonObject, old: &JsonObject) {
    if !is_named_outside(old) && !is_named_outside(spec) && is_zero(spec.get("clusterIP")) {
        take_over(spec, old, "clusterIP");
        take_over(spec, old, "clusterIPs");
    }
    if needs_node_port(old) && needs_node_port(spec) {
        inherit_ports(spec, old);
    }
    if needs_health_port(old) && needs_health_port(spec) {
        take_over(spec, old, "healthCheckNodePort");
    }
}

fn take_over(spec: &mut JsonObject, old: &JsonObject, name: &str) {
    if let Some(value) = old.get(name).filter(|_| is_zero(spec.get(name))) {
        spec.insert(name.into(), value.clone());
    }
}

/// Gives each port without a node port the node port of the old port with the same name, unless another port uses it
/// now.
fn inherit_ports(spec: &mut JsonObject, old: &JsonObject) {
    let said: HashSet<Value> = node_ports(spec).flatten().cloned().collect();
    let mut before = HashMap::new();
    for port in ports(old) {
        before.entry(port.get("name")).or_insert_with(|| port.get("nodePort"));
    }
    for port in objects_mut(spec, "ports").filter(|port| is_zero(port.get("nodePort"))) {
        let number = before.get(&port.get("name")).copied().flatten();
        if let Some(number) = number.filter(|number| !is_zero(Some(number)) && !said.contains(number)) {
            port.insert("nodePort".into(), number.clone());
        }
    }
}

/// Synchronizes `clusterIP` and the first of `clusterIPs`, which hold the same fact.
fn link_addresses(spec: &mut JsonObject, old: Option<&JsonObject>) {
    let single = text(spec, "clusterIP").to_owned();
    let before = old.map_or("", |old| text(old, "clusterIP"));
    let is_plural_untouched = spec.get("clusterIPs") == old.and_then(|old| old.get("clusterIPs"));
    if before.is_empty() {
        if !single.is_empty() && is_zero(spec.get("clusterIPs")) {
            spec.insert("clusterIPs".into(), json!([single]));
        }
    } else if let (true, Some(old)) = (single == before, old) {
        take_over(spec, old, "clusterIPs");
    } else if is_plural_untouched && single.is_empty() {
        spec.remove("clusterIPs");
    } else if is_plural_untouched {
        spec.insert("clusterIPs".into(), json!([single]));
    }
}

/// Sets the family policy: the old one, or else both families for headless Services without a selector, or one.
fn set_families(spec: &mut JsonObject, old: Option<&JsonObject>) {
    let is_open = text(spec, "clusterIP") == "None" && is_zero(spec.get("selector"));
    let before =
        |name: &str| old.and_then(|old| old.get(name)).filter(|value| !is_zero(Some(value))).cloned();
    if is_zero(spec.get("ipFamilyPolicy")) {
        let first = || if is_open { json!("RequireDualStack") } else { json!("SingleStack") };
        spec.insert("ipFamilyPolicy".into(), before("ipFamilyPolicy").unwrap_or_else(first));
    }
    if is_zero(spec.get("ipFamilies")) {
        let families = before("ipFamilies").unwrap_or_else(|| given_families(spec));
        spec.insert("ipFamilies".into(), families);
    }
    let is_single = text(spec, "ipFamilyPolicy") == "SingleStack";
    let is_untouched = spec.get("ipFamilies") == old.and_then(|old| old.get("ipFamilies"));
    let Some(Value::Array(families)) = spec.get_mut("ipFamilies") else { return };
    if is_single && is_untouched {
        families.truncate(1);
    } else if is_open && !is_single && families.len() == 1 {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
}

/// Returns the families of the addresses a client asks for, or the cluster's family if it asks for none.
fn given_families(spec: &JsonObject) -> Value {
    let addresses = spec.get("clusterIPs").and_then(Value::as_array).into_iter().flatten();
    let families: Vec<&str> = addresses
        .filter_map(|address| address.as_str()?.parse::<IpAddr>().ok())
        .map(|address| if address.is_ipv4() { "IPv4" } else { "IPv6" })
        .collect();
    if families.is_empty() { json!(["IPv4"]) } else { json!(families) }
}
