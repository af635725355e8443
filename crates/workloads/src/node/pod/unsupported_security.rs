//! Reports once, in an event, which of a Pod's security settings this node does not support.
//!
//! The Pod runs anyway: these settings would restrict it, or grant it permissions that it can do without. Settings that
//! would give it a different user's permissions are refused instead (see `container_identity`).

use std::path::Path;

use homeostat_runtime::{Context, Severity};
use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

use super::container_identity::{IdentityPolicy, PodIdentities};
use super::container_roles::all_containers;
use super::{phase, process_capabilities};
use crate::node::NodeShared;

/// When the Pod is first reconciled, reports what it does not get.
pub(super) fn report(shared: &NodeShared, cx: &Context<Pod>, identity: &PodIdentities<'_>) {
    if identity.pod.status.as_ref().is_some_and(|status| status.start_time.is_some()) {
        return;
    }
    let mut missing = unsupported_of_pod(shared, identity);
    for part in identity.pod.spec.iter().flat_map(all_containers) {
        missing.extend(unsupported_of_container(shared, identity, part.container));
    }
    missing.extend(pods_with_same_user(cx, identity));
    for unseen in host_paths_hidden(shared, identity) {
        cx.event(Severity::Warning, "HostPathNotHonoured", unseen);
    }
    if !missing.is_empty() {
        let message = format!("This node does not support what the Pod asks for: {}", missing.join("; "));
        cx.event(Severity::Warning, "SecurityContextNotHonoured", message);
    }
}

fn unsupported_of_pod(shared: &NodeShared, identity: &PodIdentities<'_>) -> Vec<String> {
    let Some(spec) = &identity.pod.spec else { return Vec::new() };
    let none = PodSecurityContext::default();
    let context = spec.security_context.as_ref().unwrap_or(&none);
    let profile = |kind: Option<&str>| kind.is_some_and(|kind| kind != "Unconfined");
    let seccomp = context.seccomp_profile.as_ref().map(|profile| &*profile.type_);
    let apparmor = context.app_armor_profile.as_ref().map(|profile| &*profile.type_);
    let asked = [
        (profile(seccomp), "seccompProfile (system calls are not filtered)"),
        (profile(apparmor), "appArmorProfile"),
        (context.se_linux_options.is_some(), "seLinuxOptions"),
        (context.windows_options.is_some(), "windowsOptions"),
        (context.sysctls.as_ref().is_some_and(|all| !all.is_empty()), "sysctls (they are the machine's)"),
        (
            spec.host_users == Some(false) && !has_user_namespaces(identity.identity_policy),
            "hostUsers: false (this system offers no user namespaces)",
        ),
    ];
    let mut missing: Vec<String> =
        asked.iter().filter(|(is_asked, _)| *is_asked).map(|(_, what)| (*what).to_owned()).collect();
    missing.extend(unreachable_folders(shared, identity));
    missing.extend(identity.shared_claims.iter().map(|claim| {
        format!("all files of the claim {claim}, which another Pod uses as another user; set the same runAsUser in both")
    }));
    missing
}

/// Returns the host paths that are inside the server's hidden files.
fn host_paths_hidden(shared: &NodeShared, identity: &PodIdentities<'_>) -> Vec<String> {
    let hidden = if shared.has_namespaces { shared.hidden() } else { Vec::new() };
    let volumes = identity.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let asked = volumes.filter_map(|volume| Some((&volume.name, &volume.host_path.as_ref()?.path)));
    let is_hidden = |path: &str| {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        hidden.iter().any(|folder| real.starts_with(folder))
    };
    let words = |(name, path): (&String, &String)| {
        format!(
            "The container does not see {path}, the hostPath of the volume {name}: the server keeps its data there, which no Pod \
             may see. Use another path, or a persistentVolumeClaim for the data of the Pod"
        )
    };
    asked.filter(|(_, path)| is_hidden(path)).map(words).collect()
}

fn has_user_namespaces(identity_policy: &IdentityPolicy) -> bool {
    match identity_policy {
        IdentityPolicy::AnyUser { has_user_namespaces }
        | IdentityPolicy::OneUser { has_user_namespaces, .. } => *has_user_namespaces,
    }
}

