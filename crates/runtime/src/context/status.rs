//! Status: collected while the reconciler runs, written once at the end, and only when it changed.
//!
//! It is a merge patch of the difference, so fields of other writers are left alone. A terminal fault, a panic and a
//! failure that lasts are written as the condition `Reconciled`, and taken back by the next success.

use std::sync::{Arc, PoisonError};

use homeostat_core::journal::{Verb, WriteOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::core::Request as Path;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::condition::{condition, merge};
use super::{Context, apply, tell};
use crate::contrast::{merge_patch, without_nulls};
use crate::error::Error;
use crate::fault::Fault;
use crate::kind::{Kind, revision_of};
use crate::talk::{Attempt, call};

/// The condition the runtime itself keeps.
pub(super) const RECONCILED: &str = "Reconciled";

/// The status as it shall be.
#[derive(Default)]
pub(super) struct Draft {
    status: Option<Value>,
    conditions: Vec<Condition>,
    /// The kind's status has no `observedGeneration` (Jobs, CronJobs): the server would drop it every time.
    is_unobserved: bool,
    /// The run came to no end: that it did not fail says nothing.
    is_inconclusive: bool,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.status.is_none() && self.conditions.is_empty()
    }
}

impl<K: Kind> Context<K> {
    /// Changes the status. It is written once, after the reconciler returned, and only if it differs.
    pub fn status(&self, change: impl FnOnce(&mut K::Status))
    where
        K: HasStatus,
        K::Status: Serialize + DeserializeOwned + Default,
    {
        let mut draft = self.0.draft.lock().unwrap_or_else(PoisonError::into_inner);
        let current = draft.status.take().unwrap_or_else(|| self.current_status());
        let mut status: K::Status = serde_json::from_value(current).unwrap_or_default();
        change(&mut status);
        draft.is_unobserved = !observes_generation::<K::Status>();
        draft.status = serde_json::to_value(status).ok().map(without_nulls);
    }

    /// Replaces the status, for types that do not name theirs (k8s-openapi's). Written like [`status`](Self::status).
    pub fn replace_status<S: Serialize + DeserializeOwned>(&self, status: &S) {
        let mut draft = self.0.draft.lock().unwrap_or_else(PoisonError::into_inner);
        draft.is_unobserved = !observes_generation::<S>();
        draft.status = serde_json::to_value(status).ok().map(without_nulls);
    }

    /// Sets a condition in the status: `cx.condition(condition("Ready", true, "Up", "all replicas are up"))`.
    pub fn condition(&self, condition: Condition) {
        let mut draft = self.0.draft.lock().unwrap_or_else(PoisonError::into_inner);
        draft.conditions.retain(|other| other.type_ != condition.type_);
        draft.conditions.push(condition);
    }

    /// This run neither failed nor succeeded: what the status says about former ones stays.
    pub(crate) fn withhold_verdict(&self) {
        self.0.draft.lock().unwrap_or_else(PoisonError::into_inner).is_inconclusive = true;
    }

    /// Is there something to be written?
    pub(crate) fn has_draft(&self) -> bool {
        !self.0.draft.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sets one field of the status, whatever its type knows of it.
    pub(crate) fn set_status_field(&self, name: &str, value: Value) {
        let mut draft = self.0.draft.lock().unwrap_or_else(PoisonError::into_inner);
        let mut status = draft.status.take().unwrap_or_else(|| self.current_status());
        if !status.is_object() {
            status = json!({});
        }
        status[name] = value;
        draft.status = Some(status);
    }

    /// The newest state of the object that is known here: a context may outlive many.
    fn newest(&self) -> Arc<K> {
        let newest = self.0.engine.cache.get(&self.0.key);
        newest
            .filter(|newest| newest.meta().uid == self.0.object.meta().uid)
            .unwrap_or_else(|| self.0.object.clone())
    }

    fn current_status(&self) -> Value {
        let mut object = serde_json::to_value(&*self.newest()).unwrap_or_default();
        object.get_mut("status").map(Value::take).unwrap_or_default()
    }

    /// Writes what was collected, and what the fault adds to it.
    pub(crate) async fn write_status(&self, fault: Option<&Fault>) -> Result<(), Error> {
        match self.status_patch(fault) {
            Some(patch) => self.put_status(&patch).await,
            None => Ok(()),
        }
    }

    /// Writes a patch of the status, unless it was the last one written.
    pub(crate) async fn put_status(&self, patch: &Value) -> Result<(), Error> {
        let applied = apply::fingerprint(patch, revision_of(&*self.newest()));
        let memo_key = apply::status_key(&self.0.key);
        if self.0.engine.memo.is(&memo_key, applied) {
            return Ok(());
        }
        match self.send_status(patch).await {
            // The kind has no status, or the object went away under us.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(object) => {
                let revision = revision_of(&object);
                self.note(Verb::Status, &self.0.key, WriteOutcome::Done { revision: Some(revision) });
                self.0.engine.memo.set(memo_key, apply::fingerprint(patch, revision), None);
                self.0.engine.cache.wrote(object, self.writer());
                Ok(())
            }
        }
    }

