//! Catching up after the right to act came to this replica.
//!
//! A replica that stands by follows the same watches as the one that acts, and may be behind it. What the other wrote
//! last, such as the record that a handler is through, may not have come yet when the right moves. So the first run of an
//! object under a new right waits until the cache includes what the server had when the right came.
//!
//! The server's newest revision is asked for once. A watch that has reached it has shown everything before. Until it has,
//! which on a quiet kind takes a bookmark, each object is asked for once. Objects of other kinds, such as children, are not
//! asked for: reconcilers go by what they see and put right what they see later.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::{Key, Revision};
use kube::api::ListParams;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::cache::ObjectCache;
use crate::engine::Engine;
use crate::error::Error;
use crate::fence::Fence;
use crate::kind::parse_revision;
use crate::request::{RequestLabel, call};

/// How long one run waits for a watch that is behind: longer than any lag but that of a broken watch, which the retry of
/// the run waits for.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// How far the cache of a controller's main kind is known to be, since the right to act came.
pub(crate) struct Takeover {
    known: Mutex<CatchUpProgress>,
    /// The cache has changed.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct CatchUpProgress {
    /// Which right this is about.
    gain: u64,
    /// The server's newest revision at some time after the right came.
    newest: Option<Revision>,
    /// The objects that were asked for since.
    confirmed: HashSet<Key>,
}

impl Takeover {
    /// Follows this cache, if the right to act under this fence can come and go.
    pub(crate) fn new(cache: &ObjectCache, fence: &Fence) -> Self {
        let changed = Arc::<Notify>::default();
        if fence.gain().is_some() {
            let wake = changed.clone();
            cache.subscribe(move |_| wake.notify_waiters());
        }
        Self { known: Mutex::default(), changed }
    }

    /// What is known under this right; of another, nothing.
    fn known(&self, gain: u64) -> MutexGuard<'_, CatchUpProgress> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.gain != gain {
            *known = CatchUpProgress { gain, ..CatchUpProgress::default() };
        }
        known
    }
}

impl Engine {
    /// Waits until the cache shows this object as it was when the right to act for it came, or newer.
    pub(crate) async fn catch_up(&self, key: &Key, gain: u64) -> Result<(), Error> {
        if self.is_caught_up(key, gain) {
            return Ok(());
        }
        let newest = self.takeover.known(gain).newest;
        if newest.is_none() {
            let newest = self.ask_newest_revision().await?;
            self.takeover.known(gain).newest = Some(newest);
            if self.is_caught_up(key, gain) {
                return Ok(());
            }
        }
        let wanted = self.read_whole(key).await?.map(|object| version(&object));
        self.wait_for(key, wanted).await?;
        self.takeover.known(gain).confirmed.insert(key.clone());
        Ok(())
    }

    fn is_caught_up(&self, key: &Key, gain: u64) -> bool {
        let mut known = self.takeover.known(gain);
        let has_reached =
            known.newest.is_some_and(|newest| newest != Revision::ZERO && self.cache.revision() >= newest);
        if has_reached {
            known.confirmed = HashSet::new();
        }
        has_reached || known.confirmed.contains(key)
    }

    /// The revision of the smallest list there is.
    async fn ask_newest_revision(&self) -> Result<Revision, Error> {
        let params =
            ListParams { limit: Some(1), label_selector: self.scope.labels.clone(), ..ListParams::default() };
        let info = self.cache.info();
        let namespace = self.scope.namespace.as_deref().filter(|_| info.is_namespaced);
        let request = info.path(namespace).list_metadata(&params);
        let label = RequestLabel { verb: "list", target: &info.resource };
        let list: Value = call(&self.shared.client, label, request).await?;
        Ok(version(&list))
    }

    /// Waits until the cache shows the object at this revision, or no longer if there is none.
    async fn wait_for(&self, key: &Key, wanted: Option<Revision>) -> Result<(), Error> {
        let shows = || match (self.cache.get(key), wanted) {
            (None, _) => true,
            (Some(_), None) => false,
            // A revision that is no number cannot be compared.
            (Some(object), Some(wanted)) => {
                let shown = object.revision();
                shown >= wanted || shown == Revision::ZERO
            }
        };
        let caught_up = async {
            loop {
                let changed = self.takeover.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if shows() {
                    return;
                }
                changed.await;
            }
        };
        timeout(CATCH_UP_MAX, caught_up).await.map_err(|_| Error::NotSynced {
            resource: self.cache.info().resource.clone(),
            reason: format!("its watch does not show {key} as the server has had it for {CATCH_UP_MAX:?}"),
        })
    }
}

/// The revision of an object or a list in JSON.
fn version(value: &Value) -> Revision {
    parse_revision(value["metadata"]["resourceVersion"].as_str())
}
