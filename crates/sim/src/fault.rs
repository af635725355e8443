//! The faults, as they appear in traces. `explore::faults` determines at which points each can happen; the engine
//! injects them.

use serde::{Deserialize, Serialize};

/// The delay of a delayed watch: longer than the first retries of a failed reconcile take.
pub(crate) const DELAY_SECONDS: u64 = 5;

/// One fault at one point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Fault {
    /// The operator crashes before the call reaches the server, and restarts.
    CrashBefore,
    /// The operator crashes after the call is carried out and before the answer arrives, and restarts.
    CrashAfter,
    /// The server answers with this code and does not carry out the request.
    Refuse {
        /// The HTTP status.
        code: u16,
    },
    /// The request is carried out, but answered with this code.
    RefuseAfter {
        /// The HTTP status.
        code: u16,
    },
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// The request is carried out; the connection breaks before the answer arrives.
    LoseAnswer,
    /// Another client writes the object just before.
    ForeignWrite,
    /// The user's next step happens just before.
    StepFirst,
    /// The operator is frozen for this long, then continues with what it was about to do.
    Freeze {
        /// Virtual seconds.
        seconds: u64,
    },
    /// The call takes this long to arrive; the operator continues with other work.
    Slow {
        /// Virtual seconds.
        seconds: u64,
    },
    /// A read that accepts any version (`resourceVersion=0`) returns the state of this many changes ago.
    StaleRead {
        /// Changes of the store.
        changes: u64,
    },
    /// The operator crashes after the call is carried out; after the restart it first sees the state of this many
    /// changes ago.
    RestartBack {
        /// Changes of the store.
        changes: u64,
    },
    /// The operator crashes; after the restart it first sees the state just before the user's step of this number.
    RestartBeforeStep {
        /// Counted from 1.
        step: usize,
    },
    /// The operator crashes; after the restart it first sees one resource as it was just before the user's step of this
    /// number, and all others as they are.
    RestartOldOf {
        /// `configmaps`, `pages.demo.dev`.
        resource: String,
        /// Counted from 1.
        step: usize,
    },
    /// The operator crashes and restarts on a machine whose clock is wrong by this much.
    RestartSkewed {
        /// Virtual seconds; negative when the clock is behind.
        seconds: i64,
    },
    /// The clock of the running operator is set forward or back.
    JumpClock {
        /// Virtual seconds; negative when it is set back.
        seconds: i64,
    },
    /// The watch is silent from this event on until this many further writes have been made.
    Hold {
        /// Writes by anybody.
        writes: u64,
    },
    /// The watch is silent from this event on for this long.
    Delay {
        /// Virtual seconds.
        seconds: u64,
    },
    /// The watch ends before this event.
    Cut,
    /// The watch ends with 410 before this event: the history is gone.
    Expire,
    /// The watch ends with 410 before this event, and so do its successors for this long: there are so many writes that
    /// the history is gone before it can be read.
    ExpireAgain {
        /// Virtual seconds.
        seconds: u64,
    },
    /// The watch is silent until the object changes again and then ends with 410: the state in between is never seen.
    Coalesce,
    /// The operator is down while the user's next step happens.
    Down,
    /// Somebody deletes an object that the operator created.
    DeleteChild {
        /// Resource, namespace and name.
        object: String,
    },
    /// A given object is created only after everything has come to rest without it.
    Postpone {
        /// The number of the given object, counted from 1.
        given: usize,
    },
    /// The user's next two steps are swapped.
    SwapSteps,
    /// The answer shows the state outside as it was this many changes ago.
    StaleOutside {
        /// Changes outside.
        changes: usize,
    },
    /// The outside API carries out the call twice, as when a proxy repeats it.
    Twice,
    /// Somebody undoes the last changes outside.
    Drift {
        /// Changes outside.
        changes: usize,
    },
}

impl Fault {
    /// Returns the fault in words.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::CrashBefore => "CRASH before it is done".to_owned(),
            Self::CrashAfter => "CRASH after it is done (the answer is never seen)".to_owned(),
            Self::Refuse { code } => format!("answered with {code}, not done"),
            Self::RefuseAfter { code } => format!("done, but answered with {code}"),
            Self::LoseRequest => "connection lost, not done".to_owned(),
            Self::LoseAnswer => "done, connection lost before the answer".to_owned(),
            Self::ForeignWrite => "somebody else writes the object first".to_owned(),
            Self::StepFirst => "the user's next step comes first".to_owned(),
            Self::Freeze { seconds } => format!("the operator is frozen for {seconds}s"),
            Self::Slow { seconds } => format!("takes {seconds}s to arrive"),
            Self::RestartBack { changes } => {
                format!("CRASH after it is done; restarts on the state of {changes} change(s) ago")
            }
            Self::RestartBeforeStep { step } => {
                format!("CRASH; restarts on the state from before step {step}")
            }
            Self::RestartOldOf { resource, step } => {
                format!("CRASH; restarts on the {resource} from before step {step}, all else is as it is")
            }
            Self::RestartSkewed { seconds } => {
                let way = if *seconds < 0 { "behind" } else { "ahead" };
                format!("CRASH; restarts with a clock that is {}s {way}", seconds.unsigned_abs())
            }
            Self::JumpClock { seconds } => {
                let way = if *seconds < 0 { "back" } else { "forward" };
                format!("the operator's clock is set {way} by {}s", seconds.unsigned_abs())
            }
            Self::Hold { writes } => format!("the watch lags by {writes} write(s)"),
            Self::Delay { seconds } => format!("the watch lags by {seconds}s"),
            Self::Cut => "the watch is cut off".to_owned(),
            Self::Expire => "the watch ends with 410 Expired".to_owned(),
            Self::ExpireAgain { seconds } => {
                format!("the watch ends with 410 Expired, and so do its successors for {seconds}s")
            }
            Self::Coalesce => "the watch misses this state".to_owned(),
            Self::Down => "the operator is down during the next step".to_owned(),
            Self::DeleteChild { object } => format!("somebody deletes {object}"),
            Self::Postpone { given } => format!("given object {given} is created last"),
            Self::SwapSteps => "the next two steps are swapped".to_owned(),
            Self::StaleRead { changes } => {
                format!("answered from a cache that is {changes} change(s) behind")
            }
            Self::StaleOutside { changes } => format!("the answer is {changes} change(s) old"),
            Self::Twice => "done twice outside".to_owned(),
            Self::Drift { changes } => format!("somebody undoes the last {changes} change(s) outside"),
        }
    }

    /// Returns weaker faults, which would make the report simpler.
    pub(crate) fn weaker(&self) -> Vec<Self> {
        match self {
            Self::RestartBack { changes } if *changes > 1 => {
                vec![Self::CrashAfter, Self::RestartBack { changes: 1 }]
            }
            Self::RefuseAfter { .. } => vec![Self::Refuse { code: 500 }],
            Self::RestartOldOf { step, .. } => {
                vec![Self::CrashAfter, Self::RestartBeforeStep { step: *step }]
            }
            Self::RestartBack { .. } | Self::RestartBeforeStep { .. } | Self::RestartSkewed { .. } => {
                vec![Self::CrashAfter]
            }
            Self::StaleRead { changes } if *changes > 1 => vec![Self::StaleRead { changes: 1 }],
            Self::Coalesce => vec![Self::Expire, Self::Delay { seconds: DELAY_SECONDS }],
            Self::ExpireAgain { .. } => vec![Self::Expire, Self::Cut],
            Self::Expire => vec![Self::Cut],
            Self::Hold { writes } if *writes > 1 => vec![Self::Hold { writes: 1 }],
            _ => Vec::new(),
        }
    }
}
