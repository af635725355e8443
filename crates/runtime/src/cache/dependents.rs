//! Maps the uid of an owner to the keys of its dependents, according to their owner references.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use homeostat_core::Key;

use crate::kind::object::Object;

/// The dependents of each owner.
#[derive(Debug, Default)]
pub(super) struct DependentsByOwner(RwLock<HashMap<Box<str>, BTreeSet<Key>>>);

impl DependentsByOwner {
    /// Returns the keys of the objects that name this uid as an owner, in order.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<Key> {
        let dependents = self.0.read().unwrap_or_else(PoisonError::into_inner);
        dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Applies a change to an object's visible state.
    pub(super) fn follow(&self, key: &Key, old: Option<&Object>, new: Option<&Object>) {
        let (old, new) = (uids(old), uids(new));
        if old == new {
            return;
        }
        let mut dependents = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for uid in old {
            if let Some(keys) = dependents.get_mut(&uid) {
                keys.remove(key);
                if keys.is_empty() {
                    dependents.remove(&uid);
                }
            }
        }
        for uid in new {
            dependents.entry(uid).or_default().insert(key.clone());
        }
    }
}

fn uids(object: Option<&Object>) -> Vec<Box<str>> {
    let references = object.and_then(|object| object.meta().owner_references.as_deref()).unwrap_or_default();
    references.iter().map(|reference| reference.uid.as_str().into()).collect()
}
