//! The checks of the baseline standard, which forbids everything that gives a Pod power over its node.

use serde_json::Value;

use super::check_table::{
    SecurityViolation, containers, has_own_users, listed, names_where, quoted, setters, sorted,
};

/// Capabilities that containers have by default.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The harmless kernel parameters, each with the first version that allows it.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];
/// Harmless SELinux types, each with the first version that allows it.
const SE_LINUX_TYPES: [(&str, u32); 5] = [
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR_OF_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns the security contexts of the Pod and its containers.
fn contexts(pod: &Value) -> impl Iterator<Item = &Value> {
    let own = std::iter::once(&pod["spec"]["securityContext"]);
    own.chain(containers(pod).map(|container| &container["securityContext"]))
}

pub(super) fn app_armor_profile(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let bad = |context: &Value| {
        let profile = &context["appArmorProfile"];
        let kind = profile["type"].as_str().unwrap_or_default();
        (profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
    };
    let mut values = sorted(contexts(pod).filter_map(bad));
    let names = names_where(pod, |container| bad(&container["securityContext"]).is_some());
    let blamed = setters(bad(&pod["spec"]["securityContext"]).is_some(), &names);
    let is_allowed = |value: &str| matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let forbidden = sorted(annotations.filter_map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        (name.starts_with(APP_ARMOR_OF_CONTAINER) && !is_allowed(value)).then(|| format!("{name}={value:?}"))
    }));
    let of_annotations = match forbidden.len() {
        0 => None,
        1 => Some("annotation".to_owned()),
        _ => Some("annotations".to_owned()),
    };
    values.extend(forbidden);
    let blamed = blamed.into_iter().chain(of_annotations).collect::<Vec<_>>();
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    (!blamed.is_empty()).then(|| {
        let blamed = blamed.join(" and ");
        SecurityViolation::new(
            reason,
            format!("{blamed} must not set AppArmor profile type to {}", quoted(&values)),
        )
    })
}

/// Returns the capabilities that a container adds.
pub(super) fn added_capabilities(container: &Value) -> impl Iterator<Item = String> {
    container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten().map(text)
}

pub(super) fn capabilities(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let bad = |container: &Value| {
        added_capabilities(container).filter(|one| !CAPABILITIES.contains(&&**one)).collect::<Vec<_>>()
    };
    let names = names_where(pod, |container| !bad(container).is_empty());
    let added = sorted(containers(pod).flat_map(bad));
    (!names.is_empty()).then(|| {
        let (names, added) = (listed("container", &names), quoted(&added));
        let detail = format!("{names} must not include {added} in securityContext.capabilities.add");
        SecurityViolation::new("non-default capabilities", detail)
    })
}

pub(super) fn host_namespaces(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let used = fields.filter(|field| pod["spec"][*field] == true).map(|field| format!("{field}=true"));
    let used = used.collect::<Vec<_>>();
    (!used.is_empty()).then(|| SecurityViolation::new("host namespaces", used.join(", ")))
}

pub(super) fn host_path_volumes(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter(|volume| !volume["hostPath"].is_null()).map(|volume| text(&volume["name"]));
    let names = names.collect::<Vec<_>>();
    (!names.is_empty()).then(|| SecurityViolation::new("hostPath volumes", listed("volume", &names)))
}

pub(super) fn host_ports(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let ports = |container: &Value| {
        let all = container["ports"].as_array().cloned().unwrap_or_default();
        let ports = all.into_iter().filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect::<Vec<_>>()
    };
    let names = names_where(pod, |container| !ports(container).is_empty());
    let used = sorted(containers(pod).flat_map(ports));
    (!names.is_empty()).then(|| {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let what = if used.len() == 1 { "hostPort" } else { "hostPorts" };
        let detail = format!("{} {verb} {what} {}", listed("container", &names), used.join(", "));
        SecurityViolation::new("hostPort", detail)
    })
}

pub(super) fn host_probes_and_lifecycle(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let hosts = |container: &Value| {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|name| &container[name]);
        let handlers = ["postStart", "preStop"].map(|name| &container["lifecycle"][name]);
        let all = probes.into_iter().chain(handlers);
        let hosts = all.flat_map(|one| ["httpGet", "tcpSocket"].map(|kind| &one[kind]["host"]));
        hosts
            .filter_map(Value::as_str)
            .filter(|host| !host.is_empty())
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let names = sorted(names_where(pod, |container| !hosts(container).is_empty()).into_iter());
    let used = sorted(containers(pod).flat_map(hosts));
    (!names.is_empty()).then(|| {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let used = listed("probe or lifecycle host", &used);
        SecurityViolation::new(
            "probe or lifecycle host",
            format!("{} {verb} {used}", listed("container", &names)),
        )
    })
}

pub(super) fn privileged(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let names = names_where(pod, |container| container["securityContext"]["privileged"] == true);
    (!names.is_empty()).then(|| {
        let names = listed("container", &names);
        SecurityViolation::new("privileged", format!("{names} must not set securityContext.privileged=true"))
    })
}

