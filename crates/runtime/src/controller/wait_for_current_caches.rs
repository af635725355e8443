//! Lets a controller act only once its caches show the state that the server had when this process became leader.
//!
//! A process that has just started, or a standby replica, may begin with caches that are behind. Most reconcilers act
//! on what they see and correct their actions when they see more. Some cannot: a handler that is recorded as done is
//! not called again, and an unnecessary Pod has already run. Before the first run of such a reconciler, the newest
//! revision of each kind is requested once. A cache that has not reached it is compared with a list of names and
//! revisions, and waits for its watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use homeostat_core::{Key, Revision};
use kube::api::ListParams;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

use crate::cache::ObjectCache;
use crate::error::Error;
use crate::kind::parse_revision;
use crate::request::{RequestLabel, send_request};
use crate::shared::OperatorShared;
use crate::watch::Scope;

/// How long one run waits for a watch that is behind: longer than any lag except that of a broken watch, in which case
/// the run is retried.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// The caches that a controller reads, and whether they have caught up.
pub(crate) struct AllCachesCatchUp {
    caches: Vec<(Scope, ObjectCache)>,
    /// The leadership term in which they had caught up; 0 without an election.
    caught_up: Mutex<Option<u64>>,
    changed: Arc<Notify>,
}

impl AllCachesCatchUp {
    /// Follows these caches.
    pub(crate) fn new(caches: Vec<(Scope, ObjectCache)>) -> Self {
        let changed = Arc::<Notify>::default();
        for (_, cache) in &caches {
            let wake = Arc::clone(&changed);
            cache.subscribe(move |_| wake.notify_waiters());
        }
        Self { caches, caught_up: Mutex::default(), changed }
    }

    /// Waits until every cache shows the state that the server had when the leadership term began, or something newer.
    pub(crate) async fn catch_up(&self, operator: &OperatorShared) -> Result<(), Error> {
        let gain = operator.fence.gain().unwrap_or_default();
        // If several runs are concurrent, one asks and the others wait for it.
        let mut caught_up = self.caught_up.lock().await;
        if *caught_up == Some(gain) {
            return Ok(());
        }
        try_join_all(self.caches.iter().map(|(scope, cache)| self.catch_up_one(operator, scope, cache)))
            .await?;
        *caught_up = Some(gain);
        Ok(())
    }

    async fn catch_up_one(
        &self,
        operator: &OperatorShared,
        scope: &Scope,
        cache: &ObjectCache,
    ) -> Result<(), Error> {
        let smallest = list(operator, scope, cache, Some(1)).await?;
        if cache.revision() >= revision_of(&smallest) {
            return Ok(());
        }
        let newest = ListedState::read(cache, &list(operator, scope, cache, None).await?);
        let is_behind = || Error::NotSynced {
            resource: cache.info().resource.clone(),
            reason: format!("for {CATCH_UP_MAX:?} its watch has not caught up with the server"),
        };
        timeout(CATCH_UP_MAX, self.wait_for(cache, &newest)).await.map_err(|_| is_behind())
    }

    async fn wait_for(&self, cache: &ObjectCache, newest: &ListedState) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if newest.is_shown_by(cache) {
                return;
            }
            changed.await;
        }
    }
}

/// The objects of a kind at one revision.
struct ListedState {
    revision: Revision,
    objects: BTreeMap<Key, Revision>,
}

impl ListedState {
    fn read(cache: &ObjectCache, list: &Value) -> Self {
        let items = list["items"].as_array().into_iter().flatten();
        let objects = items.map(|item| {
            let meta = &item["metadata"];
            let text = |name: &str| meta[name].as_str().unwrap_or_default();
            (cache.info().key(text("namespace"), text("name")), revision_of(item))
        });
        Self { revision: revision_of(list), objects: objects.collect() }
    }

    /// Returns whether the cache includes this state.
    fn is_shown_by(&self, cache: &ObjectCache) -> bool {
        if cache.revision() >= self.revision {
            return true;
        }
        let has_all = self.objects.iter().all(|(key, wanted)| match cache.get(key) {
            // A revision that is not a number cannot be compared.
            Some(object) => object.revision() >= *wanted || object.revision() == Revision::ZERO,
            None => cache.quarantined_error(key).is_some(),
        });
        let entries = cache.entries();
        let is_gone =
            |key: &Key, revision: Revision| !self.objects.contains_key(key) && revision <= self.revision;
        has_all && !entries.iter().any(|(key, object)| is_gone(key, object.revision()))
    }
}

async fn list(
    operator: &OperatorShared,
    scope: &Scope,
    cache: &ObjectCache,
    limit: Option<u32>,
) -> Result<Value, Error> {
    let params = ListParams { limit, label_selector: scope.labels.clone(), ..ListParams::default() };
    let info = cache.info();
    let namespace = scope.namespace.as_deref().filter(|_| info.is_namespaced);
    let request = info.path(namespace).list_metadata(&params);
    send_request(&operator.client, RequestLabel { verb: "list", target: &info.resource }, request).await
}

/// Returns the revision of an object or a list in JSON.
fn revision_of(value: &Value) -> Revision {
    parse_revision(value["metadata"]["resourceVersion"].as_str())
}
