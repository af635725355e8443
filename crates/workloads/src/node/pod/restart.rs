//! Decides whether and when to restart a container that has exited, according to its restart policy and a backoff that
//! doubles with each quick failure in a row. This module is pure, like [`super::plan`], which calls it.

use std::time::Duration;

use super::container_roles::{PodContainer, RestartPolicy};
use super::plan::PodSituation;
use crate::node::supervisor::protocol::{ContainerRunStatus, RunState};

/// What happens to a container that has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterExit {
    /// Nothing: it is finished.
    Rest,
    /// It is restarted immediately.
    Restart,
    /// It is restarted after a wait: the total wait, and how much of it is left.
    Wait { delay: Duration, left: Duration },
}

impl PodSituation<'_> {
    /// Returns what happens after a run that has ended.
    pub(crate) fn after_exit(&self, part: PodContainer<'_>, run: &ContainerRunStatus) -> AfterExit {
        let RunState::Ended { finished_at, exit, .. } = &run.state else { return AfterExit::Rest };
        let is_wanted = match part.restart {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => !exit.is_success(),
            RestartPolicy::Never => false,
        };
        if !is_wanted || self.must_end().is_some() {
            return AfterExit::Rest;
        }
        let delay = self.delay(self.strikes(run));
        let since = Duration::try_from(self.now.duration_since(*finished_at)).unwrap_or_default();
        match delay.checked_sub(since).filter(|left| !left.is_zero()) {
            Some(left) => AfterExit::Wait { delay, left },
            None => AfterExit::Restart,
        }
    }

    /// Returns the number of restarts in a row; a long run resets it.
    pub(super) fn strikes(&self, run: &ContainerRunStatus) -> u32 {
        let RunState::Ended { started_at, finished_at, exit, .. } = &run.state else { return run.strikes };
        let lasted = Duration::try_from(finished_at.duration_since(*started_at)).unwrap_or_default();
        if lasted >= self.backoff.forgiven_after || !exit.ended_on_its_own() { 0 } else { run.strikes }
    }

    /// Returns the wait before a restart: zero for the first, then the base doubled each time.
    fn delay(&self, strikes: u32) -> Duration {
        let Some(doublings) = strikes.checked_sub(1) else { return Duration::ZERO };
        let factor = 2u32.saturating_pow(doublings);
        self.backoff.base.checked_mul(factor).unwrap_or(self.backoff.max).min(self.backoff.max)
    }
}
