//! The At operator: runs a command at a given time.
//!
//! ```text
//! PENDING   not yet time: be called again when it is      (a requeue, not a poll)
//! RUNNING   no Pod: create it · Pod runs: wait for its events · Pod ended: DONE
//! DONE      nothing more happens
//! ```
//! An At has a schedule and a command. It owns the Pod that runs the command, so the Pod is deleted with it. Each step
//! is one reconcile, and [`step`] decides it without I/O.

mod at;
mod reconcile;
pub mod step;

pub use at::{At, AtSpec, AtStatus, Phase};
pub use reconcile::operator;
