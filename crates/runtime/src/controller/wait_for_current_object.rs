//! Catches up with the server after this replica has become active.
//!
//! A standby replica follows the same watches as the active one, and may lag behind it. The other replica's last
//! writes, such as the record that a handler has finished, may not have arrived when leadership moves. For that reason,
//! the first run of an object in a new leadership term waits until the cache includes everything that the server had
//! when the term began.
//!
//! The server's newest revision is requested once. A watch that has reached it has shown everything before it. Until
//! then (for a kind that rarely changes, until the next bookmark), each object is read once. Objects of other kinds,
//! such as children, are not read: reconcilers act on what they see and correct their actions when they see more.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::{Key, Revision};
use kube::api::ListParams;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::cache::ObjectCache;
use crate::error::Error;
use crate::fence::Fence;
use crate::kind::parse_revision;
use crate::request::{RequestLabel, send_request};
use crate::shared::ControllerShared;

/// How long one run waits for a watch that is behind: longer than any lag except that of a broken watch, in which case
/// the run is retried.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// How far the cache of a controller's main kind has caught up since this replica became active.
pub(crate) struct ObjectCatchUp {
    known: Mutex<CatchUpProgress>,
    /// Notified when the cache has changed.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct CatchUpProgress {
    /// The leadership term that this progress belongs to.
    gain: u64,
    /// The server's newest revision at some time after the term began.
    newest: Option<Revision>,
    /// The objects that have been read since then.
    confirmed: HashSet<Key>,
}

impl ObjectCatchUp {
    /// Follows this cache, if leadership can be gained and lost under this fence.
    pub(crate) fn new(cache: &ObjectCache, fence: &Fence) -> Self {
        let changed = Arc::<Notify>::default();
        if fence.gain().is_some() {
            let wake = changed.clone();
            cache.subscribe(move |_| wake.notify_waiters());
        }
        Self { known: Mutex::default(), changed }
    }

    /// Returns the progress in this leadership term; it starts empty with each new one.
    fn progress(&self, gain: u64) -> MutexGuard<'_, CatchUpProgress> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.gain != gain {
            *known = CatchUpProgress { gain, ..CatchUpProgress::default() };
        }
        known
    }

    /// Waits until the cache shows this object as it was when its leadership term began, or newer.
    pub(crate) async fn catch_up(
        &self,
        controller: &ControllerShared,
        key: &Key,
        gain: u64,
    ) -> Result<(), Error> {
        let cache = &controller.cache;
        if self.is_caught_up(cache, key, gain) {
            return Ok(());
        }
        let newest = self.progress(gain).newest;
        if newest.is_none() {
            let newest = ask_newest_revision(controller).await?;
            self.progress(gain).newest = Some(newest);
            if self.is_caught_up(cache, key, gain) {
                return Ok(());
            }
        }
        let wanted = controller.read_whole(key).await?.map(|object| revision_of_json(&object));
        self.wait_for(cache, key, wanted).await?;
        self.progress(gain).confirmed.insert(key.clone());
        Ok(())
    }

    fn is_caught_up(&self, cache: &ObjectCache, key: &Key, gain: u64) -> bool {
        let mut known = self.progress(gain);
        let has_reached =
            known.newest.is_some_and(|newest| newest != Revision::ZERO && cache.revision() >= newest);
        if has_reached {
            known.confirmed = HashSet::new();
        }
        has_reached || known.confirmed.contains(key)
    }

    /// Waits until the cache shows the object at this revision, or no longer shows it if there is none.
    async fn wait_for(&self, cache: &ObjectCache, key: &Key, wanted: Option<Revision>) -> Result<(), Error> {
        let shows = || match (cache.get(key), wanted) {
            (None, _) => true,
            (Some(_), None) => false,
            // A revision that is not a number cannot be compared.
            (Some(object), Some(wanted)) => {
                let shown = object.revision();
                shown >= wanted || shown == Revision::ZERO
            }
        };
        let caught_up = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if shows() {
                    return;
                }
                changed.await;
            }
        };
        timeout(CATCH_UP_MAX, caught_up).await.map_err(|_| Error::NotSynced {
            resource: cache.info().resource.clone(),
            reason: format!(
                "for {CATCH_UP_MAX:?} its watch has not caught up with the server's state of {key}"
            ),
        })
    }
}

/// Returns the revision of the smallest possible list.
async fn ask_newest_revision(controller: &ControllerShared) -> Result<Revision, Error> {
    let params = ListParams {
        limit: Some(1),
        label_selector: controller.scope.labels.clone(),
        ..ListParams::default()
    };
    let info = controller.cache.info();
    let namespace = controller.scope.namespace.as_deref().filter(|_| info.is_namespaced);
    let request = info.path(namespace).list_metadata(&params);
    let label = RequestLabel { verb: "list", target: &info.resource };
    let list: Value = send_request(&controller.operator.client, label, request).await?;
    Ok(revision_of_json(&list))
}

/// Returns the revision of an object or a list in JSON.
fn revision_of_json(value: &Value) -> Revision {
    parse_revision(value["metadata"]["resourceVersion"].as_str())
}