/// Describes a folder that the Pod's user must traverse, because there are no mount namespaces, but may not.
fn unreachable_folders(shared: &NodeShared, identity: &PodIdentities<'_>) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    /// The permission for others to traverse.
    const PASSABLE: u32 = 0o001;
    let must_walk = !shared.has_namespaces
        && identity.blocks.is_some()
        && !process_capabilities::is_root(identity.identity_policy);
    let is_closed = |folder: &&Path| std::fs::metadata(folder).is_ok_and(|meta| meta.mode() & PASSABLE == 0);
    let closed = shared.layout.root().ancestors().filter(|_| must_walk).find(is_closed)?;
    Some(format!(
        "its home and volumes by name: this system offers no mount namespaces, and the Pod's user may not pass {}; \
         choose another --data-dir",
        closed.display()
    ))
}

fn unsupported_of_container(
    shared: &NodeShared,
    identity: &PodIdentities<'_>,
    container: &Container,
) -> Vec<String> {
    let none = SecurityContext::default();
    let context = container.security_context.as_ref().unwrap_or(&none);
    let is_root = process_capabilities::is_root(identity.identity_policy);
    let who = identity.identity_of(container).unwrap_or_default();
    let has_namespace = !who.ranges.is_empty();
    let drops =
        context.capabilities.as_ref().and_then(|all| all.drop.as_ref()).is_some_and(|all| !all.is_empty());
    let profile = |kind: Option<&str>| kind.is_some_and(|kind| kind != "Unconfined");
    let asked = [
        (context.privileged == Some(true) && !is_root, "privileged"),
        (
            drops && !process_capabilities::can_bound(identity.identity_policy),
            "capabilities.drop (the server is not root)",
        ),
        (context.read_only_root_filesystem == Some(true) && !shared.has_namespaces, "readOnlyRootFilesystem"),
        (profile(context.seccomp_profile.as_ref().map(|profile| &*profile.type_)), "seccompProfile"),
        (profile(context.app_armor_profile.as_ref().map(|profile| &*profile.type_)), "appArmorProfile"),
        (context.se_linux_options.is_some(), "seLinuxOptions"),
        (context.windows_options.is_some(), "windowsOptions"),
        (context.proc_mount.as_deref() == Some("Default"), "procMount"),
    ];
    let mut missing: Vec<String> = asked
        .iter()
        .filter(|(is_asked, _)| *is_asked)
        .map(|(_, what)| format!("{what} of container {}", container.name))
        .collect();
    let withheld =
        process_capabilities::withheld_capabilities(identity.identity_policy, container, has_namespace);
    if !withheld.is_empty() {
        missing.push(format!("capabilities {} of container {}", withheld.join(", "), container.name));
    }
    if let (Some(user), Some(machine)) = (who.user, who.machine_user)
        && user != machine
    {
        missing.push(format!(
            "rights of user {user} of this machine for container {}, which sees itself as user {user} and is {machine} on this machine",
            container.name
        ));
    }
    missing
}

/// Returns other Pods that run as the same user on this machine.
fn pods_with_same_user(cx: &Context<Pod>, identity: &PodIdentities<'_>) -> Option<String> {
    let named = |pod: &Pod| {
        let of_pod = pod.spec.as_ref()?.security_context.as_ref().and_then(|context| context.run_as_user);
        let containers = pod.spec.iter().flat_map(all_containers).map(|part| part.container);
        let own = containers.filter_map(|one| one.security_context.as_ref()?.run_as_user).collect::<Vec<_>>();
        Some(own.into_iter().chain(of_pod).collect::<Vec<_>>())
    };
    let plain = |user: &i64| {
        let seen = identity
            .pod
            .spec
            .iter()
            .flat_map(all_containers)
            .filter_map(|part| identity.identity_of(part.container).ok());
        seen.into_iter().any(|who| who.user == who.machine_user && who.user.map(i64::from) == Some(*user))
    };
    let users: Vec<i64> = named(identity.pod)?.into_iter().filter(plain).collect();
    if users.is_empty() || matches!(identity.identity_policy, IdentityPolicy::OneUser { .. }) {
        return None;
    }
    let is_other = |pod: &Pod| pod.metadata.uid != identity.pod.metadata.uid && !phase::is_finished(pod);
    let all = cx.list::<Pod>().ok()?;
    let same = all.iter().filter(|pod| is_other(pod)).find_map(|pod| {
        let user = named(pod)?.into_iter().find(|user| users.contains(user))?;
        Some((user, pod.metadata.namespace.clone()?, pod.metadata.name.clone()?))
    });
    let (user, namespace, name) = same?;
    let proc = if has_user_namespaces(identity.identity_policy) {
        "send each other signals"
    } else {
        "read each other's memory and environment"
    };
    Some(format!(
        "a user of its own: runAsUser {user} is also that of the Pod {namespace}/{name}, and both can {proc} and open \
         each other's files where both reach them; leave runAsUser out to have one"
    ))
}
