//! Sends events about a Pod's containers: that they started, failed to start, or wait for their next start.
//!
//! **Invariant:** it reports only what the Pod's status does not show yet, so a reconcile without changes reports
//! nothing.

use homeostat_runtime::{Context, Severity};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container_identity::{IdentityPolicy, PodIdentities};
use super::container_roles::{self, PodContainer};
use super::plan::PodSituation;
use super::restart::AfterExit;
use super::status::{NO_EXTRAS, StartRefusal, container_id, whole_second};
use super::volumes;
use crate::node::NodeShared;
use crate::node::supervisor::protocol::{ContainerRunStatus, RunExit, RunState};

/// Reports events of containers since the status was written; they may have exited already.
pub(super) fn report_runs(
    shared: &NodeShared,
    cx: &Context<Pod>,
    situation: &PodSituation<'_>,
    identities: Option<&PodIdentities<'_>>,
) {
    for part in container_roles::all_containers(situation.spec) {
        let Some(run) = situation.run(part) else { continue };
        if !is_reported(situation, part, run) {
            report_run(shared, cx, identities, part, run);
        }
        if matches!(situation.after_exit(part, run), AfterExit::Wait { .. })
            && !is_wait_reported(situation, part, run)
        {
            cx.event(Severity::Warning, "BackOff", describe_back_off(situation, part));
        }
    }
}

/// Reports ephemeral containers, which are not run.
pub(super) fn report_ephemeral_containers(cx: &Context<Pod>, situation: &PodSituation<'_>) {
    let reported =
        situation.pod.status.iter().flat_map(|status| status.ephemeral_container_statuses.iter().flatten());
    let reported: Vec<&str> = reported.map(|one| one.name.as_str()).collect();
    let extras = situation.spec.ephemeral_containers.iter().flatten();
    for extra in extras.filter(|extra| !reported.contains(&extra.name.as_str())) {
        cx.event(Severity::Warning, "Failed", format!("Error: container {}: {NO_EXTRAS}", extra.name));
    }
}

fn report_run(
    shared: &NodeShared,
    cx: &Context<Pod>,
    identities: Option<&PodIdentities<'_>>,
    part: PodContainer<'_>,
    run: &ContainerRunStatus,
) {
    match &run.state {
        RunState::Starting => {}
        RunState::Ended { exit: RunExit::NotStarted(words), .. } => {
            let message = format!("Error: failed to start container {}: {words}", part.container.name);
            cx.event(Severity::Warning, "Failed", message);
        }
        RunState::Running { .. } | RunState::Ended { .. } => {
            report_started(shared, cx, identities, part.container);
        }
    }
    if let Some(RunExit::HookFailed(words)) = run.exit() {
        let message = format!("PostStartHook of container {} failed: {words}", part.container.name);
        cx.event(Severity::Warning, "FailedPostStartHook", message);
    }
}

/// Describes the backoff as Kubernetes does.
fn describe_back_off(situation: &PodSituation<'_>, part: PodContainer<'_>) -> String {
    let meta = &situation.pod.metadata;
    format!(
        "Back-off restarting failed container {} in pod {}_{}({})",
        part.container.name,
        meta.name.as_deref().unwrap_or_default(),
        meta.namespace.as_deref().unwrap_or_default(),
        situation.uid()
    )
}

/// Returns whether the Pod's status says that the container waits for its next start after this run.
fn is_wait_reported(situation: &PodSituation<'_>, part: PodContainer<'_>, run: &ContainerRunStatus) -> bool {
    reported_status(situation, part, run).is_some_and(|one| {
        let waiting = one.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
    })
}

/// Returns whether the Pod's status shows this run.
fn is_reported(situation: &PodSituation<'_>, part: PodContainer<'_>, run: &ContainerRunStatus) -> bool {
    reported_status(situation, part, run).is_some_and(|one| one.container_id.is_some())
}

/// Returns the part of the Pod's status about this run.
fn reported_status<'a>(
    situation: &PodSituation<'a>,
    part: PodContainer<'_>,
    run: &ContainerRunStatus,
) -> Option<&'a ContainerStatus> {
    let status = situation.pod.status.as_ref()?;
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let is_of = |one: &&ContainerStatus| {
        one.name == part.container.name && u32::try_from(one.restart_count) == Ok(run.restarts())
    };
    all.find(is_of)
        .filter(|one| one.container_id == container_id(situation, &one.name, run) || shows_run(one, run))
}

/// Returns whether the status shows this run, which has since ended, and not an earlier one that the node interrupted.
/// Both have the same restart count, but did not start at the same time.
fn shows_run(reported: &ContainerStatus, run: &ContainerRunStatus) -> bool {
    let RunState::Ended { started_at, .. } = run.state else { return false };
    let began = Time(whole_second(started_at));
    reported.state.iter().chain(&reported.last_state).any(|state| {
        let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
        let ended = state.terminated.as_ref().and_then(|ended| ended.started_at.as_ref());
        running.or(ended) == Some(&began)
    })
}

fn report_started(
    shared: &NodeShared,
    cx: &Context<Pod>,
    identities: Option<&PodIdentities<'_>>,
    container: &Container,
) {
    cx.event(Severity::Normal, "Started", format!("Started container {}", container.name));
    for mount in volumes::misplaced_mounts(shared, container) {
        cx.event(Severity::Warning, "MountPathNotHonoured", describe_other_path(container, mount));
    }
    let groups = identities.map(PodIdentities::withheld_groups).unwrap_or_default();
    let groups = groups.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    if !groups.is_empty() {
        let message = format!(
            "fsGroup or supplementalGroups ask for the groups {groups}, which the containers and volumes do not get: {}",
            match shared.identity_policy {
                IdentityPolicy::OneUser { is_root: false, .. } => {
                    "the server must run as root to assign groups that its user is not in"
                }
                IdentityPolicy::OneUser { .. } => "the user given with --node-as is not in them",
                IdentityPolicy::AnyUser { .. } =>
                    "they are groups of this machine, and this system offers no user namespaces",
            }
        );
        cx.event(Severity::Warning, "GroupsNotHonoured", message);
    }
}

/// Describes the location of a mount's files if they are not at its path.
fn describe_other_path(container: &Container, mount: &VolumeMount) -> String {
    let part = mount.sub_path.as_deref().or(mount.sub_path_expr.as_deref()).filter(|part| !part.is_empty());
    let part = part.map(|part| format!("/{part}")).unwrap_or_default();
    let (path, name) = (&mount.mount_path, &mount.name);
    let flaw = if mount.read_only == Some(true) { ", and can be written to" } else { "" };
    format!(
        "mountPath {path} of container {} is not visible at that path: this system offers no mount namespaces. \
         Its files are in $HOMEOSTAT_VOLUMES/{name}{part} and $HOME{path}{flaw}",
        container.name
    )
}

/// Reports a container that cannot be started.
pub(super) fn report_refusal(cx: &Context<Pod>, part: PodContainer<'_>, refusal: &StartRefusal) {
    let message = format!("Error: container {}: {}", part.container.name, refusal.message);
    cx.event(
        Severity::Warning,
        if refusal.reason.starts_with("ErrImage") { refusal.reason } else { "Failed" },
        message,
    );
}
