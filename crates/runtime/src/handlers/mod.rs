//! Handlers are functions for the things that happen to an object (it is created, edited or deleted, or one of its
//! fields changes), instead of one function for its desired state. Timers and daemons are for everything that no event
//! reports. They use the queue, cache, finalizers, journal and metrics of every controller: handlers complete a
//! [`Controller`](crate::Controller) in place of a reconcile function.
//!
//! **Invariant:** a handler that has finished is not called again for the same state, across any number of restarts; a
//! handler that has not finished is called again. Only a crash between the completion of a handler and its record
//! causes a repeated call. For maintainers: `agenda` (decides what runs next, without I/O), `record` (the recorded
//! progress), `record_store` (where it is stored), `runner` (everything else).

mod agenda;
mod authored_state;
mod daemons;
mod declare;
mod declared_handlers;
mod diff;
mod filter;
mod handled_condition;
mod handler_context;
mod handler_run;
mod listeners;
mod operator_handlers;
pub mod options;
mod record;
mod record_codec;
mod record_store;
mod retry_policy;
mod runner;
mod timer;
mod value_index;

pub use declare::Handlers;
pub use diff::{Diff, FieldChange, FieldUpdate};
pub use filter::ValueFilter;
pub use handler_context::HandlerContext;
pub use listeners::RawEvent;
pub use operator_handlers::OperatorContext;
pub(crate) use operator_handlers::{ActivityKind, OperatorHandlers};
