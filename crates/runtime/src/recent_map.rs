//! A map with a bounded size: when it is full, the entry that was set longest ago is dropped.
//!
//! It is for values that are worth remembering, but not forever, when nothing reports that a key is gone. A lookup does
//! not make an entry younger.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A map that holds a limited number of entries.
pub(crate) struct RecentMap<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// The keys in the order in which they were set.
    order: BTreeMap<u64, K>,
    next: u64,
    entries_max: usize,
}

impl<K: Clone + Eq + Hash, V> RecentMap<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), next: 0, entries_max }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        if self.entries.len() >= self.entries_max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.order.insert(self.next, key.clone());
        self.entries.insert(key, (self.next, value));
        self.next += 1;
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (at, value) = self.entries.remove(key)?;
        self.order.remove(&at);
        Some(value)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.order.len(), "each entry has one place in the order");
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_set_longest_ago_goes() {
        let mut map = RecentMap::new(3);
        for number in 0..3 {
            map.insert(number, number);
        }
        map.insert(0, 10);
        map.insert(3, 3);
        assert_eq!((map.get(&0), map.get(&1), map.get(&2), map.len()), (Some(&10), None, Some(&2), 3));
        assert_eq!(map.remove(&2), Some(2));
        map.insert(4, 4);
        assert_eq!((map.get(&0), map.get(&3), map.len()), (Some(&10), Some(&3), 3));
    }
}
