//! Contains reconcilers with bugs found in real operators, each with its cured twin, hunted by the simulator.
//!
//! Reading order: [`animal`] (the definition of an animal), [`animals`] (the list, one file each), [`hunt`] (how an
//! animal is hunted), [`table`] (the output). `docs/why/zoo.md` says which real bugs each one represents.
//!
//! **Invariant:** a scenario describes what a user of the operator does and expects, but nothing about the bug: the
//! simulator hunts with its default budget and its default oracles.

pub mod animal;
pub mod animals;
pub mod hunt;
mod objects;
pub mod table;

pub use animal::Animal;
pub use animals::ANIMALS;
