//! Status: collected while the reconciler runs, written once at the end, and only when it changed.
//!
//! What is written is what the reconciler itself changed (`change`), not the status it had in hand: others write the same
//! status, also between the first word of a draft and its end. `operations` makes a patch of it that touches nothing else,
//! `write` sends it. A terminal fault, a panic and a failure that lasts are written as the condition `Reconciled`, and
//! taken back by the next success.

use std::sync::{Arc, PoisonError};

use homeostat_core::journal::{Verb, WriteOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod change;
mod operations;
mod write;

pub(crate) use change::StatusChange;
pub(super) use operations::Snapshot;
pub(super) use write::Written;

use super::condition::condition;
use super::memo::{Applied, status_key};
use super::{Context, tell};
use crate::contrast::without_nulls;
use crate::declared::Deed;
use crate::error::Error;
use crate::fault::Fault;
use crate::kind::{Kind, revision_of};

/// The condition the runtime itself keeps.
pub(super) const RECONCILED: &str = "Reconciled";

/// The status as it should be.
#[derive(Default)]
pub(super) struct Draft {
    status: Option<Edited>,
    conditions: Vec<Condition>,
    /// The kind's status has no `observedGeneration` (Jobs, CronJobs): the server would drop it every time.
    is_unobserved: bool,
    /// The run came to no end: that it did not fail says nothing.
    is_inconclusive: bool,
}

/// A status and what it was made from.
struct Edited {
    base: Value,
    /// What the type says of itself where there was no status.
    defaults: Value,
    now: Value,
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
        let edited = draft.status.take().unwrap_or_else(|| self.unedited(K::Status::default()));
        let mut status: K::Status = serde_json::from_value(edited.now).unwrap_or_default();
        change(&mut status);
        draft.is_unobserved = !observes_generation::<K::Status>();
        draft.status = Some(Edited { now: json_of(&status), ..edited });
    }

    /// Replaces the status, for types that do not name theirs (k8s-openapi's). Written like [`status`](Self::status): of the
    /// status that the reconciler was called with, what the new one leaves out goes; what others have added since stays.
    pub fn replace_status<S: Serialize + DeserializeOwned>(&self, status: &S) {
        let mut draft = self.0.draft.lock().unwrap_or_else(PoisonError::into_inner);
        let edited = draft.status.take().unwrap_or_else(|| {
            let base = status_of(&*self.handled());
            Edited { base, defaults: Value::Null, now: Value::Null }
        });
        draft.is_unobserved = !observes_generation::<S>();
        draft.status = Some(Edited { now: json_of(status), ..edited });
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
        let mut edited = draft.status.take().unwrap_or_else(|| self.unedited(Value::Null));
        if !edited.now.is_object() {
            edited.now = json!({});
        }
        edited.now[name] = value;
        draft.status = Some(edited);
    }

    /// The status as it is known now.
    fn unedited(&self, defaults: impl Serialize) -> Edited {
        let base = status_of(&*self.newest());
        let defaults = if base.is_null() { json_of(&defaults) } else { Value::Null };
        Edited { now: base.clone(), defaults, base }
    }

    /// The object as the reconciler has it: as it was called with it, or as its own last write of the status left it.
    fn handled(&self) -> Arc<K> {
        let written = self.0.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.clone().unwrap_or_else(|| self.0.object.clone())
    }

    /// The newest state of the object that is known here: a context may outlive many.
    pub(super) fn newest(&self) -> Arc<K> {
        let newest = self.0.engine.cache.get(&self.0.key);
        newest
            .filter(|newest| newest.meta().uid == self.0.object.meta().uid)
            .unwrap_or_else(|| self.0.object.clone())
    }

    /// Writes what was collected, and what the fault adds to it.
    pub(crate) async fn write_status(&self, fault: Option<&Fault>) -> Result<(), Error> {
        match self.status_change(fault) {
            Some(change) => self.put_status(&change).await,
            None => Ok(()),
        }
    }

    /// Writes a change of the status, unless it was the last one written and the object is as that left it: a kind may
    /// have no place for what we say.
    pub(crate) async fn put_status(&self, change: &StatusChange) -> Result<(), Error> {
        let (engine, newest) = (&self.0.engine, self.newest());
        let memo_key = status_key(&self.0.key);
        let words = json!(change);
        if engine.memo.is(&memo_key, Applied::new(&words, revision_of(&*newest))) {
            return Ok(());
        }
        engine.ground.declared.expect::<K>(Deed::PatchStatus);
        let object: K =
            match engine.change_status(&self.0.key, &self.0.claim, change, snapshot(&*newest)).await? {
                Written::Done(object) => object,
                Written::Already | Written::Gone => return Ok(()),
            };
        let revision = revision_of(&object);
        self.note(Verb::Status, &self.0.key, WriteOutcome::Done { revision: Some(revision) });
        engine.memo.set(memo_key, Applied::new(&words, revision), None);
        let object = engine.cache.wrote(object, self.writer());
        *self.0.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(object);
        Ok(())
    }

    /// What was collected and what the fault adds to it, as a change of the status; none when the status says so already.
    pub(crate) fn status_change(&self, fault: Option<&Fault>) -> Option<StatusChange> {
        let mut draft = std::mem::take(&mut *self.0.draft.lock().unwrap_or_else(PoisonError::into_inner));
        let word = fault.and_then(|fault| self.word(fault));
        if draft.is_empty() && word.is_none() && !self.0.may_be_condemned {
            return None;
        }
        let known = snapshot(&*self.newest());
        if fault.is_some() || !draft.is_inconclusive {
            draft.conditions.extend(verdict(&known.status, fault, word));
        }
        if draft.is_empty() {
            return None;
        }
        let mut change = match &draft.status {
            Some(Edited { base, defaults, now }) => StatusChange::between(base, now, defaults),
            None => StatusChange::default(),
        };
        let generation = self.0.object.meta().generation;
        for condition in draft.conditions {
            change.set_condition(&Condition { observed_generation: generation, ..condition });
        }
        if generation.is_some() && !draft.is_unobserved {
            change.set("observedGeneration", json!(generation));
        }
        (!change.operations(&known, self.now()).is_empty()).then_some(change)
    }

    /// The reason under which the status tells of a fault, if it does: of Kubernetes' own kinds only the
    /// terminal ones, and those only where the controller has declared that it writes the status.
    fn word(&self, fault: &Fault) -> Option<&'static str> {
        let engine = &self.0.engine;
        let is_ours_to_say = (fault.is_terminal() || engine.is_custom) && engine.may_write_status();
        tell::name(fault, self.0.failures).filter(|_| is_ours_to_say).map(|name| name.condition)
    }
}

/// The status of an object as its type has it; null when there is none.
fn status_of<K: Kind>(object: &K) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    without_nulls(object.get_mut("status").map(Value::take).unwrap_or_default())
}

/// An object as the cache has it.
fn snapshot<K: Kind>(object: &K) -> Snapshot {
    let meta = object.meta();
    let (uid, resource_version) = (meta.uid.clone(), meta.resource_version.clone());
    Snapshot { uid, resource_version, status: status_of(object), is_whole: false }
}

/// A status in JSON; what is not set is left out.
fn json_of(status: &impl Serialize) -> Value {
    without_nulls(serde_json::to_value(status).unwrap_or_default())
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
