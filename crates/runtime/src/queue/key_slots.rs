//! Represents keys and namespaces as small numbers: a key that is waiting, running or has state to remember has a slot,
//! and other keys cost nothing. A slot's number is reused, but its stamp only grows, so an old ticket never matches a
//! new key.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use foldhash::fast::RandomState;
use homeostat_core::Key;
use tokio::time::Instant;

use super::key_state::Slot;

/// The slots in use, found by key or by number.
#[derive(Debug, Default)]
pub(super) struct Slots {
    by_key: HashMap<Key, u32, RandomState>,
    places: Vec<Slot>,
    free: Vec<u32>,
    namespaces: Namespaces,
}

impl Slots {
    /// Returns the slot of this key, creating it if there is none.
    pub(super) fn intern(&mut self, key: &Key, now: Instant) -> u32 {
        if let Some(&slot) = self.by_key.get(key) {
            return slot;
        }
        let namespace = self.namespaces.intern(key.namespace());
        let slot = if let Some(slot) = self.free.pop() {
            self.places[slot as usize].reuse(key.clone(), namespace);
            slot
        } else {
            self.places.push(Slot::new(key.clone(), namespace, now));
            u32::try_from(self.places.len() - 1).expect("fewer than four billion keys fit in memory")
        };
        self.by_key.insert(key.clone(), slot);
        slot
    }

    pub(super) fn get(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(super) fn release(&mut self, slot: u32) {
        let key = self.places[slot as usize].key.clone();
        self.by_key.remove(&key);
        self.namespaces.release(key.namespace());
        self.free.push(slot);
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

impl Index<u32> for Slots {
    type Output = Slot;
    fn index(&self, slot: u32) -> &Slot {
        &self.places[slot as usize]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.places[slot as usize]
    }
}

/// Namespaces in use, counted by their keys.
#[derive(Debug, Default)]
struct Namespaces {
    by_name: HashMap<Box<str>, (u32, u32)>,
    free: Vec<u32>,
    next: u32,
}

impl Namespaces {
    fn intern(&mut self, name: &str) -> u32 {
        if let Some((number, keys)) = self.by_name.get_mut(name) {
            *keys += 1;
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.by_name.insert(name.into(), (number, 1));
        number
    }

    fn release(&mut self, name: &str) {
        let (number, keys) = self.by_name.get_mut(name).expect("a released key was interned");
        *keys -= 1;
        if *keys == 0 {
            self.free.push(*number);
            self.by_name.remove(name);
        }
    }
}
