//! Lists the containers of a Pod, each with its role.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// A container's role in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRole {
    /// Runs to completion before the next container starts.
    Init,
    /// Declared among the init containers, but keeps running alongside the main ones.
    Sidecar,
    /// A main container.
    Main,
}

/// When a container that has exited is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// A container and its role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodContainer<'a> {
    pub(crate) container: &'a Container,
    pub(crate) role: ContainerRole,
    pub(crate) restart: RestartPolicy,
}

/// Returns the init containers and sidecars, in the order in which they start.
pub(crate) fn init_containers(spec: &PodSpec) -> impl Iterator<Item = PodContainer<'_>> {
    let of_pod = restart_policy(spec);
    spec.init_containers.iter().flatten().map(move |container| {
        if container.restart_policy.as_deref() == Some("Always") {
            return PodContainer { container, role: ContainerRole::Sidecar, restart: RestartPolicy::Always };
        }
        // An init container that succeeded is finished, regardless of the Pod's policy.
        let restart =
            if of_pod == RestartPolicy::Never { RestartPolicy::Never } else { RestartPolicy::OnFailure };
        PodContainer { container, role: ContainerRole::Init, restart }
    })
}

/// Returns the main containers.
pub(crate) fn main_containers(spec: &PodSpec) -> impl Iterator<Item = PodContainer<'_>> {
    let restart = restart_policy(spec);
    spec.containers.iter().map(move |container| PodContainer {
        container,
        role: ContainerRole::Main,
        restart,
    })
}

/// Returns all containers.
pub(crate) fn all_containers(spec: &PodSpec) -> impl Iterator<Item = PodContainer<'_>> {
    init_containers(spec).chain(main_containers(spec))
}

fn restart_policy(spec: &PodSpec) -> RestartPolicy {
    match spec.restart_policy.as_deref() {
        Some("Never") => RestartPolicy::Never,
        Some("OnFailure") => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    }
}

/// Returns the Pod's grace period in seconds.
pub(crate) fn grace_s(pod: &Pod) -> u64 {
    /// Kubernetes' default.
    const GRACE_S: u64 = 30;
    let asked = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    asked.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(GRACE_S)
}
