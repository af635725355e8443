//! Defines the action that a reconciler requests after it succeeded. An error carries no action, so there is no
//! question which of the two wins.

use std::time::Duration;

use crate::queue::Outcome;

/// When to reconcile the object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a reconciler returns its action"]
pub struct Action(Option<Duration>);

impl Action {
    /// Reconciles the object again when it, or something it depends on, changes.
    pub const fn await_change() -> Self {
        Self(None)
    }

    /// Reconciles the object again after this time, or earlier if something changes.
    pub const fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }

    /// Reconciles the object again at once, after the objects that are already waiting. This is rarely useful: it is a
    /// loop without a pause.
    pub const fn requeue_now() -> Self {
        Self(Some(Duration::ZERO))
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.0.map_or(Outcome::AwaitChange, Outcome::Requeue)
    }

    /// Returns whether the work is done, as far as the reconciler knows.
    pub(crate) fn is_settled(self) -> bool {
        self.0.is_none()
    }
}
