//! List and watch: the state of one kind, kept in step with the server.
//!
//! [`machine`] is the protocol without I/O, [`wire`] reads what the server sends, [`trim`] cuts managed fields out of it,
//! [`locate`] says why an object does not decode, [`ahead`] reads lines, [`drive`] moves the bytes and feeds
//! the cache, [`outage`] says how much of a failure is news. Ours rather than kube's because each watch here has its
//! own backoff and health, bookmarks are visible, and an object that does not decode harms nobody else.

mod decode_error;
mod drive;
mod lines;
mod machine;
mod outage;
mod read_ahead;
mod scan;
mod trim;
mod wire;

pub(crate) use drive::{Feed, Scope, drive};
pub(crate) use trim::without_managed_fields;
