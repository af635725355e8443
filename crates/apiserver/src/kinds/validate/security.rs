//! Who runs what is in a Pod: users and groups, and how they are put on files and processes;
//! and which settings of the kernel it changes.
//!
//! Profiles (seccomp, AppArmor) and Windows options are deliberately not judged.

use std::collections::BTreeSet;

use super::at::{At, Errors};

/// The highest number of a user or a group.
const ID_MAX: i64 = i32::MAX as i64;

/// The longest name of a kernel setting, in bytes.
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL_TEXT: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The security context of a whole Pod.
pub(super) fn of_pod(spec: &At<'_>, errors: &mut Errors) {
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
pub(super) fn of_container(container: &At<'_>, errors: &mut Errors) {
    let context = container.field("securityContext");
    for name in ["runAsUser", "runAsGroup"] {
        id(&context.field(name), errors);
    }
    context.field("procMount").must_be_one_of(&["Default", "Unmasked"], errors);
}

fn id(number: &At<'_>, errors: &mut Errors) {
    if number.is_set() && !(0..=ID_MAX).contains(&number.number()) {
        number.invalid(&format!("must be between 0 and {ID_MAX}, inclusive"), errors);
    }
}
