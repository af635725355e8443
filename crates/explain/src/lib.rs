//! Explains why an object is in its present state. [`Evidence`] is what was collected: objects, events, the journals of
//! operators, the history of the server, leases. [`explain`] folds it into an [`Explanation`]: the root cause first,
//! then how it came about. The command line prints it ([`render`]), and a console can draw the same data.
//!
//! **Invariant:** everything here is a function of the evidence: no I/O, no clock, no randomness. It explains only what
//! the evidence shows, and says what it could not see.

#![deny(clippy::exit)]

mod describe;
mod evidence;
mod explain;
mod explanation;
mod findings;
mod leases;
mod render;
mod sentences;
mod state;
#[cfg(test)]
mod tests;
mod timeline;
mod times;

pub use describe::{describe_cause, describe_entry};
pub use evidence::{Evidence, MissingReference, SeenObject};
pub use explain::explain;
pub use explanation::{Cause, CauseCode, Explanation, Health, Step, StepKind};
pub use render::render;
