//! Asks the server for its history of an object, and operators for their journals.
//!
//! Our own server answers both for itself and for the controllers in its process. Other operators announce an address
//! in an annotation of a Lease.
//!
//! **Invariant:** the caller's token is sent to an address of this machine only, where a process of the caller's own user or of root
//! listens: anyone who may write Leases could announce any address, and must not collect tokens with it.

use homeostat_core::Key;
use homeostat_core::write_history::{ObjectHistory, OperatorJournal};
use homeostat_explain::Evidence;
use kube::Client;
use serde_json::Value;

use super::admin_client;
use super::api_reads::{self, AnswerForm};
use super::collect_evidence::Credentials;
use crate::election::ADDRESS_ANNOTATION;

/// The path of the server's history.
const HISTORY_PATH: &str = "/homeostat/history";

/// Objects whose history is requested.
const ASKED_MAX: usize = 25;

/// Adds the records of the server and the operators.
pub(super) async fn add(client: &Client, credentials: &Credentials, evidence: &mut Evidence) {
    let mut keys: Vec<Key> = evidence.objects.iter().map(|object| object.key.clone()).collect();
    if keys.is_empty() {
        keys.push(evidence.subject.clone());
    }
    keys.truncate(ASKED_MAX);
    add_history(client, &keys, evidence).await;
    for (operator, address) in announced(&evidence.leases) {
        match admin_client::load_journals(&address, credentials.token.as_deref(), &keys).await {
            Ok(journals) => merge(&mut evidence.journals, journals),
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

async fn add_history(client: &Client, keys: &[Key], evidence: &mut Evidence) {
    let mut dropped = None;
    for key in keys {
        let path = format!(
            "{HISTORY_PATH}?group={}&resource={}&namespace={}&name={}",
            key.group(),
            key.resource(),
            key.namespace(),
            key.name()
        );
        match api_reads::find::<ObjectHistory>(client, &path, AnswerForm::Json).await {
            Ok(Some(history)) => {
                dropped = history.since.filter(|_| history.dropped > 0).map(|since| (history.dropped, since));
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
    }
}

/// Returns the operators that announce an address, and where.
fn announced(leases: &[Value]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = leases
        .iter()
        .filter_map(|lease| {
            let address = lease["metadata"]["annotations"][ADDRESS_ANNOTATION].as_str()?;
            let name = lease["metadata"]["name"].as_str()?;
            Some((name.trim_end_matches("-admin").to_owned(), address.to_owned()))
        })
        .collect();
    found.dedup_by(|one, other| one.1 == other.1);
    found
}

/// Adds journals, joining those of one operator.
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
