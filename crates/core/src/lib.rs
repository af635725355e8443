//! Defines the vocabulary shared by all other crates: the names of objects ([`Key`]), the revisions at which they
//! change ([`Revision`]), their unique ids ([`Uid`]), selectors ([`selector`]), the time ([`clock`]), randomness
//! ([`entropy`]), stable hashes ([`hash`]), records of what happened ([`journal`], [`write_history`]), container logs
//! and streams ([`container_log`], [`container_stream`]), the changes made by a write ([`field_diff`]), the target of a
//! request ([`request_target`]), the part of an object that counts as state ([`canonical_state`]), the format of a
//! saved failing simulation ([`recorded_run`]), amounts with units ([`quantity`]) and schedules ([`cron`]).
//!
//! **Invariant:** this crate performs no I/O and starts no tasks. Time and randomness enter the system only through
//! [`clock`] and [`entropy`], so the simulator controls both.

#![deny(clippy::exit)]

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
pub mod uid;
pub mod write_history;

pub use clock::{Clock, ClockAdjustment};
pub use entropy::Entropy;
pub use field_diff::FieldDiff;
pub use key::{Key, Prefix};
pub use request_target::{RequestTarget, RequestVerb};
pub use revision::Revision;
pub use uid::Uid;
