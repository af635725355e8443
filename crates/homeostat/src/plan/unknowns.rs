//! Describes what a plan cannot know, as far as it is relevant to this plan.

use super::report::{ChangeAction, ObjectChange};
use super::run::PlanRun;
use super::snapshot::ReadSummary;

/// The operator of the built-in workloads.
pub(super) const WORKLOADS: &str = "workloads.homeostat.dev";

/// The known facts about a plan.
pub(super) struct PlanFacts<'a> {
    pub(super) operator: &'a str,
    pub(super) read: &'a ReadSummary,
    pub(super) changes: &'a [ObjectChange],
    pub(super) run: &'a PlanRun,
}

/// Returns the things that the plan cannot know, one sentence each.
pub(super) fn unknowns(facts: &PlanFacts<'_>) -> Vec<String> {
    let mut unknown = vec![format!(
        "Only {} and the garbage collection of the API server ran: what other controllers would do is not part of the plan.",
        if facts.operator == WORKLOADS { "the workload controllers" } else { facts.operator }
    )];
    let has_pods = |action: ChangeAction| {
        facts.changes.iter().any(|change| change.kind == "Pod" && change.action == action)
    };
    if has_pods(ChangeAction::Created) {
        unknown.push("No node ran: Pods that were created stay Pending, and what waits for them to be ready has not happened.".to_owned());
    }
    if facts.changes.iter().any(|change| change.waits_for.iter().any(|one| one == "its node")) {
        unknown.push(
            "No node ran: Pods that are being deleted stay until their node has ended them.".to_owned(),
        );
    }
    if facts.run.has_worlds {
        unknown.push(
            "Calls outside were recorded and taken to succeed: what the API outside adds, refuses or changes by itself is not predicted."
                .to_owned(),
        );
    }
    if facts.operator != WORKLOADS {
        unknown.push(
            "Code of the operator that calls something outside without a world has really done so; it can ask `cx.is_plan()`."
                .to_owned(),
        );
    }
    let deletes =
        |change: &ObjectChange| matches!(change.action, ChangeAction::Deleted | ChangeAction::Replaced);
    if !facts.run.is_delete && facts.changes.iter().any(deletes) {
        let read: Vec<&str> = facts.read.resources.iter().map(String::as_str).collect();
        unknown.push(format!(
            "Dependents of deleted objects are known of these kinds only: {}.",
            read.join(", ")
        ));
    }
    unknown.push("Admission webhooks were not called.".to_owned());
    for (resource, why) in &facts.read.unreadable {
        unknown.push(format!("{resource} could not be read: {why}."));
    }
    unknown
}
