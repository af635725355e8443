//! Decides what a container may do beyond its user's permissions: its capabilities, and whether it may gain more.
//!
//! In Kubernetes, containers are root with a short list of capabilities by default. Here they run as a user without
//! any, and the list limits what privileged programs on the machine (`sudo`, `ping`) can give them. `drop` and `add`
//! change the list. One capability is granted directly: listening on ports below 1024, which every container may do.
//!
//! Only a node that runs Pods as root (`--node-as root`) grants permissions beyond the Pod.
//! [`super::unsupported_security`] reports what is not granted.

use k8s_openapi::api::core::v1::{Capabilities, Container};

use super::container_identity::IdentityPolicy;
use crate::node::supervisor::protocol::ProcessCapabilities;

/// The names of Linux capabilities, indexed by number.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The capabilities that container runtimes give by default, without MKNOD: nothing here limits which devices may be
/// created.
const USUAL: [&str; 13] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    LOW_PORTS,
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// The capability to listen on ports below 1024.
const LOW_PORTS: &str = "NET_BIND_SERVICE";

/// The name that means all capabilities.
const ALL: &str = "ALL";

/// Returns the container's capabilities.
pub(crate) fn container_rights(
    identity_policy: &IdentityPolicy,
    container: &Container,
    has_namespace: bool,
) -> ProcessCapabilities {
    let context = container.security_context.as_ref();
    let is_privileged = context.and_then(|context| context.privileged) == Some(true);
    let capabilities = context.and_then(|context| context.capabilities.as_ref());
    let bound = capability_bound(capabilities, is_root(identity_policy), is_privileged);
    // In a user namespace it would apply only to that namespace's own network, which does not exist.
    let ambient = match identity_policy {
        IdentityPolicy::AnyUser { .. } if !has_namespace => bound & bits([LOW_PORTS]),
        _ => 0,
    };
    ProcessCapabilities {
        no_new_privileges: context.and_then(|context| context.allow_privilege_escalation) == Some(false),
        bound: can_bound(identity_policy).then_some(bound),
        ambient,
    }
}

/// Returns whether Pods are root on the machine, because its owner configured that.
pub(crate) fn is_root(identity_policy: &IdentityPolicy) -> bool {
    matches!(identity_policy, IdentityPolicy::OneUser { account, is_root: true, .. } if account.user == 0)
}

/// Returns whether the node can take capabilities away.
pub(crate) fn can_bound(identity_policy: &IdentityPolicy) -> bool {
    match identity_policy {
        IdentityPolicy::AnyUser { .. } => true,
        IdentityPolicy::OneUser { is_root, has_user_namespaces, .. } => *is_root || *has_user_namespaces,
    }
}

/// Returns the upper bound on a container's capabilities.
fn capability_bound(capabilities: Option<&Capabilities>, is_root: bool, is_privileged: bool) -> u64 {
    if is_privileged && is_root {
        return bits(NAMES);
    }
    let named = |list: Option<&Vec<String>>| {
        let names = list.map(|list| list.iter().map(|name| without_prefix(name)).collect::<Vec<_>>());
        bits(names.into_iter().flatten())
    };
    let added = named(capabilities.and_then(|all| all.add.as_ref()));
    let dropped = named(capabilities.and_then(|all| all.drop.as_ref()));
    let usual = bits(USUAL);
    let added = if is_root { added } else { added & usual };
    // A capability that is added by name stays even if all are dropped.
    let is_all_dropped = dropped == bits(NAMES);
    if is_all_dropped { added } else { (usual | added) & !dropped }
}

/// Returns the capabilities that a container adds but does not get.
pub(crate) fn withheld_capabilities<'a>(
    identity_policy: &IdentityPolicy,
    container: &'a Container,
    has_namespace: bool,
) -> Vec<&'a str> {
    let context = container.security_context.as_ref();
    let added = context.and_then(|context| context.capabilities.as_ref()?.add.as_deref()).unwrap_or_default();
    let is_given = |name: &str| match without_prefix(name) {
        LOW_PORTS => {
            is_root(identity_policy)
                || (matches!(identity_policy, IdentityPolicy::AnyUser { .. }) && !has_namespace)
        }
        // A container that sees itself as root has the usual capabilities over its own files.
        name => is_root(identity_policy) || (has_namespace && USUAL.contains(&name)),
    };
    added.iter().map(String::as_str).filter(|name| !is_given(name)).collect()
}

/// Removes the prefix in `CAP_CHOWN`, which some users write.
fn without_prefix(name: &str) -> &str {
    name.strip_prefix("CAP_").unwrap_or(name)
}

fn bits<'a>(names: impl IntoIterator<Item = &'a str>) -> u64 {
    let bit = |name: &str| match name {
        ALL => (1 << NAMES.len()) - 1,
        name => NAMES.iter().position(|known| *known == name).map_or(0, |number| 1 << number),
    };
    names.into_iter().fold(0, |bits, name| bits | bit(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_capabilities_are_minded() {
        let check = |add: &[&str], drop: &[&str], is_root: bool, expected: u64| {
            let capabilities = serde_json::from_value(json!({"add": add, "drop": drop})).unwrap();
            assert_eq!(
                capability_bound(Some(&capabilities), is_root, false),
                expected,
                "{add:?} {drop:?} {is_root}"
            );
        };
        let usual = bits(USUAL);
        assert_eq!(bits([ALL]), bits(NAMES));
        assert_eq!(usual & bits(["SYS_ADMIN", "SYS_PTRACE", "MKNOD", "DAC_READ_SEARCH"]), 0);
        check(&[], &[], false, usual);
        check(&[], &["ALL"], false, 0);
        check(&["NET_BIND_SERVICE"], &["ALL"], false, bits([LOW_PORTS]));
        check(&[], &["KILL", "CAP_CHOWN", "no such"], false, usual & !bits(["KILL", "CHOWN"]));
        check(&["SYS_ADMIN"], &[], false, usual);
        check(&["SYS_ADMIN"], &[], true, usual | bits(["SYS_ADMIN"]));
        check(&["ALL"], &["SYS_ADMIN"], true, bits(NAMES) & !bits(["SYS_ADMIN"]));
        assert_eq!(capability_bound(None, true, true), bits(NAMES));
        assert_eq!(capability_bound(None, false, true), usual);
    }
}
