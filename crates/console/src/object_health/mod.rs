//! The state of an object, from its own status: one file per family of kinds, and `conventions` for all others.
//!
//! **Invariant:** the result depends on the object alone. The page, which has a clock, decides whether something takes
//! too long.

mod conventions;
mod pods;
mod workloads;

use serde_json::Value;

use crate::field::{milliseconds, seconds};
use crate::kinds::WatchedKind;

/// How an object is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectHealth {
    /// Its status does not say.
    Unknown,
    /// As desired.
    Good,
    /// In progress; stuck if that takes too long.
    Waiting,
    /// Something is wrong.
    Bad,
}

impl ObjectHealth {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Good => "good",
            Self::Waiting => "wait",
            Self::Bad => "bad",
        }
    }
}

/// How an object is doing, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateSummary {
    pub(crate) state: ObjectHealth,
    /// A few words: `2/3 ready`.
    pub(crate) words: String,
    /// Why it is not good.
    pub(crate) cause: String,
    /// When that began, in seconds since 1970; 0 if unknown.
    pub(crate) since: i64,
    /// When it lapses, in milliseconds since 1970; 0 if it does not.
    pub(crate) lapses: i64,
}

impl StateSummary {
    fn new(state: ObjectHealth, words: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { state, words: words.into(), cause: cause.into(), since: 0, lapses: 0 }
    }

    fn unknown() -> Self {
        Self::new(ObjectHealth::Unknown, "", "")
    }

    fn good(words: impl Into<String>) -> Self {
        Self::new(ObjectHealth::Good, words, "")
    }

    fn waiting(words: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(ObjectHealth::Waiting, words, cause)
    }

    fn bad(words: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(ObjectHealth::Bad, words, cause)
    }

    fn since(self, since: i64) -> Self {
        Self { since, ..self }
    }
}

/// Judges an object by its own status.
pub(crate) fn judge_object(kind: &WatchedKind, object: &Value) -> StateSummary {
    if let Some(deleting) = judge_deletion(object) {
        return deleting;
    }
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") => pods::judge_pod(object),
        ("apps", "deployments" | "replicasets" | "statefulsets") => workloads::judge_replicas(object),
        ("apps", "daemonsets") => workloads::judge_daemon_set(object),
        ("batch", "jobs") => workloads::judge_job(object),
        ("coordination.k8s.io", "leases") => judge_lease(object),
        _ => conventions::judge(object),
    }
}

/// Judges an object that is being deleted, and says what it waits for.
fn judge_deletion(object: &Value) -> Option<StateSummary> {
    let meta = &object["metadata"];
    let since = seconds(&meta["deletionTimestamp"]);
    if since == 0 {
        return None;
    }
    let finalizers: Vec<&str> =
        meta["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let remains = conditions.filter(|one| one["status"] == "True").find(|one| {
        one["type"] == "NamespaceContentRemaining" || one["type"] == "NamespaceFinalizersRemaining"
    });
    let cause = match (remains, finalizers.as_slice()) {
        (Some(condition), _) => condition["message"].as_str().unwrap_or_default().to_owned(),
        (None, []) => "it is being deleted and waits for its processes to end".to_owned(),
        (None, names) => {
            format!("it is being deleted and waits for {} to remove the finalizer", names.join(", "))
        }
    };
    Some(StateSummary::waiting("deleting", cause).since(since))
}

/// Judges a Lease, which is held until its term ends.
fn judge_lease(object: &Value) -> StateSummary {
    let spec = &object["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let (renewed, term) = (milliseconds(&spec["renewTime"]), spec["leaseDurationSeconds"].as_i64());
    let Some(term) = term.filter(|_| renewed > 0 && !holder.is_empty()) else {
        return StateSummary::unknown();
    };
    let cause = format!("the lease has lapsed: {holder} does not renew it");
    StateSummary { lapses: renewed + term * 1000, cause, ..StateSummary::good(format!("held by {holder}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    pub(super) fn check(id: &str, object: &Value, expected: &str) {
        let (group, resource) = id.split_once('/').unwrap_or(("", id));
        let kind = WatchedKind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            kind: String::new(),
            is_namespaced: true,
        };
        let StateSummary { state, words, cause, .. } = judge_object(&kind, object);
        assert_eq!(format!("{} | {words} | {cause}", state.name()), expected);
    }

    #[test]
    fn what_a_deletion_waits_for_is_named() {
        let meta = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.dev/x", "b.dev/y"]});
        check(
            "configmaps",
            &json!({"metadata": meta}),
            "wait | deleting | it is being deleted and waits for a.dev/x, b.dev/y to remove the finalizer",
        );
    }

    #[test]
    fn a_lease_lapses_with_its_term() {
        let lease = json!({"spec": {"holderIdentity": "a", "renewTime": "1970-01-01T00:00:10.000000Z", "leaseDurationSeconds": 15}});
        assert_eq!(judge_lease(&lease).lapses, 25_000);
        assert_eq!(judge_lease(&json!({"spec": {}})).state, ObjectHealth::Unknown);
    }
}