/// Since version 1.35, Pods with their own user namespace may see all of `/proc`.
pub(super) fn proc_mount_relaxed(pod: &Value, version: u32) -> Option<SecurityViolation> {
    if version >= 35 && has_own_users(pod) { None } else { proc_mount(pod, version) }
}

pub(super) fn proc_mount(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let bad = |container: &Value| {
        let kind = container["securityContext"]["procMount"].as_str();
        kind.filter(|kind| *kind != "Default").map(ToOwned::to_owned)
    };
    let names = names_where(pod, |container| bad(container).is_some());
    let kinds = sorted(containers(pod).filter_map(bad));
    (!names.is_empty()).then(|| {
        let names = listed("container", &names);
        let detail = format!("{names} must not set securityContext.procMount to {}", quoted(&kinds));
        SecurityViolation::new("procMount", detail)
    })
}

pub(super) fn se_linux_options(pod: &Value, version: u32) -> Option<SecurityViolation> {
    let field =
        |context: &Value, name: &str| context["seLinuxOptions"][name].as_str().unwrap_or_default().to_owned();
    let is_known =
        |kind: &String| SE_LINUX_TYPES.iter().any(|(known, since)| known == kind && *since <= version);
    let bad_type = |context: &Value| Some(field(context, "type")).filter(|kind| !is_known(kind));
    let sets = |context: &Value, name: &str| !field(context, name).is_empty();
    let is_bad =
        |context: &Value| bad_type(context).is_some() || sets(context, "user") || sets(context, "role");
    let names = names_where(pod, |container| is_bad(&container["securityContext"]));
    let blamed = setters(is_bad(&pod["spec"]["securityContext"]), &names)?;
    let kinds = sorted(contexts(pod).filter_map(bad_type));
    let mut facts = Vec::new();
    if !kinds.is_empty() {
        facts.push(listed("type", &kinds));
    }
    for name in ["user", "role"] {
        if contexts(pod).any(|context| sets(context, name)) {
            facts.push(format!("{name} may not be set"));
        }
    }
    let detail = format!("{blamed} set forbidden securityContext.seLinuxOptions: {}", facts.join("; "));
    Some(SecurityViolation::new("seLinuxOptions", detail))
}

/// Returns the type of a seccomp profile that no standard allows.
pub(super) fn bad_seccomp(context: &Value) -> Option<String> {
    let profile = &context["seccompProfile"];
    let kind = profile["type"].as_str().unwrap_or_default();
    (profile.is_object() && !matches!(kind, "Localhost" | "RuntimeDefault")).then(|| kind.to_owned())
}

/// Returns the violation if a seccomp profile is explicitly set to a type that no standard allows.
pub(super) fn explicit_seccomp(pod: &Value) -> Option<SecurityViolation> {
    let names = names_where(pod, |container| bad_seccomp(&container["securityContext"]).is_some());
    let blamed = setters(bad_seccomp(&pod["spec"]["securityContext"]).is_some(), &names)?;
    let kinds = quoted(&sorted(contexts(pod).filter_map(bad_seccomp)));
    let detail = format!("{blamed} must not set securityContext.seccompProfile.type to {kinds}");
    Some(SecurityViolation::new("seccompProfile", detail))
}

pub(super) fn seccomp_profile(pod: &Value, version: u32) -> Option<SecurityViolation> {
    if version >= 19 {
        return explicit_seccomp(pod);
    }
    let is_allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let of_containers =
        containers(pod).map(|container| format!("{SECCOMP_OF_CONTAINER}{}", text(&container["name"])));
    let names = std::iter::once(SECCOMP_OF_POD.to_owned()).chain(of_containers);
    let forbidden = sorted(names.filter_map(|name| {
        let value = pod["metadata"]["annotations"][&name].as_str()?;
        (!is_allowed(value)).then(|| format!("{name}={value:?}"))
    }));
    let what = if forbidden.len() == 1 { "annotation" } else { "annotations" };
    (!forbidden.is_empty()).then(|| {
        SecurityViolation::new("seccompProfile", format!("forbidden {what} {}", forbidden.join(", ")))
    })
}

pub(super) fn sysctls(pod: &Value, version: u32) -> Option<SecurityViolation> {
    let is_known = |name: &String| SYSCTLS.iter().any(|(known, since)| known == name && *since <= version);
    let all = pod["spec"]["securityContext"]["sysctls"].as_array().into_iter().flatten();
    let forbidden = all.map(|one| text(&one["name"])).filter(|name| !is_known(name)).collect::<Vec<_>>();
    (!forbidden.is_empty()).then(|| SecurityViolation::new("forbidden sysctls", forbidden.join(", ")))
}

pub(super) fn windows_host_process(pod: &Value, _: u32) -> Option<SecurityViolation> {
    let is_bad = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let names = names_where(pod, |container| is_bad(&container["securityContext"]));
    let blamed = setters(is_bad(&pod["spec"]["securityContext"]), &names)?;
    let detail = format!("{blamed} must not set securityContext.windowsOptions.hostProcess=true");
    Some(SecurityViolation::new("hostProcess", detail))
}
