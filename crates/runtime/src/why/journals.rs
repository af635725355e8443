//! Asks the server for its history of an object, and operators for their journals.
//!
//! Our own server answers both for itself and for the controllers in its process. Other operators announce an address
//! in a Lease annotation; `operator_request` says how they are queried, and with which token.

use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::write_history::{ObjectHistory, OperatorJournal};
use homeostat_explain::Evidence;
use jiff::Timestamp;
use kube::Client;
use tokio::time::timeout;

use super::announcement::{Announcement, announced};
use super::api_reads::{self, AnswerForm};
use super::ask_failure::AskFailure;
use super::collect_evidence::Credentials;
use super::operator_request::{PageRequest, journal_path, load_caller_token, load_page};
use super::served_kinds::escape;

/// The path of the server's history.
const HISTORY_PATH: &str = "/homeostat/history";

/// The maximum number of objects whose history is requested.
const ASKED_MAX: usize = 25;

/// How long one operator may take for all responses.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The same for requests that go through the server.
const PROXIED_ANSWER_MAX: Duration = Duration::from_secs(15);

/// The maximum number of bytes in one response: a whole ring, as JSON.
const JOURNAL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Adds the records of the server and the operators.
pub(super) async fn add(client: &Client, credentials: &Credentials, evidence: &mut Evidence) {
    let mut keys: Vec<Key> = evidence.objects.iter().map(|object| object.key.clone()).collect();
    if keys.is_empty() {
        keys.push(evidence.subject.clone());
    }
    keys.truncate(ASKED_MAX);
    add_history(client, &keys, evidence).await;
    for announcement in announced(&evidence.leases) {
        let operator = &announcement.operator;
        match load_journals(client, &announcement, credentials, &keys).await {
            Ok(journals) => {
                let started = journals.first().and_then(|journal| journal.started);
                let words = format!("the journal of the operator {operator}");
                evidence.gaps.extend(started.and_then(|started| describe_start(evidence, &words, started)));
                merge(&mut evidence.journals, journals);
            }
            Err(why) => evidence.gaps.push(format!("the operator {operator} was not asked: {why}")),
        }
    }
    for journal in &evidence.journals {
        if let Some(since) = journal.since.filter(|_| journal.dropped > 0) {
            evidence.gaps.push(format!(
                "the operator {} has dropped {} records before {since:.0}; of earlier ones only the last changes and failures \
                 of each object are kept",
                journal.operator, journal.dropped
            ));
        }
    }
}

/// Returns an operator's journal about each object.
async fn load_journals(
    client: &Client,
    announcement: &Announcement,
    credentials: &Credentials,
    keys: &[Key],
) -> Result<Vec<OperatorJournal>, AskFailure> {
    let answer_max = if announcement.pod.is_some() { PROXIED_ANSWER_MAX } else { ANSWER_MAX };
    let asked = async {
        let token = load_caller_token(client, announcement, credentials.token.as_deref()).await?;
        let mut journals = Vec::new();
        for key in keys {
            let page = PageRequest { path: &journal_path(key), bytes_max: JOURNAL_BYTES_MAX };
            let body = load_page(client, announcement, &token, page).await?;
            let journal = body.map(|body| serde_json::from_slice(&body)).transpose();
            journals.extend(journal.map_err(|error| AskFailure::Broken(error.to_string()))?);
        }
        Ok(journals)
    };
    timeout(answer_max, asked).await.unwrap_or(Err(AskFailure::Late(answer_max)))
}

async fn add_history(client: &Client, keys: &[Key], evidence: &mut Evidence) {
    let (mut dropped, mut started) = (None, None);
    for key in keys {
        let path = format!(
            "{HISTORY_PATH}?group={}&resource={}&namespace={}&name={}",
            escape(key.group()),
            escape(key.resource()),
            escape(key.namespace()),
            escape(key.name())
        );
        match api_reads::find::<ObjectHistory>(client, &path, AnswerForm::Json).await {
            Ok(Some(history)) => {
                dropped = history.since.filter(|_| history.dropped > 0).map(|since| (history.dropped, since));
                started = started.or(history.started);
                evidence.writes.extend(history.writes);
                merge(&mut evidence.journals, history.operators);
            }
            Ok(None) => {
                evidence
                    .gaps
                    .push("this server keeps no history of writes: who wrote what is not known".to_owned());
                return;
            }
            Err(error) => {
                evidence.gaps.push(error.to_string());
                return;
            }
        }
    }
    if let Some((count, since)) = dropped {
        evidence.gaps.push(format!("the server has dropped {count} writes before {since:.0}"));
    } else if let Some(started) = started {
        evidence.gaps.extend(describe_start(evidence, "the server's history of writes", started));
    }
}

/// Notes that a history begins when its process started, if the object may be older.
fn describe_start(evidence: &Evidence, what: &str, started: Timestamp) -> Option<String> {
    let created =
        evidence.subject().and_then(|object| object.value["metadata"]["creationTimestamp"].as_str());
    let created: Option<Timestamp> = created.and_then(|at| at.parse().ok());
    // Creation times are truncated to seconds.
    let is_younger = created.is_some_and(|created| created.as_second() >= started.as_second());
    (!is_younger)
        .then(|| format!("{what} begins with its start at {started:.0}; what was before is not known"))
}

/// Adds journals, merging those of the same operator.
fn merge(journals: &mut Vec<OperatorJournal>, more: Vec<OperatorJournal>) {
    for journal in more {
        match journals.iter_mut().find(|known| known.operator == journal.operator) {
            Some(known) => {
                known.records.extend(journal.records);
                known.records.sort_by_key(|record| record.at);
                (known.since, known.dropped) = (journal.since, journal.dropped);
            }
            None => journals.push(journal),
        }
    }
}
