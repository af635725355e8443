//! Asks the server for its history of an object, and operators for their journals.
//!
//! Our own server answers both for itself and for the controllers in its process. Other operators announce an address
//! in an annotation of a Lease; those in a cluster announce their Pod, and are asked through the API server.
//!
//! **Invariant:** operators get a token that is made for them alone, and opens nothing else. Only where the server issues
//! none, the caller's own token is sent, to an address of this machine where a process of the caller's own user or of
//! root listens: anyone who may write Leases could announce any address, and must not collect tokens with it.

use homeostat_core::Key;
use homeostat_core::write_history::{ObjectHistory, OperatorJournal};
use homeostat_explain::Evidence;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::api_reads::{self, AnswerForm};
use super::collect_evidence::Credentials;
use super::served_kinds::escape;
use super::{admin_client, pod_proxy};
use crate::admin_address::{ADDRESS_ANNOTATION, AdminPod, POD_ANNOTATION};

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
    for Announcement { operator, address, pod } in announced(&evidence.leases) {
        let asked = if let Some(pod) = &pod {
            pod_proxy::load_journals(client, pod, &keys).await
        } else {
            admin_client::load_journals(client, &address, credentials.token.as_deref(), &keys).await
        };
        match asked {
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

/// Says that a memory begins with the start of its process, if the object may be older.
fn describe_start(evidence: &Evidence, what: &str, started: Timestamp) -> Option<String> {
    let created =
        evidence.subject().and_then(|object| object.value["metadata"]["creationTimestamp"].as_str());
    let created: Option<Timestamp> = created.and_then(|at| at.parse().ok());
    // Creation times are cut to seconds.
    let is_younger = created.is_some_and(|created| created.as_second() >= started.as_second());
    (!is_younger)
        .then(|| format!("{what} begins with its start at {started:.0}; what was before is not known"))
}

/// An operator that can be asked.
#[derive(Debug, PartialEq, Eq)]
struct Announcement {
    operator: String,
    address: String,
    /// Where it runs in the cluster; then it is asked there.
    pod: Option<AdminPod>,
}

/// Returns the operators that announce themselves. A Pod is one in the namespace of its Lease.
fn announced(leases: &[Value]) -> Vec<Announcement> {
    let announcement = |lease: &Value| {
        let metadata = &lease["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        Some(Announcement {
            operator: metadata["name"].as_str()?.trim_end_matches("-admin").to_owned(),
            address: annotation(ADDRESS_ANNOTATION)?.to_owned(),
            pod: annotation(POD_ANNOTATION).and_then(|text| AdminPod::parse(namespace, text)),
        })
    };
    let mut found: Vec<Announcement> = leases.iter().filter_map(announcement).collect();
    found.dedup_by(|one, other| one.address == other.address && one.pod == other.pod);
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