    /// The merge patch from the status that is to what was collected and what the fault adds to it.
    pub(crate) fn status_patch(&self, fault: Option<&Fault>) -> Option<Value> {
        let mut draft = std::mem::take(&mut *self.0.draft.lock().unwrap_or_else(PoisonError::into_inner));
        let word = fault.and_then(|fault| self.word(fault));
        if draft.is_empty() && word.is_none() && !self.0.may_be_condemned {
            return None;
        }
        let old = self.current_status();
        if fault.is_some() || !draft.is_inconclusive {
            draft.conditions.extend(verdict(&old, fault, word));
        }
        if draft.is_empty() {
            return None;
        }
        let is_observed = !draft.is_unobserved;
        let mut new = draft.status.unwrap_or_else(|| old.clone());
        let generation = self.0.object.meta().generation;
        merge_conditions(&mut new, draft.conditions, generation, self.now());
        if generation.is_some() && is_observed {
            new["observedGeneration"] = json!(generation);
        }
        merge_patch(&old, &new)
    }

    /// The reason under which the status tells of a fault, if it does: of Kubernetes' own kinds only the terminal ones.
    fn word(&self, fault: &Fault) -> Option<&'static str> {
        let is_ours_to_say = fault.is_terminal() || self.0.engine.is_custom;
        tell::name(fault, self.0.failures).filter(|_| is_ours_to_say).map(|name| name.condition)
    }

    async fn send_status(&self, patch: &Value) -> Result<K, Error> {
        self.admitted(&self.0.key)?;
        let url = Path::new(K::url_path(&(), self.0.object.meta().namespace.as_deref()));
        let body = json!({"metadata": {"uid": self.0.object.meta().uid}, "status": patch});
        let params = PatchParams {
            field_manager: Some(self.0.engine.ground.name.to_string()),
            ..PatchParams::default()
        };
        let request = url.patch_subresource("status", self.0.key.name(), &params, &Patch::Merge(body));
        let attempt = Attempt { verb: "write the status of", target: self.0.key.as_str() };
        let _writing = self.0.engine.cache.writing(&self.0.key, self.writer());
        let answer = call(&self.0.engine.ground.client, attempt, request).await;
        match answer {
            Err(error) if error.is_not_found() => Err(error),
            answer => self.noting_failure(Verb::Status, &self.0.key, answer),
        }
    }
}

/// Does this type of status keep an `observedGeneration`?
fn observes_generation<S: Serialize + DeserializeOwned>() -> bool {
    let status = serde_json::from_value::<S>(json!({"observedGeneration": 1}));
    // A type with required fields of its own is a custom kind's: it says with `StatusBase` what it keeps.
    status.map_or(true, |status| json!(status)["observedGeneration"] == 1)
}

/// What the end of the run says about the object, where that differs from what its status says.
fn verdict(status: &Value, fault: Option<&Fault>, word: Option<&str>) -> Option<Condition> {
    let was_false = status["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one["type"] == RECONCILED && one["status"] == "False"));
    match (fault, word) {
        (Some(fault), Some(word)) => Some(condition(RECONCILED, false, word, fault.chain())),
        (None, _) if was_false => Some(condition(RECONCILED, true, "Succeeded", "")),
        _ => None,
    }
}

pub(super) fn merge_conditions(
    status: &mut Value,
    new: Vec<Condition>,
    generation: Option<i64>,
    now: jiff::Timestamp,
) {
    if new.is_empty() {
        return;
    }
    if !status.is_object() {
        *status = json!({});
    }
    let mut all: Vec<Condition> = serde_json::from_value(status["conditions"].take()).unwrap_or_default();
    for one in new {
        merge(&mut all, Condition { observed_generation: generation, ..one }, now);
    }
    status["conditions"] = json!(all);
}
