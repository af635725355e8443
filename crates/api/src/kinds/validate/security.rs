//! Validates security contexts: users and groups, how they apply to files and processes, and kernel settings.
//!
//! AppArmor profiles and Windows options are deliberately not validated.

use std::collections::BTreeSet;

use serde_json::json;

use crate::field::Error;
use crate::resource::value_at::{Errors, ValueAt};

/// The highest id of a user or a group.
const ID_MAX: i64 = i32::MAX as i64;

/// The maximum length of the name of a kernel setting, in bytes.
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL_TEXT: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates the security context of a whole Pod.
pub(in crate::kinds) fn of_pod(spec: &ValueAt<'_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(&context.field(name), errors);
    }
    for group in context.field("supplementalGroups").items() {
        validate_id(&group, errors);
    }
    context.field("fsGroupChangePolicy").must_be_one_of(&["Always", "OnRootMismatch"], errors);
    context.field("supplementalGroupsPolicy").must_be_one_of(&["Merge", "Strict"], errors);
    context.field("seLinuxChangePolicy").must_be_one_of(&["MountOption", "Recursive"], errors);
    validate_seccomp(&context.field("seccompProfile"), errors);
    validate_sysctls(spec, &context.field("sysctls"), errors);
    let shares = spec.field("shareProcessNamespace");
    if shares.value == true && spec.field("hostPID").value == true {
        shares.invalid("ShareProcessNamespace and HostPID cannot both be enabled", errors);
    }
}

/// Validates kernel settings: valid names, no duplicates, and none that belongs to a namespace that the Pod shares with
/// its host.
fn validate_sysctls(spec: &ValueAt<'_>, list: &ValueAt<'_>, errors: &mut Errors) {
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

/// Validates the security context of one container.
pub(in crate::kinds) fn of_container(container: &ValueAt<'_>, errors: &mut Errors) {
    let context = container.field("securityContext");
    for name in ["runAsUser", "runAsGroup"] {
        validate_id(&context.field(name), errors);
    }
    context.field("procMount").must_be_one_of(&["Default", "Unmasked"], errors);
    validate_seccomp(&context.field("seccompProfile"), errors);
    if context.field("allowPrivilegeEscalation").value == false {
        validate_escalation(&context, errors);
    }
}

/// Rejects privileges in a container that may not escalate its privileges.
fn validate_escalation(context: &ValueAt<'_>, errors: &mut Errors) {
    if context.field("privileged").value == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        context.invalid(detail, errors);
    }
    for _ in context.field("capabilities").field("add").items().filter(|one| one.text() == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        context.invalid(detail, errors);
    }
}

/// Validates a seccomp profile; a profile on the node is given by its path there.
fn validate_seccomp(profile: &ValueAt<'_>, errors: &mut Errors) {
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
            // kube-apiserver prints the whole profile, by the Go names of its fields.
            let shown = json!({"Type": kind.text(), "LocalhostProfile": local.text()});
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&local.path, &shown, detail));
        }
        (false, false) => {}
    }
}

fn validate_id(number: &ValueAt<'_>, errors: &mut Errors) {
    if number.is_set() && !(0..=ID_MAX).contains(&number.number()) {
        number.invalid(&format!("must be between 0 and {ID_MAX}, inclusive"), errors);
    }
}
