//! The status is collected while the reconciler runs, and written once at the end, only if it has changed.
//!
//! Only the reconciler's own changes are written (`change`), not its copy of the status: others may write the same
//! status, even while a draft is being prepared. `change` omits the entries of other writers; `json_patch` builds a
//! patch that touches nothing else, and `send` sends it. A terminal fault, a panic and a lasting failure are written as
//! the condition `Reconciled`, which the next success removes.

use std::sync::{Arc, MutexGuard, PoisonError};

use homeostat_core::journal::{Verb, WriteOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod change;
mod diff;
mod json_patch;
mod send;

pub(crate) use change::StatusChange;
pub(super) use json_patch::StatusBasis;
pub(super) use send::StatusWriteOutcome;

use super::condition::condition;
use super::{Context, ReconcileRun, failure_report};
use crate::error::Error;
use crate::fault::Fault;
use crate::json_diff::without_nulls;
use crate::kind::Kind;
use crate::kind::object::Object;
use crate::rights::declared_writes::WriteVerb;
use crate::shared::last_applied::{AppliedFingerprint, status_key};

/// The condition that the runtime itself maintains.
pub(super) const RECONCILED: &str = "Reconciled";

/// The status to be written.
#[derive(Default)]
pub(super) struct StatusDraft {
    status: Option<EditedStatus>,
    conditions: Vec<Condition>,
    /// Whether the kind's status has no `observedGeneration` (Jobs, CronJobs), so that the server would drop it every
    /// time.
    is_unobserved: bool,
    /// Whether the run did not finish, so that the absence of an error does not prove success.
    is_inconclusive: bool,
}

/// A status and the one it was derived from.
struct EditedStatus {
    base: Value,
    /// The defaults of the type, if there was no status.
    defaults: Value,
    now: Value,
}

impl StatusDraft {
    fn is_empty(&self) -> bool {
        self.status.is_none() && self.conditions.is_empty()
    }
}

impl<K: Kind> Context<K> {
    /// Changes the status. It is written once, after the reconciler has returned, and only if it has changed.
    pub fn status(&self, change: impl FnOnce(&mut K::Status))
    where
        K: HasStatus,
        K::Status: Serialize + DeserializeOwned + Default,
    {
        let mut draft = self.run.draft();
        let edited = draft.status.take();
        let edited = edited.unwrap_or_else(|| self.run.unedited(|| json_of(&K::Status::default())));
        let mut status: K::Status = serde_json::from_value(edited.now).unwrap_or_default();
        change(&mut status);
        draft.is_unobserved = !observes_generation::<K::Status>();
        draft.status = Some(EditedStatus { now: json_of(&status), ..edited });
    }

    /// Replaces the status, for types that do not name theirs (k8s-openapi's). It is written like
    /// [`status`](Self::status): fields of the status that the reconciler was called with and that the new one leaves
    /// out are removed; fields that others have added since are kept.
    pub fn replace_status<S: Serialize + DeserializeOwned>(&self, status: &S) {
        self.run.replace_status(json_of(status), observes_generation::<S>());
    }

    /// Sets a condition in the status: `cx.condition(condition("Ready", true, "Up", "all replicas are up"))`.
    pub fn condition(&self, condition: Condition) {
        self.run.condition(condition);
    }
}

impl ReconcileRun {
    fn draft(&self) -> MutexGuard<'_, StatusDraft> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace_status(&self, now: Value, is_observed: bool) {
        let mut draft = self.draft();
        let edited = draft.status.take().unwrap_or_else(|| {
            let base = status_of(&*self.handled());
            EditedStatus { base, defaults: Value::Null, now: Value::Null }
        });
        draft.is_unobserved = !is_observed;
        draft.status = Some(EditedStatus { now, ..edited });
    }

    /// Sets a condition in the status.
    pub(crate) fn condition(&self, condition: Condition) {
        let mut draft = self.draft();
        draft.conditions.retain(|other| other.type_ != condition.type_);
        draft.conditions.push(condition);
    }

    /// Keeps the status's report on earlier runs, because this run neither failed nor succeeded.
    pub(crate) fn withhold_verdict(&self) {
        self.draft().is_inconclusive = true;
    }

    /// Returns whether there is anything to write.
    pub(crate) fn has_draft(&self) -> bool {
        !self.draft().is_empty()
    }

    /// Sets one field of the status, even if its type does not have it.
    pub(crate) fn set_status_field(&self, name: &str, value: Value) {
        let mut draft = self.draft();
        let mut edited = draft.status.take().unwrap_or_else(|| self.unedited(|| Value::Null));
        if !edited.now.is_object() {
            edited.now = json!({});
        }
        edited.now[name] = value;
        draft.status = Some(edited);
    }

    /// Returns the last known status.
    fn unedited(&self, defaults: impl FnOnce() -> Value) -> EditedStatus {
        let base = status_of(&*self.newest());
        let defaults = if base.is_null() { defaults() } else { Value::Null };
        EditedStatus { now: base.clone(), defaults, base }
    }

    /// Returns the object from the reconciler's point of view: as it was passed in, or as its own last status write
    /// left it.
    fn handled(&self) -> Arc<Object> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.clone().unwrap_or_else(|| self.object.clone())
    }

    /// Returns the newest known state of the object: a context may outlive many states.
    pub(super) fn newest(&self) -> Arc<Object> {
        let newest = self.controller.cache.get(&self.key);
        newest
            .filter(|newest| newest.meta().uid == self.object.meta().uid)
            .unwrap_or_else(|| self.object.clone())
    }

    /// Writes the collected status and the fault's report.
    pub(crate) async fn write_status(&self, fault: Option<&Fault>) -> Result<(), Error> {
        match self.status_change(fault) {
            Some(change) => self.put_status(&change).await,
            None => Ok(()),
        }
    }

    /// Writes a status change, unless it was also the last one written and the object has not changed since: the server
    /// may have dropped fields that the kind does not have.
    pub(crate) async fn put_status(&self, change: &StatusChange) -> Result<(), Error> {
        let (controller, newest) = (&self.controller, self.newest());
        let memo_key = status_key(&self.key);
        let words = json!(change);
        if controller.last_applied.was_written(&memo_key, AppliedFingerprint::new(&words, newest.revision()))
        {
            return Ok(());
        }
        controller.operator.declared.warn_unless_declared(self.info(), WriteVerb::PatchStatus);
        let (known, decode) = (snapshot(&*newest), self.info().decode);
        let (object, diff) =
            match controller.change_status(&self.key, &self.claim, change, known, decode).await? {
                StatusWriteOutcome::Done(object, diff) => (object, diff),
                StatusWriteOutcome::Already | StatusWriteOutcome::Gone => return Ok(()),
            };
        let revision = object.revision();
        self.note_diff(Verb::Status, &self.key, WriteOutcome::Done { revision: Some(revision) }, diff);
        controller.last_applied.set(memo_key, AppliedFingerprint::new(&words, revision), None);
        controller.cache.wrote(object.clone(), self.writer());
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(object);
        Ok(())
    }

    /// Returns the collected status and the fault's report as a status change; `None` if the object already has this
    /// status.
    pub(crate) fn status_change(&self, fault: Option<&Fault>) -> Option<StatusChange> {
        let mut draft = std::mem::take(&mut *self.draft());
        let word = fault.and_then(|fault| self.reason_for(fault));
        if draft.is_empty() && word.is_none() && !self.may_say_failed {
            return None;
        }
        let known = snapshot(&*self.newest());
        if fault.is_some() || !draft.is_inconclusive {
            draft.conditions.extend(condition_after_run(&known.status, fault, word));
        }
        if draft.is_empty() {
            return None;
        }
        let mut change = match &draft.status {
            Some(EditedStatus { base, defaults, now }) => StatusChange::between(base, now, defaults),
            None => StatusChange::default(),
        };
        let generation = self.object.meta().generation;
        for condition in draft.conditions {
            change.set_condition(&Condition { observed_generation: generation, ..condition });
        }
        if generation.is_some() && !draft.is_unobserved {
            change.set("observedGeneration", json!(generation));
        }
        (!change.operations(&known, self.now()).is_empty()).then_some(change)
    }

    /// Returns the reason under which the status reports a fault, if it does: for Kubernetes' own kinds only terminal
    /// faults are reported, and only if the controller has declared that it writes the status.
    fn reason_for(&self, fault: &Fault) -> Option<&'static str> {
        let controller = &self.controller;
        let is_ours_to_say = (fault.is_terminal() || self.info().is_custom) && controller.may_write_status();
        failure_report::name_of_failure(fault, self.failures)
            .filter(|_| is_ours_to_say)
            .map(|name| name.condition)
    }
}

