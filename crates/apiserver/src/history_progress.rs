//! Advances history while nobody writes.
//!
//! Lists, watches and continue tokens are bounded by time but tell times apart by the store's revision. So the revision
//! rises every few minutes even in an idle server, as it does in Kubernetes, whose servers record each compaction in
//! etcd: a list that starts over can be distinguished from the one whose token expired.
//!
//! The key is not an object of the API: no path leads to it, and a definition cannot claim the core group.

use std::time::Duration;

use homeostat_core::Key;
use homeostat_store::{Error, Expect, Op, Txn, Value};

use crate::backend::Backend;

/// How often history advances at least: as often as Kubernetes compacts etcd, and as long as a token is valid.
pub(crate) const PERIOD: Duration = Duration::from_mins(5);
/// The resource of the core group under which the marker is stored.
pub(crate) const RESOURCE: &str = "historymarkers";

/// Raises the revision by one commit that changes nothing a client sees.
pub(crate) async fn advance(backend: &Backend) -> Result<(), Error> {
    let key = Key::new("", RESOURCE, "", "newest");
    let marker = Value::plain(r#"{"metadata":{}}"#);
    backend.store.commit(Txn::one(key, Expect::Any, Op::Put(marker))).await.map(drop)
}
