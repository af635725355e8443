//! Who runs what is in a Pod: users and groups, and how they are put on files and processes;
//! and which settings of the kernel it changes.
//!
//! AppArmor profiles and Windows options are deliberately not judged.

use std::collections::BTreeSet;

use serde_json::json;

use super::at::{At, Errors};
use crate::field::Error;

/// The highest number of a user or a group.
const ID_MAX: i64 = i32::MAX as i64;

/// The longest name of a kernel setting, in bytes.
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL_TEXT: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The security context of a whole Pod.
pub(in crate::kinds) fn of_pod(spec: &At<'_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context.field(name), errors);
    }
    for group in context.field("supplementalGroups").items() {
        id(&group, errors);
    }
    context.field("fsGroupChangePolicy").must_be_one_of(&["Always", "OnRootMismatch"], errors);
    context.field("supplementalGroupsPolicy").must_be_one_of(&["Merge", "Strict"], errors);
    context.field("seLinuxChangePolicy").must_be_one_of(&["MountOption", "Recursive"], errors);
    seccomp(&context.field("seccompProfile"), errors);
    sysctls(spec, &context.field("sysctls"), errors);
    let shares = spec.field("shareProcessNamespace");
    if shares.value == true && spec.field("hostPID").value == true {
        shares.invalid("ShareProcessNamespace and HostPID cannot both be enabled", errors);
    }
}

/// Settings of the kernel: well-named, once, and not those of a namespace the Pod shares with its host.
fn sysctls(spec: &At<'_>, list: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for one in list.items() {
        let name = one.field("name");
        if !name.must_be_set(errors) {
            continue;
        }
        if !is_sysctl(name.text()) {
            name.invalid(SYSCTL_TEXT, errors);
        } else if !seen.insert(name.text().to_owned()) {
            name.duplicate(errors);
        }
        let dotted = name.text().replace('/', ".");
        let part = if dotted.starts_with("net.") {
            "hostNetwork"
        } else if is_between_processes(&dotted) {
            "hostIPC"
        } else {
            continue;
        };
        if spec.field(part).value == true {
            name.invalid(&format!("may not be specified when '{part}' is true"), errors);
        }
    }
}

fn is_between_processes(name: &str) -> bool {
    name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| name.starts_with(start))
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(is_end)
            && bytes.last().is_some_and(is_end)
            && bytes.iter().all(|byte| is_end(byte) || b"-_".contains(byte))
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}

/// The security context of one container.
pub(in crate::kinds) fn of_container(container: &At<'_>, errors: &mut Errors) {
    let context = container.field("securityContext");
    for name in ["runAsUser", "runAsGroup"] {
        id(&context.field(name), errors);
    }
    context.field("procMount").must_be_one_of(&["Default", "Unmasked"], errors);
    seccomp(&context.field("seccompProfile"), errors);
    if context.field("allowPrivilegeEscalation").value == false {
        escalation(&context, errors);
    }
}

/// Who may not get more rights does not start with all of them.
fn escalation(context: &At<'_>, errors: &mut Errors) {
    if context.field("privileged").value == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        context.invalid(detail, errors);
    }
    for _ in context.field("capabilities").field("add").items().filter(|one| one.text() == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        context.invalid(detail, errors);
    }
}

/// A profile of calls to the kernel; one of the node's own is named by its path there.
fn seccomp(profile: &At<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    if kind.is_zero() {
        kind.required("type is required when seccompProfile is set", errors);
    } else {
        kind.must_be_one_of(&["Localhost", "RuntimeDefault", "Unconfined"], errors);
    }
    match (kind.text() == "Localhost", local.is_set()) {
        (true, false) => local.required("must be set when seccomp type is Localhost", errors),
        (true, true) => local.must_descend(errors),
        (false, true) => {
            // The real server prints the whole profile, by the Go names of its fields.
            let shown = json!({"Type": kind.text(), "LocalhostProfile": local.text()});
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&local.path, &shown, detail));
        }
        (false, false) => {}
    }
}

fn id(number: &At<'_>, errors: &mut Errors) {
    if number.is_set() && !(0..=ID_MAX).contains(&number.number()) {
        number.invalid(&format!("must be between 0 and {ID_MAX}, inclusive"), errors);
    }
}
