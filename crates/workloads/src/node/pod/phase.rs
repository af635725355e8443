//! Computes a Pod's phase: one word for the state of all its containers, according to Kubernetes' rules.

use k8s_openapi::api::core::v1::Pod;

use super::container_roles::{ContainerRole, RestartPolicy, init_containers, main_containers};
use super::plan::PodSituation;
use super::restart::AfterExit;

/// Where a Pod is in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl PodPhase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// Returns whether the status says that the Pod is over.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Returns the phase for this situation. Succeeded and Failed are final.
pub(crate) fn pod_phase(situation: &PodSituation<'_>) -> PodPhase {
    let before = situation.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match before {
        Some("Succeeded") => return PodPhase::Succeeded,
        Some("Failed") => return PodPhase::Failed,
        _ if situation.is_expired() => return PodPhase::Failed,
        _ => {}
    }
    for part in init_containers(situation.spec) {
        if situation.has_failed(part) && part.role == ContainerRole::Init {
            return PodPhase::Failed;
        }
        let is_past = situation.has_completed(part)
            || (part.role == ContainerRole::Sidecar && situation.run(part).is_some());
        if !is_past {
            return PodPhase::Pending;
        }
    }
    phase_of_main_containers(situation)
}

fn phase_of_main_containers(situation: &PodSituation<'_>) -> PodPhase {
    let mut has_failed = false;
    let mut goes_on = false;
    for part in main_containers(situation.spec) {
        let Some(run) = situation.run(part) else { return PodPhase::Pending };
        let is_at_rest = run.is_over() && situation.after_exit(part, run) == AfterExit::Rest;
        if is_at_rest {
            has_failed |= situation.has_failed(part);
        } else {
            // A container that never ran holds the Pod in Pending; one between two runs does not.
            let never_ran = !run.is_over() && !run.is_running() && run.attempt == 0;
            if never_ran {
                return PodPhase::Pending;
            }
            goes_on = true;
        }
        // A container that would always be restarted has exited only because the Pod is being deleted.
        goes_on |= is_at_rest && part.restart == RestartPolicy::Always && !situation.has_no_processes();
    }
    match (goes_on, has_failed) {
        (true, _) => PodPhase::Running,
        (false, true) => PodPhase::Failed,
        (false, false) => PodPhase::Succeeded,
    }
}
