//! What the operators of other processes did about one object, for one stream. The operators tell only viewers who may
//! get the object; `object_story` checks the records again.

use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::activity::{NotAnswered, OperatorAnswers};
use homeostat_core::journal::Record;
use homeostat_core::write_history::OperatorJournal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::repeated_question::{RepeatedQuestion, SharedAnswers};
use crate::viewer_operators::ViewerOperators;

/// The maximum number of records about an object to show; older ones are left out.
pub(crate) const RECORDS_MAX: usize = 400;

/// The journals of other processes about one object.
pub(crate) struct OtherJournals {
    question: RepeatedQuestion<OperatorJournal>,
    records: Vec<Record>,
    sent_silent: Vec<Value>,
}

impl OtherJournals {
    pub(crate) fn new(operators: Option<Arc<ViewerOperators>>, now: Instant) -> Self {
        Self { question: RepeatedQuestion::new(operators, now), records: Vec::new(), sent_silent: Vec::new() }
    }

    pub(crate) fn ask_if_due(&mut self, object: &Key, now: Instant) {
        self.question.ask_if_due(now, |operators| operators.journals(object.clone(), RECORDS_MAX));
    }

    /// Waits for the answers. Dropping it loses nothing.
    pub(crate) async fn answered(&mut self) -> SharedAnswers<OperatorJournal> {
        self.question.answered().await
    }

    /// Returns the records of the last answers.
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Takes the records about the object; returns whether they differ from those before.
    pub(crate) fn take(&mut self, object: &Key, answers: &OperatorAnswers<OperatorJournal>) -> bool {
        let told = answers.answers.iter().filter_map(|one| one.answer.as_ref().ok());
        let about = told.flat_map(|journal| &journal.records);
        let about = about.filter(|record| record.entry.object() == Some(object)).cloned();
        let mut records: Vec<Record> = about.collect();
        records.sort_by_key(|record| record.at);
        records.drain(..records.len().saturating_sub(RECORDS_MAX));
        let is_new = records != self.records;
        self.records = records;
        is_new
    }

    /// Returns the operators that did not answer; `None` if they were sent before.
    pub(crate) fn silent(&mut self, answers: &OperatorAnswers<OperatorJournal>) -> Option<Vec<Value>> {
        let silent = answers.answers.iter().filter_map(|one| {
            let NotAnswered { error, advice } = one.answer.as_ref().err()?;
            Some(json!({"operator": one.operator, "error": error, "advice": advice}))
        });
        let silent: Vec<Value> = silent.collect();
        (silent != self.sent_silent).then(|| {
            self.sent_silent.clone_from(&silent);
            silent
        })
    }
}
