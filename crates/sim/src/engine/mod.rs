//! Runs one schedule: an operator, a server and a user in one thread and in virtual time. The plan decides the order of
//! everything that happens.
//!
//! Reading order: `idle_signal` (when to choose), `parking`, `wire` and `watch_streams` (what is waiting), `process`
//! and `start_processes` (the operator), `run` (the loop), `calls` and `deliver_watch_events` (performing what was
//! chosen), `phases` (when nothing is waiting), `record` (the result).
//!
//! **Invariant:** the same setup and plan give the same record, in every process and on every machine.

mod answer_memory;
mod beliefs;
mod blocked;
mod calls;
mod deliver_watch_events;
mod idle_signal;
mod notes;
mod open_watches;
mod parking;
mod phases;
mod process;
mod process_clock;
mod record;
mod run;
mod server_requests;
mod setup;
mod start_processes;
mod user;
mod watch_streams;
mod wire;

pub(crate) use blocked::BLOCKED_MIN;
pub(crate) use parking::{OutsideCall, OutsideFate, ParkedCall, ParkedWork, Parking, ProcessNumber};
pub(crate) use record::{
    Actor, Change, ForeignMark, Point, PointKind, RunRecord, SettledEnd, TimelineLine, shown_time,
};
pub(crate) use run::{Acceptance, EndPart, RunExtent, RunOptions, boot, run_schedule};
pub(crate) use setup::{
    Condition, MakeOperator, MakeOutside, OutsideInstance, ProcessStart, Setup, Template,
};
