//! Determines which faults can happen at a point, one family of faults per file.

mod call;
mod child;
mod clock;
mod crash;
mod drift;
mod old_state;
mod user;
mod watch;

use crate::engine::{Point, RunRecord, Setup};
use crate::fault::Fault;

/// Returns every fault of every family that can happen at this point of the run.
pub(crate) fn faults_at(setup: &Setup, run: &RunRecord, point: &Point) -> Vec<Fault> {
    [
        crash::faults_at(point),
        call::faults_at(point),
        watch::faults_at(point),
        user::faults_at(setup, point),
        child::faults_at(setup, run, point),
        old_state::faults_at(setup, run, point),
        clock::faults_at(point),
        drift::faults_at(setup, run, point),
    ]
    .concat()
}
