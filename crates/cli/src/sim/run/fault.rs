//! The faults, in the form in which failures are saved. `fault_points` knows where each can happen; `wire`, `watch_tap`
//! and `one_run` inject them.
//!
//! **Invariant:** no fault breaks what the Kubernetes API guarantees: a watch is either in order and without gaps, or
//! it ends; only a request with a resourceVersion gets a conflict; and only a list that accepts any version returns an
//! old one.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One fault at one point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Fault {
    /// `kill -9` before the request is processed, and a restart.
    KillBefore,
    /// `kill -9` after the request is processed and before its response arrives, and a restart.
    KillAfter,
    /// The request is answered with this code but not processed.
    Refuse {
        /// The HTTP status: 429 or 500.
        code: u16,
    },
    /// The request is answered with 409, as if another client had written the object first.
    Conflict,
    /// The request is answered with 504 but not processed.
    TimeoutUndone,
    /// The request is processed but answered with 504.
    TimeoutDone,
    /// The connection breaks before the request is processed.
    LoseRequest,
    /// The request is processed, but the connection breaks before its response arrives.
    LoseAnswer,
    /// From this request on, all requests are answered with 500 for a while.
    Outage {
        /// For how long.
        milliseconds: u64,
    },
    /// The list shows the state before the last changes to the resource.
    StaleList {
        /// The number of missing changes.
        changes: usize,
    },
    /// The watch is silent for a while from this event on.
    DelayWatch {
        /// For how long.
        milliseconds: u64,
    },
    /// The watch ends before this event.
    CutWatch,
    /// The watch ends with 410 before this event: the history is gone.
    ExpireWatch,
    /// `kill -9` at rest before this step, and a restart.
    Restart,
    /// The operator is not running while this step happens.
    Down,
}

/// The kinds of faults, for `--faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FaultKind {
    /// `kill -9` before and after writes
    Kill,
    /// `kill -9` at rest, and downtime during a step
    Restart,
    /// 429 and 500
    Refuse,
    /// 409 for requests with a resourceVersion
    Conflict,
    /// 504, with and without effect
    Timeout,
    /// Connections that break, before and after the effect
    Connection,
    /// 500 for everything, for two seconds
    Outage,
    /// Watches that are late, end or expire
    Watch,
    /// Lists with resourceVersion=0 that show an older state
    Stale,
}

impl Fault {
    /// Returns its kind.
    pub(super) fn sort(&self) -> FaultKind {
        match self {
            Self::KillBefore | Self::KillAfter => FaultKind::Kill,
            Self::Restart | Self::Down => FaultKind::Restart,
            Self::Refuse { .. } => FaultKind::Refuse,
            Self::Conflict => FaultKind::Conflict,
            Self::TimeoutUndone | Self::TimeoutDone => FaultKind::Timeout,
            Self::LoseRequest | Self::LoseAnswer => FaultKind::Connection,
            Self::Outage { .. } => FaultKind::Outage,
            Self::DelayWatch { .. } | Self::CutWatch | Self::ExpireWatch => FaultKind::Watch,
            Self::StaleList { .. } => FaultKind::Stale,
        }
    }

    /// Returns how long it lasts.
    pub(super) fn duration(&self) -> Duration {
        match self {
            Self::Outage { milliseconds } | Self::DelayWatch { milliseconds } => {
                Duration::from_millis(*milliseconds)
            }
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::KillBefore => "kill -9 before it is done",
            Self::KillAfter => "done, then kill -9 before the answer arrives",
            Self::Refuse { code } => return write!(f, "answered with {code}, not done"),
            Self::Conflict => "answered with 409 Conflict, not done",
            Self::TimeoutUndone => "answered with 504 Timeout, not done",
            Self::TimeoutDone => "done, but answered with 504 Timeout",
            Self::LoseRequest => "not done, the connection breaks",
            Self::LoseAnswer => "done, but the connection breaks before the answer arrives",
            Self::Outage { milliseconds } => {
                return write!(f, "every request is answered with 500 for {milliseconds} ms");
            }
            Self::StaleList { changes } => {
                return write!(f, "the list does not know of the last {changes} change(s)");
            }
            Self::DelayWatch { milliseconds } => {
                return write!(f, "the watch is silent for {milliseconds} ms before this event");
            }
            Self::CutWatch => "the watch ends before this event",
            Self::ExpireWatch => "the watch ends with 410 Expired before this event",
            Self::Restart => "kill -9 at rest before this step, then a new start",
            Self::Down => "the operator is killed, and started only after this step",
        };
        f.write_str(text)
    }
}

/// A fault and its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct FaultAtAddress {
    /// The request or event and its ordinal: `create configmaps default/home #1`.
    pub(super) at: String,
    /// The fault.
    #[serde(flatten)]
    pub(super) fault: Fault,
}

impl fmt::Display for FaultAtAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at \"{}\": {}", self.at, self.fault)
    }
}
