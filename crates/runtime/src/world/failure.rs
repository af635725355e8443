//! Why a call to the outside failed, by what follows from it. Any error converts with `?` and may mean an outage, the
//! cautious reading: enough of them in a row, and a probe that fails too, and the engine stops asking.

use std::fmt;
use std::time::Duration;

use crate::fault::{BoxError, Fault, retry_after};

/// A failed call. Deliberately not an `Error` itself, so that every error converts into it.
#[derive(Debug)]
pub enum Failure {
    /// No answer, or one that says the API is unwell. Counts towards the circuit breaker.
    Unavailable(BoxError),
    /// The API asks to be left alone for a while: nothing is sent until then.
    Busy(Duration),
    /// `create` found the name taken.
    Exists,
    /// A clear no to this request: the API is well, the request is not.
    Refused(BoxError),
}

impl Failure {
    /// A clear no to this request.
    pub fn refused(error: impl Into<BoxError>) -> Self {
        Self::Refused(error.into())
    }

    /// Does it speak of the API and not of the request?
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
            // A lagging read showed no thing of this name: the next look will.
            Failure::Exists => "the name is taken outside".into(),
        }
    }
}
