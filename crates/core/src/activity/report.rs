//! What operators of other processes answer: data only, in the form in which it is sent.
//!
//! **Invariant:** whoever sends a report has checked that its reader may get every object that it names.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::OperatorActivity;

/// What one operator is doing, as far as the caller may know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActivityReport {
    /// The operator.
    pub operator: String,
    /// When its process started, which tells it from every other.
    pub started: Timestamp,
    /// What it is doing.
    pub activity: OperatorActivity,
    /// How many failing objects that the caller may get were left out.
    pub omitted: u64,
}

/// What the announced operators answered to one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperatorAnswers<T> {
    /// One for each operator that was asked.
    pub answers: Vec<OperatorAnswer<T>>,
    /// What is missing besides.
    pub notes: Vec<String>,
}

/// What one operator answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperatorAnswer<T> {
    /// The operator.
    pub operator: String,
    /// The answer, or why there is none.
    pub answer: Result<T, NotAnswered>,
}

/// Why an operator did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotAnswered {
    /// What happened.
    pub error: String,
    /// What to do about it.
    pub advice: String,
}

impl<T> Default for OperatorAnswers<T> {
    fn default() -> Self {
        Self { answers: Vec::new(), notes: Vec::new() }
    }
}
