//! List and watch: the state of one kind, kept in step with the server.
//!
//! [`machine`] is the protocol without I/O, [`wire`] and [`decode`] read what the server sends (once, without managed
//! fields), [`locate`] says why an object does not decode, [`ahead`] reads lines, [`drive`] moves the bytes and feeds
//! the cache, [`outage`] says how much of a failure is news. Ours rather than kube's because each watch here has its
//! own backoff and health, bookmarks are visible, and an object that does not decode harms nobody else.

mod ahead;
mod decode;
mod drive;
mod lines;
mod locate;
mod machine;
mod outage;
mod wire;

pub(crate) use decode::Trimmed;
pub(crate) use drive::{Feed, Scope, drive};
