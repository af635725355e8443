//! The containers of a Pod, each with its role.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// What a container is in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRole {
    /// Runs to its end before the next container starts.
    Init,
    /// Declared among the init containers, but goes on beside the main ones.
    Sidecar,
    /// What the Pod is for.
    Main,
}

/// When a container that ended is started again.
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

/// Init containers and sidecars, in the order they start.
pub(crate) fn init_containers(spec: &PodSpec) -> impl Iterator<Item = PodContainer<'_>> {
    let of_pod = restart_policy(spec);
    spec.init_containers.iter().flatten().map(move |container| {
        if container.restart_policy.as_deref() == Some("Always") {
            return PodContainer { container, role: ContainerRole::Sidecar, restart: RestartPolicy::Always };
        }
        // An init container that succeeded is through, whatever the Pod's policy says.
        let restart =
            if of_pod == RestartPolicy::Never { RestartPolicy::Never } else { RestartPolicy::OnFailure };
        PodContainer { container, role: ContainerRole::Init, restart }
    })
}

/// The main containers.
pub(crate) fn main_containers(spec: &PodSpec) -> impl Iterator<Item = PodContainer<'_>> {
    let restart = restart_policy(spec);
    spec.containers.iter().map(move |container| PodContainer {
        container,
        role: ContainerRole::Main,
        restart,
    })
}

/// All of them.
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

/// The grace period the Pod asks for.
pub(crate) fn grace_s(pod: &Pod) -> u64 {
    /// Kubernetes' default.
    const GRACE_S: u64 = 30;
    let asked = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    asked.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(GRACE_S)
}