/// Returns the status of an object according to its type; null if there is none.
fn status_of(object: &Object) -> Value {
    let mut object = object.to_json().unwrap_or_default();
    without_nulls(object.get_mut("status").map(Value::take).unwrap_or_default())
}

/// Returns an object as it is in the cache.
fn snapshot(object: &Object) -> StatusBasis {
    let meta = object.meta();
    let (uid, resource_version) = (meta.uid.clone(), meta.resource_version.clone());
    StatusBasis { uid, resource_version, status: status_of(object), is_whole: false }
}

/// Returns a status as JSON; unset fields are omitted.
fn json_of(status: &impl Serialize) -> Value {
    without_nulls(serde_json::to_value(status).unwrap_or_default())
}

/// Returns whether this type of status keeps an `observedGeneration`.
fn observes_generation<S: Serialize + DeserializeOwned>() -> bool {
    let status = serde_json::from_str::<S>(r#"{"observedGeneration":1}"#);
    // A type with its own required fields belongs to a custom kind: it declares the standard fields with
    // `StandardStatus`.
    status.map_or(true, |status| json!(status)["observedGeneration"] == 1)
}

/// Returns the condition that follows from the result of the run, if that differs from the status.
fn condition_after_run(status: &Value, fault: Option<&Fault>, word: Option<&str>) -> Option<Condition> {
    let was_false = status["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one["type"] == RECONCILED && one["status"] == "False"));
    match (fault, word) {
        (Some(fault), Some(word)) => Some(condition(RECONCILED, false, word, fault.chain())),
        (None, _) if was_false => Some(condition(RECONCILED, true, "Succeeded", "")),
        _ => None,
    }
}
