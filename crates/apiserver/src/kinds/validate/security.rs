//! Who runs what is in a Pod: users and groups, and how they are put on files and processes.
//!
//! Profiles (seccomp, AppArmor), Windows options and sysctls are deliberately not judged.

use super::at::{At, Errors};

/// The highest number of a user or a group.
const ID_MAX: i64 = i32::MAX as i64;

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
    let shares = spec.field("shareProcessNamespace");
    if shares.value == true && spec.field("hostPID").value == true {
        shares.invalid("ShareProcessNamespace and HostPID cannot both be enabled", errors);
    }
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
