//! One schedule: an operator, a server and a user in one thread and in virtual time, everything in an order that the plan
//! decides.
//!
//! Reading order: `idle` (when to choose), `parking`, `wire` and `watches` (what waits), `process` and `starts` (the operator), `run` (the
//! loop), `calls` and `frames` (what happens to what was chosen), `phases` (when nothing waits), `record` (what is known
//! afterwards).
//!
//! **Invariant:** the same setup and plan give the same record, in every process and on every machine.

mod beliefs;
mod blocked;
mod calls;
mod frames;
mod idle;
mod notes;
mod open;
mod parking;
mod phases;
mod process;
mod process_clock;
mod record;
mod run;
mod serve;
mod setup;
mod starts;
mod user;
mod watches;
mod wire;

pub(crate) use blocked::BLOCKED_MIN;
pub(crate) use parking::{OutsideCall, OutsideFate, ParkedCall, ParkedWork, Parking, ProcessNumber};
pub(crate) use record::{
    Actor, ForeignMark, Point, PointKind, RunRecord, SettledEnd, TimelineLine, shown_time,
};
pub(crate) use run::{Acceptance, EndPart, RunExtent, RunOptions, boot, run_schedule};
pub(crate) use setup::{
    Condition, MakeOperator, MakeOutside, OutsideInstance, ProcessStart, Setup, Template,
};
