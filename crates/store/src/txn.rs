//! A transaction consists of expectations about current revisions, and of the writes to perform if all of them hold.

use std::sync::Arc;

use homeostat_core::{Key, Revision};

use crate::{Entry, Value};

/// The condition that a key must meet at the time of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No expectation.
    Any,
    /// The key must be absent.
    Absent,
    /// The key must be at exactly this revision.
    At(Revision),
}

/// One write.
#[derive(Clone, Debug)]
pub enum Op {
    /// Store this value under the key.
    Put(Value),
    /// Remove the key. Deleting an absent key has no effect.
    Delete,
    /// Only check the expectation.
    Check,
}

/// A set of expectations and writes that happen together or not at all. A key appears at most once.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// The key, expectation and write of each step.
    pub steps: Vec<(Key, Expect, Op)>,
}

impl Txn {
    /// Creates a transaction with one write.
    pub fn one(key: Key, expect: Expect, op: Op) -> Self {
        Self { steps: vec![(key, expect, op)] }
    }
}

/// A commit that succeeded.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its revision.
    pub revision: Revision,
    /// For each step, the entry after it: `None` for deletions and checks.
    pub entries: Vec<Option<Arc<Entry>>>,
}
