//! Deletion: who holds an object that should be gone, and why it is not released.

use super::Finding;
use super::journal::describe_current_failure;
use crate::evidence::{Evidence, SeenObject};
use crate::explanation::CauseCode;
use crate::times;

/// Finalizers that the server itself removes, when everything that depends on the object is gone.
const OF_SERVER: [&str; 3] = ["foregroundDeletion", "orphan", "kubernetes"];

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    evidence.below().filter_map(|object| find_in_object(evidence, object)).collect()
}

fn find_in_object(evidence: &Evidence, object: &SeenObject) -> Option<Finding> {
    let since = object.deleted_at()?;
    let finalizers = object.value["metadata"]["finalizers"].as_array()?;
    let names: Vec<&str> = finalizers.iter().filter_map(|name| name.as_str()).collect();
    let first = *names.iter().find(|name| !OF_SERVER.contains(name)).or(names.first())?;
    let failure = describe_current_failure(evidence, &object.key);
    let who = match (&failure, responsible(evidence, first)) {
        (Some((text, _)), _) => format!(": {text}"),
        (None, FinalizerOwner::Server) => {
            ", which the server removes when everything that the object owns is gone".to_owned()
        }
        (None, FinalizerOwner::Known(operator)) => format!(", which the operator {operator} should remove"),
        (None, FinalizerOwner::Lapsed(operator)) => {
            format!(
                ", which the operator {operator} should remove, and it is not running: its lease has lapsed"
            )
        }
        (None, FinalizerOwner::Unknown(owner)) => {
            format!(", which {owner} should remove; no operator of that name is known to be running here")
        }
    };
    let when = times::both(evidence.now, since);
    let text = format!("is being deleted ({when}) and waits for the finalizer {first}{who}");
    let next = failure.and_then(|(_, next)| next);
    Some(Finding::new(CauseCode::StuckFinalizer, &object.key, text).with_next(next))
}

/// Who should remove a finalizer.
enum FinalizerOwner {
    Server,
    Known(String),
    Lapsed(String),
    Unknown(String),
}

fn responsible(evidence: &Evidence, finalizer: &str) -> FinalizerOwner {
    if OF_SERVER.contains(&finalizer) {
        return FinalizerOwner::Server;
    }
    let owner = finalizer.split_once('/').map_or(finalizer, |(owner, _)| owner);
    if let Some(journal) = evidence.journals.iter().find(|journal| journal.operator == owner) {
        return FinalizerOwner::Known(journal.operator.clone());
    }
    let lease = evidence.leases.iter().find(|lease| super::lease::operator_of(lease) == Some(owner));
    match lease {
        Some(lease) if super::lease::lapsed_since(lease, evidence.now).is_some() => {
            FinalizerOwner::Lapsed(owner.to_owned())
        }
        Some(_) => FinalizerOwner::Known(owner.to_owned()),
        None => FinalizerOwner::Unknown(owner.to_owned()),
    }
}
