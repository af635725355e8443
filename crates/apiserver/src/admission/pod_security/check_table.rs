//! Lists the checks of the Pod Security Standards: which ones apply at which level and version, and how they word
//! violations.
//!
//! Names and order are the same as in Kubernetes: baseline checks first, then the checks of the restricted standard,
//! some of which replace a baseline check.

use serde_json::Value;

use super::policy::{SecurityLevel, StandardVersion};
use super::{baseline_checks as baseline, restricted_checks as restricted};

/// A violation of a standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecurityViolation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl SecurityViolation {
    pub(super) fn new(reason: &str, detail: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), detail: detail.into() }
    }
}

/// Checks a Pod or a Pod template.
type CheckPod = fn(&Value, u32) -> Option<SecurityViolation>;

/// A check, and the first minor version to which it applies. The check gets the requested version.
struct PodSecurityCheck {
    id: &'static str,
    since: u32,
    run: CheckPod,
}

const fn check(id: &'static str, since: u32, run: CheckPod) -> PodSecurityCheck {
    PodSecurityCheck { id, since, run }
}

static BASELINE: [PodSecurityCheck; 12] = [
    check("appArmorProfile", 0, baseline::app_armor_profile),
    check("capabilities_baseline", 0, baseline::capabilities),
    check("hostNamespaces", 0, baseline::host_namespaces),
    check("hostPathVolumes", 0, baseline::host_path_volumes),
    check("hostPorts", 0, baseline::host_ports),
    check("hostProbesAndHostLifecycle", 34, baseline::host_probes_and_lifecycle),
    check("privileged", 0, baseline::privileged),
    check("procMount", 0, baseline::proc_mount_relaxed),
    check("seLinuxOptions", 0, baseline::se_linux_options),
    check("seccompProfile_baseline", 0, baseline::seccomp_profile),
    check("sysctls", 0, baseline::sysctls),
    check("windowsHostProcess", 0, baseline::windows_host_process),
];

/// The checks of the restricted standard, each with the baseline check that it replaces.
static RESTRICTED: [(PodSecurityCheck, &str); 7] = [
    (check("allowPrivilegeEscalation", 8, restricted::allow_privilege_escalation), ""),
    (check("capabilities_restricted", 22, restricted::capabilities), "capabilities_baseline"),
    (check("procMount_restricted", 35, baseline::proc_mount), "procMount"),
    (check("restrictedVolumes", 0, restricted::volumes), "hostPathVolumes"),
    (check("runAsNonRoot", 0, restricted::run_as_non_root), ""),
    (check("runAsUser", 23, restricted::run_as_user), ""),
    (check("seccompProfile_restricted", 19, restricted::seccomp_profile), "seccompProfile_baseline"),
];

/// Returns the violations of a standard by a Pod.
pub(super) fn violations(standard: StandardVersion, pod: &Value) -> Vec<SecurityViolation> {
    if standard.level == SecurityLevel::Privileged {
        return Vec::new();
    }
    let version = standard.version.minor();
    let is_restricted = standard.level == SecurityLevel::Restricted;
    let stricter = || RESTRICTED.iter().filter(|(check, _)| is_restricted && check.since <= version);
    let is_replaced = |id: &str| stricter().any(|(_, replaced)| *replaced == id);
    let basic = BASELINE.iter().filter(|check| check.since <= version && !is_replaced(check.id));
    let checks = basic.chain(stricter().map(|(check, _)| check));
    checks.filter_map(|check| (check.run)(pod, version)).collect()
}

/// Returns all containers of a Pod, of every kind.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
}

