//! The vocabulary shared by all other crates: what an object is called ([`Key`]), when it changed ([`Revision`]), which
//! one it is ([`Uid`]), which ones are meant ([`selector`]), the time ([`clock`]), randomness ([`entropy`]), stable
//! hashes ([`hash`]), what happened ([`journal`], [`write_history`]), what operators are doing ([`activity`]), container logs and streams ([`container_log`],
//! [`container_stream`]), what a write changed ([`field_diff`]), what a request asks for ([`request_target`]), which
//! part of an object is state ([`canonical_state`]), how a failing simulation is saved ([`recorded_run`]), amounts with
//! units ([`quantity`]), schedules ([`cron`]) and how texts of others are printed ([`terminal_text`]).
//!
//! **Invariant:** this crate performs no I/O and starts no tasks. Time and randomness enter the system only through
//! [`clock`] and [`entropy`], so the simulator controls both.

#![deny(clippy::exit)]

pub mod activity;
pub mod canonical_state;
pub mod clock;
pub mod container_log;
pub mod container_stream;
pub mod cron;
pub mod entropy;
pub mod field_diff;
pub mod hash;
pub mod journal;
pub mod key;
pub mod quantity;
pub mod recorded_run;
pub mod request_target;
pub mod revision;
pub mod selector;
pub mod terminal_text;
pub mod uid;
pub mod write_history;

pub use clock::{Clock, ClockAdjustment};
pub use entropy::Entropy;
pub use field_diff::FieldDiff;
pub use key::{Key, Prefix};
pub use request_target::{RequestTarget, RequestVerb};
pub use revision::Revision;
pub use uid::Uid;
