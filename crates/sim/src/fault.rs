//! What can go wrong, as traces say it. `explore::faults` knows at which points each can happen, the engine how to do it.

use serde::{Deserialize, Serialize};

/// How late a delayed watch is: longer than the first retries of a failed reconcile take.
pub(crate) const DELAY_SECONDS: u64 = 5;

/// One thing that goes wrong at one point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Fault {
    /// The operator dies before the call reaches the server, and starts again.
    CrashBefore,
    /// The operator dies after the call was done, before it hears of it, and starts again.
    CrashAfter,
    /// The server answers with this code and does nothing.
    Refuse {
        /// The HTTP status.
        code: u16,
    },
    /// The request is done, and the server answers with this code all the same.
    RefuseAfter {
        /// The HTTP status.
        code: u16,
    },
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// The request is done; the connection breaks before the answer arrives.
    LoseAnswer,
    /// Somebody else writes the object just before.
    ForeignWrite,
    /// The user's next step happens just before.
    StepFirst,
    /// The operator stands still for this long, then goes on with what it was about to do.
    Freeze {
        /// Virtual seconds.
        seconds: u64,
    },
    /// The call takes this long to arrive; the operator goes on with other things.
    Slow {
        /// Virtual seconds.
        seconds: u64,
    },
    /// A read that any version may answer (`resourceVersion=0`) shows the state of this many changes ago.
    StaleRead {
        /// Changes of the store.
        changes: u64,
    },
    /// The operator dies after the call was done; its next start is shown the state of this many changes ago.
    RestartBack {
        /// Changes of the store.
        changes: u64,
    },
    /// The operator dies; its next start is shown the state just before the user's step of this number.
    RestartBeforeStep {
        /// Counted from 1.
        step: usize,
    },
    /// The operator dies; its next start is shown the state of one resource as it was just before the user's step of this
    /// number, and all others as they are.
    RestartOldOf {
        /// `configmaps`, `pages.demo.dev`.
        resource: String,
        /// Counted from 1.
        step: usize,
    },
    /// The operator dies; the machine it starts on again has a clock that is wrong by this much.
    RestartSkewed {
        /// Virtual seconds; negative when the clock is behind.
        seconds: i64,
    },
    /// The clock of the running operator is set forward, or back.
    JumpClock {
        /// Virtual seconds; negative when it is set back.
        seconds: i64,
    },
    /// The watch stays silent from this event on until this many more writes were done.
    Hold {
        /// Writes by anybody.
        writes: u64,
    },
    /// The watch stays silent from this event on for this long.
    Delay {
        /// Virtual seconds.
        seconds: u64,
    },
    /// The watch breaks off before this event.
    Cut,
    /// The watch ends with 410 before this event: history is gone.
    Expire,
    /// The watch ends with 410 before this event, and those that follow it do so at once for this long: writes are so many that
    /// history is gone before it can be read.
    ExpireAgain {
        /// Virtual seconds.
        seconds: u64,
    },
    /// The watch stays silent until the object changes again and then ends with 410: the state in between is never seen.
    Coalesce,
    /// The operator is down while the user's next step happens.
    Down,
    /// Somebody deletes an object that the operator made.
    DeleteChild {
        /// Resource, namespace and name.
        object: String,
    },
    /// The object that is there from the start is created only after everything has come to rest without it.
    Postpone {
        /// The number of the given object, counted from 1.
        given: usize,
    },
    /// The user's next step and the one after it change places.
    SwapSteps,
    /// The answer shows the state before this many changes of the world outside.
    StaleOutside {
        /// Changes outside.
        changes: usize,
    },
    /// The outside API does the call twice, as when a proxy sends it again.
    Twice,
    /// Somebody undoes the last changes of the world outside.
    Drift {
        /// Changes outside.
        changes: usize,
    },
}

impl Fault {
    /// What it is, for people.
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
            Self::Freeze { seconds } => format!("the operator stands still for {seconds}s"),
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
            Self::Cut => "the watch breaks off".to_owned(),
            Self::Expire => "the watch ends with 410 Expired".to_owned(),
            Self::ExpireAgain { seconds } => {
                format!("the watch ends with 410 Expired, and so do those that follow it for {seconds}s")
            }
            Self::Coalesce => "the watch misses this state".to_owned(),
            Self::Down => "the operator is down during the next step".to_owned(),
            Self::DeleteChild { object } => format!("somebody deletes {object}"),
            Self::Postpone { given } => format!("given object {given} is created last"),
            Self::SwapSteps => "the next two steps change places".to_owned(),
            Self::StaleRead { changes } => {
                format!("answered from a cache that is {changes} change(s) behind")
            }
            Self::StaleOutside { changes } => format!("the answer is {changes} change(s) old"),
            Self::Twice => "done twice outside".to_owned(),
            Self::Drift { changes } => format!("somebody undoes the last {changes} change(s) outside"),
        }
    }

    /// Faults that do less, which a shorter story would tell with.
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