/// Returns the names of the containers that the predicate accepts.
pub(super) fn names_where(pod: &Value, is_meant: impl Fn(&Value) -> bool) -> Vec<String> {
    let meant = containers(pod).filter(|container| is_meant(container));
    meant.map(|container| container["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns `container "a"` or `containers "a", "b"`.
pub(super) fn listed(singular: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{singular}{plural} {}", quoted(names))
}

/// Returns `"a", "b"`.
pub(super) fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// Names the offenders: the Pod, some containers, or both; `None` if there are none.
pub(super) fn setters(is_pod: bool, names: &[String]) -> Option<String> {
    let pod = is_pod.then(|| "pod".to_owned());
    let containers = (!names.is_empty()).then(|| listed("container", names));
    let both = pod.into_iter().chain(containers).collect::<Vec<_>>();
    (!both.is_empty()).then(|| both.join(" and "))
}

/// Returns the strings sorted, without duplicates.
pub(super) fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Returns whether the Pod declares that it runs on Windows, where some checks make no sense.
pub(super) fn is_windows(pod: &Value) -> bool {
    pod["spec"]["os"]["name"] == "windows"
}

/// Returns whether the Pod has its own user namespace.
pub(super) fn has_own_users(pod: &Value) -> bool {
    pod["spec"]["hostUsers"] == false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::policy::Version;
    use super::*;

    #[track_caller]
    fn check(level: SecurityLevel, minor: u32, pod: &Value, expected: &[&str]) {
        let found = violations(StandardVersion { level, version: Version::Minor(minor) }, pod);
        let shown = found.iter().map(|one| format!("{} ({})", one.reason, one.detail)).collect::<Vec<_>>();
        assert_eq!(shown, expected);
    }

    fn pod(spec: &Value) -> Value {
        json!({"metadata": {}, "spec": spec})
    }

    #[test]
    fn a_plain_pod_is_baseline_and_not_restricted() {
        let plain = pod(&json!({"containers": [{"name": "c"}]}));
        check(SecurityLevel::Baseline, 36, &plain, &[]);
        check(
            SecurityLevel::Restricted,
            36,
            &plain,
            &[
                "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)",
                "unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"])",
                "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)",
                "seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
            ],
        );
        check(
            SecurityLevel::Restricted,
            7,
            &plain,
            &["runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)"],
        );
    }

    #[test]
    fn baseline_forbids_the_host() {
        let context = json!({"privileged": true, "capabilities": {"add": ["NET_ADMIN", "CHOWN"]},
            "procMount": "Unmasked", "seLinuxOptions": {"type": "odd", "user": "u"},
            "seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"},
            "windowsOptions": {"hostProcess": true}});
        let container = json!({"name": "c", "securityContext": context, "ports": [{"hostPort": 80}],
            "livenessProbe": {"httpGet": {"host": "h"}}});
        let spec = json!({"hostPID": true, "hostNetwork": true, "containers": [container],
            "securityContext": {"sysctls": [{"name": "kernel.odd"}, {"name": "net.ipv4.tcp_rmem"}]},
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
        check(
            SecurityLevel::Baseline,
            36,
            &pod(&spec),
            &[
                "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
                "non-default capabilities (container \"c\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)",
                "host namespaces (hostNetwork=true, hostPID=true)",
                "hostPath volumes (volume \"v\")",
                "hostPort (container \"c\" uses hostPort 80)",
                "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\")",
                "privileged (container \"c\" must not set securityContext.privileged=true)",
                "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
                "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"odd\"; user may not be set)",
                "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
                "forbidden sysctls (kernel.odd)",
                "hostProcess (container \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
            ],
        );
    }

    #[test]
    fn checks_depend_on_the_version() {
        let sysctl = |name: &str| pod(&json!({"securityContext": {"sysctls": [{"name": name}]}}));
        check(
            SecurityLevel::Baseline,
            31,
            &sysctl("net.ipv4.tcp_rmem"),
            &["forbidden sysctls (net.ipv4.tcp_rmem)"],
        );
        check(SecurityLevel::Baseline, 32, &sysctl("net.ipv4.tcp_rmem"), &[]);
        let engine = pod(&json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}));
        check(SecurityLevel::Baseline, 31, &engine, &[]);
        check(
            SecurityLevel::Baseline,
            30,
            &engine,
            &[
                "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")",
            ],
        );
        let root = pod(
            &json!({"hostUsers": false, "securityContext": {"runAsNonRoot": false}, "os": {"name": "windows"}}),
        );
        check(SecurityLevel::Restricted, 35, &root, &[]);
        check(
            SecurityLevel::Restricted,
            34,
            &root,
            &["runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"],
        );
    }

    #[test]
    fn restricted_volumes_are_named_by_type() {
        let volumes = json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "nfs": {}},
            {"name": "c", "hostPath": {"path": "/"}}]});
        check(
            SecurityLevel::Restricted,
            1,
            &pod(&volumes),
            &[
                "restricted volume types (volumes \"b\", \"c\" use restricted volume types \"hostPath\", \"nfs\")",
            ],
        );
    }
}
