//! The checks of the restricted standard, which forbids everything that a hardened Pod can do without.

use serde_json::Value;

use super::baseline_checks::{added_capabilities, bad_seccomp, explicit_seccomp};
use super::check_table::{
    SecurityViolation, containers, has_own_users, is_windows, listed, names_where, quoted, setters, sorted,
};

/// The types of volumes that every Pod may use.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// Since this version, checks that make no sense on Windows are skipped there.
const WINDOWS_SINCE: u32 = 25;
/// Since this version, Pods with their own user namespace may run as root in it.
const OWN_USERS_SINCE: u32 = 35;

pub(super) fn allow_privilege_escalation(pod: &Value, version: u32) -> Option<SecurityViolation> {
    if version >= WINDOWS_SINCE && is_windows(pod) {
        return None;
    }
    let is_bad = |container: &Value| container["securityContext"]["allowPrivilegeEscalation"] != false;
    let names = names_where(pod, is_bad);
    (!names.is_empty()).then(|| {
        let names = listed("container", &names);
        let detail = format!("{names} must set securityContext.allowPrivilegeEscalation=false");
        SecurityViolation::new("allowPrivilegeEscalation != false", detail)
    })
}

pub(super) fn capabilities(pod: &Value, version: u32) -> Option<SecurityViolation> {
    if version >= WINDOWS_SINCE && is_windows(pod) {
        return None;
    }
    let drops_all = |container: &Value| {
        let dropped = container["securityContext"]["capabilities"]["drop"].as_array();
        dropped.is_some_and(|all| all.iter().any(|one| one == "ALL"))
    };
    let bad = |container: &Value| {
        added_capabilities(container).filter(|one| one != "NET_BIND_SERVICE").collect::<Vec<_>>()
    };
    let keeping = names_where(pod, |container| !drops_all(container));
    let adding = names_where(pod, |container| !bad(container).is_empty());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let names = listed("container", &keeping);
        details.push(format!("{names} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        let (names, added) = (listed("container", &adding), sorted(containers(pod).flat_map(bad)));
        let added = quoted(&added);
        details.push(format!("{names} must not include {added} in securityContext.capabilities.add"));
    }
    (!details.is_empty()).then(|| SecurityViolation::new("unrestricted capabilities", details.join("; ")))
}

pub(super) fn volumes(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let bad = pod["spec"]["volumes"].as_array().into_iter().flatten().filter_map(|volume| {
        let fields = volume.as_object()?;
        let mut kinds = fields.iter().filter(|(name, value)| *name != "name" && !value.is_null());
        if kinds.clone().any(|(kind, _)| VOLUMES.contains(&&**kind)) {
            return None;
        }
        let kind = kinds.next().map_or("unknown", |(kind, _)| kind);
        Some((volume["name"].as_str().unwrap_or_default().to_owned(), kind.to_owned()))
    });
    let (names, kinds): (Vec<_>, Vec<_>) = bad.unzip();
    (!names.is_empty()).then(|| {
        let uses = if names.len() == 1 { "uses" } else { "use" };
        let kinds = listed("restricted volume type", &sorted(kinds.into_iter()));
        SecurityViolation::new(
            "restricted volume types",
            format!("{} {uses} {kinds}", listed("volume", &names)),
        )
    })
}

pub(super) fn run_as_non_root(pod: &Value, version: u32) -> Option<SecurityViolation> {
    const REASON: &str = "runAsNonRoot != true";
    if version >= OWN_USERS_SINCE && has_own_users(pod) {
        return None;
    }
    let says = |context: &Value| context["runAsNonRoot"].as_bool();
    let of_pod = says(&pod["spec"]["securityContext"]);
    let bad = names_where(pod, |container| says(&container["securityContext"]) == Some(false));
    if let Some(blamed) = setters(of_pod == Some(false), &bad) {
        return Some(SecurityViolation::new(
            REASON,
            format!("{blamed} must not set securityContext.runAsNonRoot=false"),
        ));
    }
    let silent =
        names_where(pod, |container| says(&container["securityContext"]).is_none() && of_pod != Some(true));
    (!silent.is_empty()).then(|| {
        let names = listed("container", &silent);
        SecurityViolation::new(REASON, format!("pod or {names} must set securityContext.runAsNonRoot=true"))
    })
}

pub(super) fn run_as_user(pod: &Value, version: u32) -> Option<SecurityViolation> {
    if version >= OWN_USERS_SINCE && has_own_users(pod) {
        return None;
    }
    let is_root = |context: &Value| context["runAsUser"].as_i64() == Some(0);
    let names = names_where(pod, |container| is_root(&container["securityContext"]));
    let blamed = setters(is_root(&pod["spec"]["securityContext"]), &names)?;
    Some(SecurityViolation::new("runAsUser=0", format!("{blamed} must not set runAsUser=0")))
}

pub(super) fn seccomp_profile(pod: &Value, version: u32) -> Option<SecurityViolation> {
    if version >= WINDOWS_SINCE && is_windows(pod) {
        return None;
    }
    if let Some(violation) = explicit_seccomp(pod) {
        return Some(violation);
    }
    let of_pod = &pod["spec"]["securityContext"];
    let is_set = of_pod["seccompProfile"].is_object() && bad_seccomp(of_pod).is_none();
    let silent =
        names_where(pod, |container| !container["securityContext"]["seccompProfile"].is_object() && !is_set);
    (!silent.is_empty()).then(|| {
        let names = listed("container", &silent);
        let detail = format!(
            "pod or {names} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        );
        SecurityViolation::new("seccompProfile", detail)
    })
}
