//! The state of an object in which no rule finds anything wrong: healthy if there is evidence of it, otherwise what it
//! waits for, otherwise that nothing is known.
//!
//! One file per family of kinds. **Invariant:** an object is called healthy only on evidence: its status, or the end of
//! its controller's last run. The absence of complaints is not evidence.

mod cluster;
mod network;
mod other;
mod pods;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

pub(crate) use network::ready_endpoints;
pub(crate) use pods::pending_claim;

use crate::evidence::{Evidence, SeenObject};
use crate::explanation::Health;
use crate::times;

/// The state of an object, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateDescription {
    pub(crate) health: Health,
    /// The end of a sentence that begins with the name of the object.
    pub(crate) text: String,
    /// Whether an object below may say more about it.
    pub(crate) depends_on_children: bool,
}

impl StateDescription {
    fn healthy(text: impl Into<String>) -> Self {
        Self { health: Health::Healthy, text: text.into(), depends_on_children: false }
    }

    fn waiting(text: impl Into<String>) -> Self {
        Self { health: Health::Waiting, text: text.into(), depends_on_children: false }
    }

    fn unknown(text: impl Into<String>) -> Self {
        Self { health: Health::Unknown, text: text.into(), depends_on_children: false }
    }

    fn until_children_are_ready(self) -> Self {
        Self { depends_on_children: true, ..self }
    }
}

/// Returns the state of an object.
pub(crate) fn assess(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    if let Some(since) = object.deleted_at() {
        return describe_deletion(evidence, object, since);
    }
    match (object.key.group(), object.key.resource()) {
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("", "replicationcontrollers") => workloads::assess_replicated(evidence, object),
        ("batch", "jobs") => workloads::assess_job(evidence, object),
        ("batch", "cronjobs") => workloads::assess_cron_job(evidence, object),
        ("", "pods") => pods::assess(evidence, object),
        ("", "persistentvolumeclaims") => storage::assess_claim(evidence, object),
        ("", "services") => network::assess_service(evidence, object),
        ("networking.k8s.io", "ingresses") => network::assess_ingress(object),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            cluster::assess_certificate_request(evidence, object)
        }
        ("coordination.k8s.io", "leases") => cluster::assess_lease(evidence, object),
        ("", "resourcequotas") => cluster::assess_quota(evidence, object),
        ("autoscaling", "horizontalpodautoscalers") => cluster::assess_autoscaler(evidence, object),
        _ => other::assess(evidence, object),
    }
}

/// Describes an object that is being deleted, with nothing known to hold it up.
fn describe_deletion(evidence: &Evidence, object: &SeenObject, since: jiff::Timestamp) -> StateDescription {
    let when = times::both(evidence.now, since);
    let deadline = object.deletion_deadline().filter(|deadline| *deadline > evidence.now);
    let rest = match deadline {
        Some(deadline) => {
            format!(" and has {} left to stop", times::length(evidence.now, deadline))
        }
        None => String::new(),
    };
    StateDescription::waiting(format!("is being deleted ({when}){rest}"))
}

/// Returns a state saying that no controller has processed the object, with its age.
fn unseen(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    let age =
        object.created_at().map(|at| format!(" since it was created {}", times::both(evidence.now, at)));
    let age = age.unwrap_or_default();
    StateDescription::unknown(format!("has not been looked at by any controller{age}: its status is empty"))
}
