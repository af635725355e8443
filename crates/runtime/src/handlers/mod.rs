//! Handlers: functions for what happens to an object (it was created, edited, a field of it changed, it goes) instead
//! of one function for what it should be. Timers and daemons for what no event tells. On the same queue, cache,
//! finalizers, journal and metrics as every controller: handlers complete a [`Controller`](crate::Controller) as a
//! reconcile function does.
//!
//! **Invariant:** a handler that is through is not called again for the same state, over any number of restarts; one
//! that is not will be. A crash between the end of a handler and the record of it is the one case of a repeat.
//! For maintainers: `agenda` (what runs next, sans I/O), `record` (what is remembered), `record_store` (where), `runner` (the rest).

mod activity;
mod agenda;
mod codec;
mod daemons;
mod declare;
mod diff;
mod essence;
mod filter;
mod handled_condition;
mod handler_run;
mod listeners;
mod lookup;
pub mod options;
mod plan;
mod policy;
mod record;
mod record_store;
mod runner;
mod timer;
mod turn;

pub use activity::Activity;
pub(crate) use activity::{Activities, ActivityKind};
pub use declare::Handlers;
pub use diff::{Diff, Field, FieldChange};
pub use filter::Is;
pub use listeners::RawEvent;
pub use turn::Turn;
