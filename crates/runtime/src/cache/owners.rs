//! From the uid of an owner to the keys of its dependents, as their owner references say.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use homeostat_core::Key;

use crate::object::Object;

/// The dependents of owners.
#[derive(Debug, Default)]
pub(super) struct Owners(RwLock<HashMap<Box<str>, BTreeSet<Key>>>);

impl Owners {
    /// The keys of the objects that name this uid, in order.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<Key> {
        let owners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The visible state of an object changes.
    pub(super) fn follow(&self, key: &Key, old: Option<&Object>, new: Option<&Object>) {
        let (old, new) = (uids(old), uids(new));
        if old == new {
            return;
        }
        let mut owners = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for uid in old {
            if let Some(keys) = owners.get_mut(&uid) {
                keys.remove(key);
                if keys.is_empty() {
                    owners.remove(&uid);
                }
            }
        }
        for uid in new {
            owners.entry(uid).or_default().insert(key.clone());
        }
    }
}

fn uids(object: Option<&Object>) -> Vec<Box<str>> {
    let references = object.and_then(|object| object.meta().owner_references.as_deref()).unwrap_or_default();
    references.iter().map(|reference| reference.uid.as_str().into()).collect()
}
