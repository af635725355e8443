//! The queue's state of one key: its phase (idle, ready, running), the outcome of its last run (success, failing,
//! terminal), when it is due, and the causes collected for its next run.

use homeostat_core::Key;
use homeostat_core::journal::Cause;
use tokio::time::Instant;

use super::Urgency;
use super::ready_keys::QueuePriority;

/// The maximum number of causes kept per run. More than a screenful would not explain anything; the run itself is not
/// affected.
const CAUSES_MAX: usize = 16;

/// The state of one key.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Key,
    pub(super) namespace: u32,
    /// Incremented whenever the key enters or leaves a FIFO.
    pub(super) stamp: u32,
    pub(super) phase: KeyPhase,
    pub(super) health: KeyHealth,
    pub(super) timer: Option<Timer>,
    /// The time at which the oldest cause of the next run became due.
    pub(super) since: Instant,
    pub(super) causes: Vec<Cause>,
}

/// The phase of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KeyPhase {
    Idle,
    Ready(QueuePriority),
    Running {
        /// The most urgent trigger since the run began: the key must run again.
        again: Option<Urgency>,
        /// Whether the run began before its backoff was over, so its failure is not counted again.
        is_early: bool,
    },
}

/// The outcome of a key's last run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KeyHealth {
    Well,
    Failing { failures: u32, until: Instant, early_used: bool },
    Terminal { failures: u32 },
}

/// The time at which a key is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timer {
    pub(super) at: Instant,
    pub(super) reason: TimerReason,
}

/// The reason it is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TimerReason {
    Requeue,
    Retry,
    Resync,
    /// Its last run was interrupted; that timer never waits.
    Interrupted,
}

impl TimerReason {
    pub(super) fn cause(self) -> Cause {
        match self {
            Self::Requeue => Cause::Requeued,
            Self::Retry => Cause::Retried,
            Self::Resync => Cause::Resync,
            Self::Interrupted => Cause::Interrupted,
        }
    }

    pub(super) fn class(self) -> QueuePriority {
        match self {
            Self::Requeue | Self::Retry | Self::Interrupted => QueuePriority::Fresh,
            Self::Resync => QueuePriority::Background,
        }
    }
}

impl Slot {
    pub(super) fn new(key: Key, namespace: u32, since: Instant) -> Self {
        Self {
            key,
            namespace,
            stamp: 0,
            phase: KeyPhase::Idle,
            health: KeyHealth::Well,
            timer: None,
            since,
            causes: Vec::new(),
        }
    }

    /// Reuses the slot for a new key; only the stamp is kept.
    pub(super) fn reuse(&mut self, key: Key, namespace: u32) {
        self.key = key;
        self.namespace = namespace;
        self.health = KeyHealth::Well;
        debug_assert!(self.is_forgettable(), "only a slot that remembers nothing is released");
    }

    /// Returns whether nothing about this key needs to be remembered.
    pub(super) fn is_forgettable(&self) -> bool {
        self.phase == KeyPhase::Idle
            && self.health == KeyHealth::Well
            && self.timer.is_none()
            && self.causes.is_empty()
    }

    pub(super) fn add_cause(&mut self, cause: Cause) {
        if self.causes.len() < CAUSES_MAX && !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    pub(super) fn failures(&self) -> u32 {
        match self.health {
            KeyHealth::Well => 0,
            KeyHealth::Failing { failures, .. } | KeyHealth::Terminal { failures } => failures,
        }
    }
}
