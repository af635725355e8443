//! Somebody deletes an object that the operator created. Objects that run once (Pods, Jobs) are excluded, because many
//! operators rightly do not create them again. So are records of resources outside the cluster: without its record, the
//! operator has lost the resource.

use std::collections::BTreeSet;

use crate::engine::{Actor, Point, PointKind, RunRecord, Setup};
use crate::fault::Fault;
use crate::state::shown_key;

/// Resources whose objects are created once.
const MADE_ONCE: [&str; 5] = ["pods", "jobs", "events", "leases", "outsiderecords"];

pub(super) fn faults_at(setup: &Setup, run: &RunRecord, point: &Point) -> Vec<Fault> {
    if point.kind != PointKind::Settled || point.step > setup.steps.len() {
        return Vec::new();
    }
    let mut children = BTreeSet::new();
    for change in run.changes.iter().take_while(|change| change.step <= point.step) {
        let key = &change.event.key;
        let is_made = change.event.old.is_none() && matches!(change.actor, Actor::Operator(_));
        if change.event.new.is_none() {
            children.remove(&shown_key(key));
        } else if is_made && !MADE_ONCE.contains(&key.resource()) {
            children.insert(shown_key(key));
        }
    }
    children.into_iter().map(|object| Fault::DeleteChild { object }).collect()
}
