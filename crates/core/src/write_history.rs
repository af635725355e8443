//! Types for what an API server and an operator report about one object: who wrote it, and what was done about it. They
//! contain only data, in the form in which it is sent.
//!
//! **Invariant:** the sender has checked that the receiver may read the object, and every other object of which more
//! than its name is included.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::Record;
use crate::{FieldDiff, Key, Revision};

/// The user under which the server's own writes are recorded.
pub const SERVER_USER: &str = "system:apiserver";

/// One write that a server received, or performed itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteRecord {
    /// When the response was sent.
    pub at: Timestamp,
    /// Who sent it.
    pub user: String,
    /// The program that sent it.
    pub agent: String,
    /// `create`, `update`, `patch`, `apply`, `delete`.
    pub verb: String,
    /// What was written.
    pub target: Key,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// Its field manager; empty if it did not name one.
    pub manager: String,
    /// The revision it replaced; `None` for a new object.
    pub before: Option<Revision>,
    /// The revision it created; `None` if the object is gone or the write was refused.
    pub after: Option<Revision>,
    /// What it changed.
    pub diff: FieldDiff,
    /// Why it was refused, if it was.
    pub refusal: Option<Refusal>,
}

/// A field that writers keep changing back and forth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldFight {
    /// The object.
    pub target: Key,
    /// The field: `spec.replicas`.
    pub path: String,
    /// Who changes it: field managers, or programs that do not name one.
    pub writers: Vec<String>,
    /// How often one of them undid what another had written.
    pub reverts: u32,
    /// The first of these writes.
    pub since: Timestamp,
}

/// Why a server refused a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The server's message.
    pub message: String,
}

/// The records of what one operator did about one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorJournal {
    /// The operator.
    pub operator: String,
    /// What it did, oldest first.
    pub records: Vec<Record>,
    /// Before this time, only the last changes and failures are known; `None` if nothing was dropped.
    pub since: Option<Timestamp>,
    /// How many records about any object were dropped.
    pub dropped: u64,
    /// When the operator started: its journal is kept in memory and begins there.
    #[serde(default)]
    pub started: Option<Timestamp>,
}

/// The facts that a server has about one object besides the object itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectHistory {
    /// Writes to it, oldest first.
    pub writes: Vec<WriteRecord>,
    /// The time before which writes are not known.
    pub since: Option<Timestamp>,
    /// How many writes to any object were dropped.
    pub dropped: u64,
    /// When the server started: the history is kept in memory and begins there.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// What the operators in the server's process did about it.
    pub operators: Vec<OperatorJournal>,
}
