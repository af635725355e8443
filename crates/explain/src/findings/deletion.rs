//! Deletion: who holds an object that should be gone, and why it is not released.

use super::Finding;
use super::journal::describe_current_failure;
use crate::evidence::{Evidence, SeenObject};
use crate::explanation::CauseCode;
use crate::leases::{lapsed_since, operator_of};
use crate::sentences::count_of;
use crate::times;

/// Finalizers that the server itself removes once all dependents of the object are gone.
const OF_SERVER: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Finalizers of the server that protect storage in use.
const OF_STORAGE: [&str; 2] = ["kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"];

/// How far past its deadline an object may be before that counts as a problem: nodes and servers need a moment.
const SLACK: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    evidence.below().filter_map(|object| find_in_object(evidence, object)).collect()
}

fn find_in_object(evidence: &Evidence, object: &SeenObject) -> Option<Finding> {
    let since = object.deleted_at()?;
    let when = times::both(evidence.now, since);
    let finalizers = object.value["metadata"]["finalizers"].as_array().into_iter().flatten();
    let names: Vec<&str> = finalizers.filter_map(|name| name.as_str()).collect();
    let Some(first) = names.iter().find(|name| !OF_SERVER.contains(name)).or(names.first()) else {
        return find_without_finalizers(evidence, object, &when);
    };
    let failure = describe_current_failure(evidence, &object.key);
    let who = match &failure {
        Some((text, _)) => format!(": it {text}"),
        None => describe_owner(evidence, object, first),
    };
    let text = format!("is being deleted ({when}) and waits for the finalizer {first}{who}");
    let next = failure.and_then(|(_, next)| next);
    Some(Finding::new(CauseCode::StuckFinalizer, &object.key, text).with_next(next))
}

fn find_without_finalizers(evidence: &Evidence, object: &SeenObject, when: &str) -> Option<Finding> {
    if object.is_a("", "namespaces") {
        return Some(find_in_namespace(object, when));
    }
    let deadline = object.deletion_deadline()?;
    let late = evidence.now.duration_since(deadline);
    if !object.is_a("", "pods") || late <= SLACK {
        return None;
    }
    let node = object.value["spec"]["nodeName"].as_str().unwrap_or_default();
    let seen = evidence.find_related("nodes", "", node);
    let is_ready = seen
        .is_some_and(|node| node.conditions().any(|one| one["type"] == "Ready" && one["status"] == "True"));
    let node = match seen {
        _ if node.is_empty() => "it is on no node".to_owned(),
        None => format!("its node {node} has not reported that it stopped"),
        Some(_) if is_ready => format!("its node {node} is Ready and has not reported that it stopped"),
        Some(_) => format!("its node {node} is not Ready, so nobody stops it"),
    };
    let text = format!("should be gone for {}: {node}", times::length(deadline, evidence.now));
    Some(Finding::new(CauseCode::StuckDeletion, &object.key, text))
}

/// Finds what is left in a namespace, from the conditions that the server writes.
fn find_in_namespace(namespace: &SeenObject, when: &str) -> Finding {
    let message = |kind: &str| {
        let mut conditions = namespace.conditions();
        let one = conditions.find(|one| one["type"] == kind && one["status"] == "True")?;
        one["message"].as_str().filter(|message| !message.is_empty())
    };
    let failures = [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
    ];
    let mut words: Vec<String> = failures.into_iter().filter_map(message).map(str::to_owned).collect();
    // The server prefixes its lists with a sentence.
    for (kind, title) in
        [("NamespaceFinalizersRemaining", "finalizers"), ("NamespaceContentRemaining", "left")]
    {
        let list = message(kind).map(|text| text.split_once(": ").map_or(text, |(_, list)| list));
        words.extend(list.map(|list| format!("{title}: {list}")));
    }
    let words = if words.is_empty() { "its contents are being deleted".to_owned() } else { words.join("; ") };
    let text = format!("is being deleted ({when}) and is not empty: {words}");
    Finding::new(CauseCode::StuckDeletion, &namespace.key, text)
}

/// Says who should remove a finalizer.
fn describe_owner(evidence: &Evidence, object: &SeenObject, finalizer: &str) -> String {
    if finalizer == "foregroundDeletion" {
        let blocking = evidence.below().filter(|other| owner_is_blocked(other, object.uid()));
        let names: Vec<String> = blocking.map(|other| evidence.name_of(&other.key)).collect();
        return match names.first() {
            Some(first) if names.len() == 1 => format!(" until {first} is gone"),
            Some(first) => {
                format!(" until {first} and {} are gone", count_of(names.len() - 1, "other object"))
            }
            None => ", which the server removes when everything that it owns is gone".to_owned(),
        };
    }
    if finalizer == "orphan" {
        return ", which the server removes when it has released everything that it owns".to_owned();
    }
    if OF_STORAGE.contains(&finalizer) {
        return ", which the server removes when nothing uses it any more".to_owned();
    }
    let owner = finalizer.split_once('/').map_or(finalizer, |(owner, _)| owner);
    if evidence.journals.iter().any(|journal| journal.operator == owner) {
        return format!(", which the operator {owner} should remove");
    }
    match evidence.leases.iter().find(|lease| operator_of(lease) == Some(owner)) {
        Some(lease) if lapsed_since(lease, evidence.now).is_some() => {
            format!(", which the operator {owner} should remove, and it is not running: its lease has lapsed")
        }
        Some(_) => format!(", which the operator {owner} should remove"),
        None => {
            format!(", which {owner} should remove; no operator of that name is known to be running here")
        }
    }
}

fn owner_is_blocked(object: &SeenObject, uid: &str) -> bool {
    let owners = object.value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
}
