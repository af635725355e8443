//! Implements the list/watch protocol for one kind, up to the received objects. `cache::watch_loop` sends the requests
//! and puts the objects into the cache.
//!
//! [`watch_machine`] is the protocol without I/O, [`read_ahead`] reads the lines of a stream, [`decode_watch`] decodes
//! them, [`json_scan`] finds objects in them without decoding, [`trim_managed_fields`] cuts managed fields out,
//! [`decode_error`] explains why an object cannot be decoded, and [`outage`] decides which failures are reported. It is
//! our own rather than kube's because each watch here has its own backoff and health, bookmarks are visible, and an
//! object that cannot be decoded does not affect others.

mod decode_error;
pub(crate) mod decode_watch;
mod json_scan;
mod line_splitter;
pub(crate) mod outage;
pub(crate) mod read_ahead;
mod trim_managed_fields;
pub(crate) mod watch_machine;

pub(crate) use trim_managed_fields::without_managed_fields;

/// Which objects of a kind are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
}
