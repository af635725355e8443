//! Handlers: functions for what happens to an object (it is created, edited, deleted, or a field of it changes) instead
//! of one function for what it should be. Timers and daemons are for what no event reports. They run on the same queue,
//! cache, finalizers, journal and metrics as every controller: handlers complete a [`Controller`](crate::Controller) as
//! a reconcile function does.
//!
//! **Invariant:** a handler that has finished is not called again for the same state, over any number of restarts; one
//! that has not will be. A crash between the end of a handler and the record of it is the one case of a repeat. For
//! maintainers: `agenda` (what runs next, sans I/O), `record` (what is remembered), `record_store` (where), `runner`
//! (the rest).

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
mod operator_handlers;
pub mod options;
mod plan;
mod policy;
mod record;
mod record_store;
mod runner;
mod timer;
mod turn;

pub use declare::Handlers;
pub use diff::{Diff, Field, FieldChange};
pub use filter::Is;
pub use listeners::RawEvent;
pub use operator_handlers::Activity;
pub(crate) use operator_handlers::{ActivityKind, OperatorHandlers};
pub use turn::Turn;
