//! A revision is the global, strictly increasing number of a commit.
//!
//! It is the `resourceVersion` of the API. Clients compare it numerically, so it is printed in plain decimal and
//! never as `0` for anything stored.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of a commit. It supports no arithmetic other than [`Revision::next`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(u64);

impl Revision {
    /// The revision before the first commit.
    pub const ZERO: Self = Self(0);

    /// Returns the revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the revision after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Revision {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
