//! The At operator: run a command at a time.
//!
//! ```text
//! PENDING   not yet time: be called again when it is      (a requeue, not a poll)
//! RUNNING   no Pod: make it · Pod runs: wait for its events · Pod ended: DONE
//! DONE      nothing more happens
//! ```
//! An At names a schedule and a command. The Pod that runs it is owned, so it goes when its At goes. Each step is one
//! reconcile, and [`step`] decides it without I/O.

mod at;
mod reconcile;
pub mod step;

pub use at::{At, AtSpec, AtStatus, Phase};
pub use reconcile::operator;
