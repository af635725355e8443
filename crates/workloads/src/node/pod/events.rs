//! What a Pod's events say of its containers: that they were started, failed to be, or wait for the next start.
//!
//! **Invariant:** told is what the Pod's status does not say yet, so that a reconcile at rest tells nothing.

use homeostat_runtime::{Context, Severity};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::parts::{self, Part};
use super::plan::{After, Situation};
use super::status::Refusal;
use super::volumes;
use crate::node::Ground;
use crate::node::keeper::protocol::{Exit, Run, State};

/// Events for what became of containers since the status was written; they may have ended already.
pub(super) fn tell(ground: &Ground, cx: &Context<Pod>, situation: &Situation<'_>) {
    for part in parts::all(situation.spec) {
        let Some(run) = situation.run(part) else { continue };
        if !is_told(situation, part, run.attempt) {
            tell_run(ground, cx, part, run);
        }
        if matches!(situation.after(part, run), After::Wait { .. }) && !is_wait_told(situation, part, run) {
            cx.event(Severity::Warning, "BackOff", back_off(situation, part));
        }
    }
}

fn tell_run(ground: &Ground, cx: &Context<Pod>, part: Part<'_>, run: &Run) {
    match &run.state {
        State::Starting | State::Ended { exit: Exit::NotStarted(_), .. } => {}
        State::Running { .. } | State::Ended { .. } => started(ground, cx, part),
    }
    if let Some(Exit::HookFailed(words)) = run.exit() {
        let message = format!("PostStartHook of container {} failed: {words}", part.container.name);
        cx.event(Severity::Warning, "FailedPostStartHook", message);
    }
}

/// The words Kubernetes has for it.
fn back_off(situation: &Situation<'_>, part: Part<'_>) -> String {
    let meta = &situation.pod.metadata;
    format!(
        "Back-off restarting failed container {} in pod {}_{}({})",
        part.container.name,
        meta.name.as_deref().unwrap_or_default(),
        meta.namespace.as_deref().unwrap_or_default(),
        situation.uid()
    )
}

/// Does the Pod's status say that the next start after this run is awaited?
fn is_wait_told(situation: &Situation<'_>, part: Part<'_>, run: &Run) -> bool {
    told(situation, part, run.attempt).is_some_and(|one| {
        let waiting = one.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
    })
}

/// Does the Pod's status know of this run?
fn is_told(situation: &Situation<'_>, part: Part<'_>, attempt: u32) -> bool {
    told(situation, part, attempt).is_some_and(|one| one.container_id.is_some())
}

/// What the Pod's status says of this run.
fn told<'a>(situation: &Situation<'a>, part: Part<'_>, attempt: u32) -> Option<&'a ContainerStatus> {
    let status = situation.pod.status.as_ref()?;
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.find(|one| one.name == part.container.name && u32::try_from(one.restart_count) == Ok(attempt))
}

fn started(ground: &Ground, cx: &Context<Pod>, part: Part<'_>) {
    let container = part.container;
    cx.event(Severity::Normal, "Started", format!("Started container {}", container.name));
    for mount in volumes::unhonoured(ground, container) {
        let message = format!(
            "mountPath {} of container {} is not visible at that path: this system gives no mount namespaces. \
             Its files are in $HOMEOSTAT_VOLUMES/{} and $HOME{}",
            mount.mount_path, container.name, mount.name, mount.mount_path
        );
        cx.event(Severity::Warning, "MountPathNotHonoured", message);
    }
}

/// A container that cannot be started.
pub(super) fn refused(cx: &Context<Pod>, part: Part<'_>, refusal: &Refusal) {
    let message = format!("Error: container {}: {}", part.container.name, refusal.message);
    cx.event(
        Severity::Warning,
        if refusal.reason.starts_with("ErrImage") { refusal.reason } else { "Failed" },
        message,
    );
}
