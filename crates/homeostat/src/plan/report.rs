//! Represents the plan: what would happen, in a form for users and programs.

use std::collections::BTreeMap;

use homeostat_core::field_diff::FieldChange;
use homeostat_runtime::{PlannedCall, PlannedVerb};
use serde::Serialize;

use super::compare::{ComparedWindow, compare_states};
use super::run::{PhaseEnd, PlanRun};
use super::snapshot::ReadSummary;
use super::unknowns::{PlanFacts, unknowns};

/// The effects of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// Objects that would be created, changed, deleted or replaced.
    pub changes: Vec<ObjectChange>,
    /// The calls to external systems.
    pub calls: Vec<PlannedCall>,
    /// The number of objects of each kind.
    pub counts: BTreeMap<String, KindCounts>,
    /// The changes that the operator would make even without the change, because the cluster was not at rest.
    pub without_change: Vec<ObjectChange>,
    /// The calls to external systems that it would make even without the change.
    pub calls_without_change: Vec<PlannedCall>,
    /// Objects whose last reconcile failed, with the change.
    pub failing: Vec<FailingObject>,
    /// Objects that will be reconciled again later.
    pub later: Vec<DueLater>,
    /// The facts that the plan cannot know.
    pub unknown: Vec<String>,
    /// The seconds of virtual time until the operator was at rest, without the change and then with it.
    pub virtual_seconds: [u64; 2],
}

/// One object that would be written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectChange {
    /// What would happen to it.
    pub action: ChangeAction,
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name; `<random>` stands for the part that the server chooses.
    pub name: String,
    /// Kind and name of the object that controls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The fields that would change; for an object that would be created, all fields.
    pub fields: Vec<FieldChange>,
    /// Finalizers that still block its deletion at the end of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
}

impl ObjectChange {
    /// Returns `Deployment default/web`.
    pub fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// Returns the sort key: objects are listed by namespace, kind and name.
    pub(super) fn sort_key(&self) -> (Option<&str>, &str, &str, String) {
        let fields = || self.fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        (self.namespace.as_deref(), &self.kind, &self.name, fields())
    }
}

/// What would happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeAction {
    /// It would be created.
    Created,
    /// It would be changed.
    Changed,
    /// It would be deleted, or its deletion would begin.
    Deleted,
    /// It would be deleted and re-created under the same name.
    Replaced,
}

/// The number of objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindCounts {
    /// Created.
    pub created: usize,
    /// Changed.
    pub changed: usize,
    /// Deleted.
    pub deleted: usize,
    /// Replaced.
    pub replaced: usize,
}

impl KindCounts {
    fn add(&mut self, action: ChangeAction) {
        match action {
            ChangeAction::Created => self.created += 1,
            ChangeAction::Changed => self.changed += 1,
            ChangeAction::Deleted => self.deleted += 1,
            ChangeAction::Replaced => self.replaced += 1,
        }
    }
}

/// An object whose last reconcile failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingObject {
    /// The object.
    pub object: String,
    /// Why.
    pub error: String,
    /// Whether it is not retried until the object changes.
    pub is_final: bool,
}

/// An object that will be reconciled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DueLater {
    /// The object.
    pub object: String,
    /// Seconds after the end of the plan.
    pub seconds: u64,
}

impl Plan {
    /// Returns whether the change would have no effect.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.calls.is_empty()
    }

    /// Returns how many objects and external resources would be deleted or replaced.
    pub fn deletes(&self) -> usize {
        let is_loss =
            |change: &&ObjectChange| matches!(change.action, ChangeAction::Deleted | ChangeAction::Replaced);
        let is_delete = |call: &&PlannedCall| call.verb == PlannedVerb::Delete;
        self.changes.iter().filter(is_loss).count() + self.calls.iter().filter(is_delete).count()
    }

    /// Returns how many objects would be created, changed, deleted and replaced.
    pub fn totals(&self) -> KindCounts {
        let mut totals = KindCounts::default();
        self.changes.iter().for_each(|change| totals.add(change.action));
        totals
    }
}

/// Compares the phases of a run.
pub(super) fn report(run: PlanRun, operator: &str, read: &ReadSummary) -> Plan {
    let compare = |from: &PhaseEnd, to: &PhaseEnd| {
        compare_states(&from.objects, &to.objects, ComparedWindow { from: from.at, to: to.at })
    };
    let seconds = |from: &PhaseEnd, to: &PhaseEnd| to.at.duration_since(from.at).as_secs().unsigned_abs();
    let changes = compare(&run.baseline, &run.result);
    let mut counts = BTreeMap::<String, KindCounts>::new();
    for change in &changes {
        counts.entry(change.kind.clone()).or_default().add(change.action);
    }
    let facts = PlanFacts { operator, read, changes: &changes, run: &run };
    Plan {
        unknown: unknowns(&facts),
        without_change: compare(&run.start, &run.baseline),
        virtual_seconds: [seconds(&run.start, &run.baseline), seconds(&run.baseline, &run.result)],
        counts,
        changes,
        calls: run.result.calls,
        calls_without_change: run.baseline.calls,
        failing: run.failing,
        later: run.later,
    }
}
