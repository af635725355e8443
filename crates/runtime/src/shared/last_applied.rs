//! Remembers the last configuration that a controller applied to each object, so that applying the same configuration
//! again costs nothing, and the server need not be asked again who owns a child.
//!
//! **Invariant:** memory is bounded. Cached objects are remembered as long as they are in the cache; for objects in no
//! cache, such as children that are written but not watched, only the last [`UNWATCHED_MAX`] are remembered. Forgetting
//! costs a request.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::{Key, Revision};
use serde_json::Value;

use crate::recent_map::RecentMap;

/// The number of objects to remember whose deletion no cache reports: about a megabyte.
const UNWATCHED_MAX: usize = 4096;

/// The last configuration that a controller applied to each object.
pub(crate) struct LastApplied(Mutex<LastAppliedEntries>);

struct LastAppliedEntries {
    watched: HashMap<Key, RememberedApply>,
    unwatched: RecentMap<Key, RememberedApply>,
}

struct RememberedApply {
    applied: AppliedFingerprint,
    uid: Option<Box<str>>,
}

/// The fingerprint of an applied configuration, and the resulting revision.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct AppliedFingerprint {
    pub(crate) configuration: u64,
    pub(crate) revision: Revision,
}

impl AppliedFingerprint {
    pub(crate) fn new(body: &Value, revision: Revision) -> Self {
        Self { configuration: hash_of(body), revision }
    }
}

impl Default for LastApplied {
    fn default() -> Self {
        Self(Mutex::new(LastAppliedEntries {
            watched: HashMap::new(),
            unwatched: RecentMap::new(UNWATCHED_MAX),
        }))
    }
}

impl LastApplied {
    pub(crate) fn get(&self, key: &Key) -> Option<AppliedFingerprint> {
        self.lock().find(key).map(|one| one.applied)
    }

    /// Returns the uid of the object with this name that we last applied.
    pub(crate) fn uid(&self, key: &Key) -> Option<String> {
        self.lock().find(key)?.uid.as_deref().map(str::to_owned)
    }

    /// Returns whether this was the last configuration written.
    pub(crate) fn was_written(&self, key: &Key, applied: AppliedFingerprint) -> bool {
        self.get(key) == Some(applied)
    }

    /// Remembers a write to a cached object; [`forget`](Self::forget) is called when it is gone.
    pub(crate) fn set(&self, key: Key, applied: AppliedFingerprint, uid: Option<&str>) {
        let remembered = RememberedApply { applied, uid: uid.map(Into::into) };
        self.lock().watched.insert(key, remembered);
    }

    /// Remembers a write to an object in no cache.
    pub(crate) fn set_unwatched(&self, key: Key, applied: AppliedFingerprint, uid: Option<&str>) {
        let remembered = RememberedApply { applied, uid: uid.map(Into::into) };
        self.lock().unwatched.insert(key, remembered);
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        let mut known = self.lock();
        known.watched.remove(key);
        known.watched.remove(&status_key(key));
        known.unwatched.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, LastAppliedEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LastAppliedEntries {
    fn find(&self, key: &Key) -> Option<&RememberedApply> {
        self.watched.get(key).or_else(|| self.unwatched.get(key))
    }
}

/// Returns a hash of the body.
pub(crate) fn hash_of(body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the key under which the status of an object is remembered, separately from the object itself.
pub(crate) fn status_key(key: &Key) -> Key {
    Key::new(key.group(), &format!("{}:status", key.resource()), key.namespace(), key.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::new("", "configmaps", "a", &number.to_string())
    }

    /// Returns how many objects are remembered: those that are not watched, and the others.
    fn sizes(last_applied: &LastApplied) -> (usize, usize) {
        let known = last_applied.lock();
        (known.unwatched.len(), known.watched.len())
    }

    #[test]
    fn children_that_nobody_watches_are_forgotten_after_a_while() {
        let last_applied = LastApplied::default();
        let applied = AppliedFingerprint { configuration: 1, revision: Revision::new(1) };
        last_applied.set(key(0), applied, Some("watched"));
        for number in 1..=10 * UNWATCHED_MAX {
            last_applied.set_unwatched(key(number), applied, Some("unwatched"));
        }
        assert_eq!(sizes(&last_applied), (UNWATCHED_MAX, 1));
        assert_eq!(last_applied.uid(&key(0)).as_deref(), Some("watched"), "a cache tells when it is gone");
        assert_eq!(last_applied.uid(&key(1)), None);
        assert_eq!(last_applied.uid(&key(10 * UNWATCHED_MAX)).as_deref(), Some("unwatched"));
    }

    #[test]
    fn nothing_is_left_of_an_object_that_is_gone() {
        let last_applied = LastApplied::default();
        let applied = AppliedFingerprint { configuration: 1, revision: Revision::new(1) };
        last_applied.set(key(0), applied, None);
        last_applied.set(status_key(&key(0)), applied, None);
        last_applied.set_unwatched(key(1), applied, None);
        last_applied.forget(&key(0));
        last_applied.forget(&key(1));
        assert_eq!(sizes(&last_applied), (0, 0));
    }
}
