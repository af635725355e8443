//! Provides one lock per namespace, so that long work in one namespace does not delay any other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// Locks by namespace. A lock exists for as long as someone holds it or waits for it.
#[derive(Debug, Default)]
pub(crate) struct NamespaceLocks(SyncMutex<BTreeMap<String, Arc<Mutex<()>>>>);

impl NamespaceLocks {
    /// Waits until nobody else holds this namespace's lock, and takes it.
    pub(crate) async fn lock(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(namespace.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_namespace_waits_for_itself_only() {
        let locks = NamespaceLocks::default();
        let held = locks.lock("a").await;
        assert!(locks.lock("a").now_or_never().is_none());
        assert!(locks.lock("b").now_or_never().is_some());
        drop(held);
        assert!(locks.lock("a").now_or_never().is_some());
        assert_eq!(locks.0.lock().unwrap().len(), 1, "those that nobody uses are forgotten");
    }
}
