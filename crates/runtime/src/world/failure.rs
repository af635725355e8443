//! Classifies failed calls to an external API by their consequence. Any error converts with `?` and counts as a
//! possible outage: after enough of them in a row, and a probe that also fails, the calls stop.

use std::fmt;
use std::time::Duration;

use crate::error::BoxError;
use crate::fault::{Fault, retry_after};

/// A failed call. It is deliberately not an `Error` itself, so that every error converts into it.
#[derive(Debug)]
pub enum Failure {
    /// There was no response, or one that says the API is not healthy. This counts towards the circuit breaker.
    Unavailable(BoxError),
    /// The API asks for a pause; nothing is sent until it ends.
    Busy(Duration),
    /// `create` failed because the name is taken.
    Exists,
    /// The API clearly refused this request: the API is healthy, the request is wrong.
    Refused(BoxError),
}

impl Failure {
    /// Returns the failure of a request that the API clearly refused.
    pub fn refused(error: impl Into<BoxError>) -> Self {
        Self::Refused(error.into())
    }

    /// Returns whether it concerns the API rather than the request.
    pub(super) fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Unavailable(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) | Self::Refused(error) => error.fmt(f),
            Self::Busy(after) => write!(f, "busy for {after:?}"),
            Self::Exists => f.write_str("the name is taken"),
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(error) | Failure::Refused(error) => error.into(),
            Failure::Busy(after) => retry_after(after, "the API outside asks for a pause"),
            // A stale read did not show a resource with this name; the next read will.
            Failure::Exists => "the name is taken outside".into(),
        }
    }
}
