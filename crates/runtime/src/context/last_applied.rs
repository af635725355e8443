//! What a controller applied last to each object, so that applying the same again costs nothing, and whose a child is
//! need not be asked again.
//!
//! **Invariant:** memory is bounded. What a cache shows is remembered as long as the cache shows it; of what no cache
//! shows, such as children that are written but not watched, only the last [`UNWATCHED_MAX`]. Forgetting costs a request.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::{Key, Revision};
use serde_json::Value;

use crate::recent::Recent;

/// Objects remembered that no cache tells the end of: about a megabyte.
const UNWATCHED_MAX: usize = 4096;

/// What a controller applied last to each object.
pub(crate) struct Memo(Mutex<MemoEntries>);

struct MemoEntries {
    watched: HashMap<Key, Remembered>,
    unwatched: Recent<Key, Remembered>,
}

struct Remembered {
    applied: Applied,
    uid: Option<Box<str>>,
}

/// A fingerprint of a write, and the revision it led to.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Applied {
    pub(super) configuration: u64,
    pub(super) revision: Revision,
}

impl Applied {
    pub(super) fn new(body: &Value, revision: Revision) -> Self {
        Self { configuration: hash_of(body), revision }
    }
}

impl Default for Memo {
    fn default() -> Self {
        Self(Mutex::new(MemoEntries { watched: HashMap::new(), unwatched: Recent::new(UNWATCHED_MAX) }))
    }
}

impl Memo {
    pub(super) fn get(&self, key: &Key) -> Option<Applied> {
        self.known().find(key).map(|one| one.applied)
    }

    /// The uid of the object under this name that we applied last.
    pub(super) fn uid(&self, key: &Key) -> Option<String> {
        self.known().find(key)?.uid.as_deref().map(str::to_owned)
    }

    /// Was exactly this written last?
    pub(super) fn is(&self, key: &Key, applied: Applied) -> bool {
        self.get(key) == Some(applied)
    }

    /// Remembers a write to an object that a cache shows: [`forget`](Self::forget) is called when it is gone.
    pub(super) fn set(&self, key: Key, applied: Applied, uid: Option<&str>) {
        let remembered = Remembered { applied, uid: uid.map(Into::into) };
        self.known().watched.insert(key, remembered);
    }

    /// Remembers a write to an object that no cache shows.
    pub(super) fn set_unwatched(&self, key: Key, applied: Applied, uid: Option<&str>) {
        let remembered = Remembered { applied, uid: uid.map(Into::into) };
        self.known().unwatched.insert(key, remembered);
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &Key) {
        let mut known = self.known();
        known.watched.remove(key);
        known.watched.remove(&status_key(key));
        known.unwatched.remove(key);
    }

    fn known(&self) -> MutexGuard<'_, MemoEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoEntries {
    fn find(&self, key: &Key) -> Option<&Remembered> {
        self.watched.get(key).or_else(|| self.unwatched.get(key))
    }
}

/// The same body gives the same number.
pub(super) fn hash_of(body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The status of an object is remembered beside the object itself.
pub(super) fn status_key(key: &Key) -> Key {
    Key::new(key.group(), &format!("{}:status", key.resource()), key.namespace(), key.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::new("", "configmaps", "a", &number.to_string())
    }

    /// How many objects are remembered: those that nobody watches, and the others.
    fn sizes(memo: &Memo) -> (usize, usize) {
        let known = memo.known();
        (known.unwatched.len(), known.watched.len())
    }

    #[test]
    fn children_that_nobody_watches_are_forgotten_after_a_while() {
        let memo = Memo::default();
        let applied = Applied { configuration: 1, revision: Revision::new(1) };
        memo.set(key(0), applied, Some("watched"));
        for number in 1..=10 * UNWATCHED_MAX {
            memo.set_unwatched(key(number), applied, Some("unwatched"));
        }
        assert_eq!(sizes(&memo), (UNWATCHED_MAX, 1));
        assert_eq!(memo.uid(&key(0)).as_deref(), Some("watched"), "a cache tells when it is gone");
        assert_eq!(memo.uid(&key(1)), None);
        assert_eq!(memo.uid(&key(10 * UNWATCHED_MAX)).as_deref(), Some("unwatched"));
    }

    #[test]
    fn nothing_is_left_of_an_object_that_is_gone() {
        let memo = Memo::default();
        let applied = Applied { configuration: 1, revision: Revision::new(1) };
        memo.set(key(0), applied, None);
        memo.set(status_key(&key(0)), applied, None);
        memo.set_unwatched(key(1), applied, None);
        memo.forget(&key(0));
        memo.forget(&key(1));
        assert_eq!(sizes(&memo), (0, 0));
    }
}
