//! A deterministic simulator for operators: fault injection, exploration and oracles on the real API server, in virtual
//! time.
//!
//! A [`Simulation`] runs an operator against a copy of an API server in this process, crashes and delays it at every
//! point where it interacts with its environment, and judges the result. Reading order: [`simulation`] (what a user
//! writes), `engine` (one schedule), `fault` (what can go wrong), `oracle` (what must hold), `explore` (which schedules
//! are run), `shrink`, [`trace`] and `report` (the output of a failure).

pub mod actors;
mod address;
mod alarm;
mod cluster;
mod engine;
mod explore;
mod fault;
mod generate;
mod object;
mod object_head;
mod oracle;
mod outside;
mod report;
mod resource_name;
mod rights;
mod shrink;
pub mod simulation;
mod state;
mod step;
pub mod trace;

pub use cluster::Cluster;
pub use explore::Budget;
pub use fault::Fault;
pub use outside::{Outside, OutsideError};
pub use report::{Failure, Outcome};
pub use simulation::Simulation;
pub use step::{Step, create, delete, edit};
pub use trace::{Deviation, Trace};
