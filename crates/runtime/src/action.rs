//! What a reconciler asks for when all went well. An error asks for nothing, so "the error wins" needs no rule.

use std::time::Duration;

use crate::queue::Outcome;

/// When the object is reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a reconciler returns its action"]
pub struct Action(Option<Duration>);

impl Action {
    /// When it, or something it depends on, changes.
    pub const fn await_change() -> Self {
        Self(None)
    }

    /// After this time, or earlier on a change.
    pub const fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }

    /// At once, behind the objects already waiting. Rarely what you want: it is a loop without a pause.
    pub const fn requeue_now() -> Self {
        Self(Some(Duration::ZERO))
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.0.map_or(Outcome::AwaitChange, Outcome::Requeue)
    }

    /// Is this the end of the work, as far as the reconciler knows?
    pub(crate) fn is_settled(self) -> bool {
        self.0.is_none()
    }
}
