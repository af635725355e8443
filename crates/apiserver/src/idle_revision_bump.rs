//! Advances history while there are no writes.
//!
//! Lists, watches and continue tokens are bounded by time but distinguish times by the store's revision. The revision
//! therefore increases every few minutes even in an idle server, as it does in Kubernetes, whose servers record each
//! compaction in etcd. This way a list that starts over can be distinguished from the one whose token expired.
//!
//! The key is not an API object: no path leads to it, and a definition cannot claim the core group.

use std::time::Duration;

use homeostat_core::Key;
use homeostat_store::{Error, Expect, Op, Txn, Value};

use crate::backend::Backend;

/// The interval at which history advances: as often as Kubernetes compacts etcd, and as long as a token is valid.
pub(crate) const PERIOD: Duration = Duration::from_mins(5);
/// The resource in the core group under which the marker is stored.
pub(crate) const RESOURCE: &str = "historymarkers";

/// Raises the revision with a commit that clients do not see.
pub(crate) async fn advance(backend: &Backend) -> Result<(), Error> {
    let key = Key::new("", RESOURCE, "", "newest");
    let marker = Value::plain(r#"{"metadata":{}}"#);
    backend.store.commit(Txn::one(key, Expect::Any, Op::Put(marker))).await.map(drop)
}
