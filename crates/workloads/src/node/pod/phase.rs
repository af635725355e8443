//! The phase of a Pod: one word for the state of all its containers, with Kubernetes' rules.

use super::container_roles::{Restart, Role, first, mains};
use super::plan::{After, Situation};

/// Where a Pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The phase this situation means. Succeeded and Failed are for ever.
pub(crate) fn phase(situation: &Situation<'_>) -> Phase {
    let before = situation.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match before {
        Some("Succeeded") => return Phase::Succeeded,
        Some("Failed") => return Phase::Failed,
        _ if situation.is_expired() => return Phase::Failed,
        _ => {}
    }
    for part in first(situation.spec) {
        if situation.has_failed(part) && part.role == Role::Init {
            return Phase::Failed;
        }
        let is_past =
            situation.is_through(part) || (part.role == Role::Sidecar && situation.run(part).is_some());
        if !is_past {
            return Phase::Pending;
        }
    }
    of_mains(situation)
}

fn of_mains(situation: &Situation<'_>) -> Phase {
    let mut has_failed = false;
    let mut goes_on = false;
    for part in mains(situation.spec) {
        let Some(run) = situation.run(part) else { return Phase::Pending };
        let is_at_rest = run.is_over() && situation.after(part, run) == After::Rest;
        if is_at_rest {
            has_failed |= situation.has_failed(part);
        } else {
            // One that never ran holds the Pod in Pending; one between two runs does not.
            let never_ran = !run.is_over() && !run.is_running() && run.attempt == 0;
            if never_ran {
                return Phase::Pending;
            }
            goes_on = true;
        }
        // A container that would always be restarted rests only because the Pod is being deleted.
        goes_on |= is_at_rest && part.restart == Restart::Always && !situation.is_quiet();
    }
    match (goes_on, has_failed) {
        (true, _) => Phase::Running,
        (false, true) => Phase::Failed,
        (false, false) => Phase::Succeeded,
    }
}
