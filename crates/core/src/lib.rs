//! The vocabulary every other crate speaks: what an object is called ([`Key`]), when it changed ([`Revision`]), which
//! one it is ([`Uid`]), which ones are meant ([`selector`]), what time it is ([`clock`]), what is random ([`entropy`]),
//! hashes that never change ([`hash`]), what happened ([`journal`], [`write_history`]) and which log is meant ([`log`]), what a write changed ([`field_diff`]). Two notations of
//! Kubernetes are parsed here for everyone: amounts with units ([`quantity`]) and schedules ([`cron`]).
//!
//! **Invariant:** no I/O and no tasks here. Time and randomness enter the system only through [`clock`] and [`entropy`],
//! so the simulator owns both.

#![deny(clippy::exit)]

pub mod clock;
pub mod cron;
pub mod entropy;
pub mod field_diff;
pub mod hash;
pub mod journal;
pub mod key;
pub mod log;
pub mod quantity;
pub mod revision;
pub mod selector;
pub mod uid;
pub mod write_history;

pub use clock::{Clock, ClockAdjustment};
pub use entropy::Entropy;
pub use field_diff::FieldDiff;
pub use key::{Key, Prefix};
pub use revision::Revision;
pub use uid::Uid;
