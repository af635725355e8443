//! Limits the number of concurrent requests, per user and in total.
//!
//! A request keeps its slot until its response is sent, so unread responses also count. Only a request whose body is
//! late loses its slot when another request needs one, and gets a refusal of fixed size.
//!
//! **Invariant:** no user ever has more slots than their share. A user who fills it, with many requests or unread
//! responses, therefore leaves slots for all others, and endless bodies do not block other clients.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The slots for one class of requests.
#[derive(Debug)]
pub(crate) struct RequestSlots {
    share: usize,
    all: usize,
    taken: Mutex<TakenSlots>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    all: usize,
    by_user: HashMap<Arc<str>, usize>,
    /// The requests whose bodies are late, in the order in which they became late.
    late: BTreeMap<u64, (Arc<SlotOwner>, CancellationToken)>,
    next_late: u64,
}

/// A slot, free again when dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot(SlotHandle);

/// Refers to a slot without occupying it.
#[derive(Clone, Debug)]
pub(crate) struct SlotHandle {
    slots: Arc<RequestSlots>,
    owner: Arc<SlotOwner>,
}

/// The owner of a slot.
#[derive(Debug)]
struct SlotOwner {
    user: Arc<str>,
    /// Whether the slot was given to another request.
    was_evicted: AtomicBool,
}

/// A body that is late, until dropped.
#[derive(Debug)]
pub(crate) struct LateBody {
    handle: SlotHandle,
    number: u64,
    eviction: CancellationToken,
}

impl RequestSlots {
    /// Creates slots: `share` for one user, `all` in total.
    pub(crate) fn new(share: usize, all: usize) -> Arc<Self> {
        Arc::new(Self { share, all, taken: Mutex::default() })
    }

    /// Takes a slot for this user: a free one, or one from a request whose body is late.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Option<RequestSlot> {
        let mut taken = self.taken();
        let is_share_full = taken.by_user.get(user).is_some_and(|count| *count >= self.share);
        let has_slot = if is_share_full {
            taken.evict_late(|late| late == user)
        } else {
            taken.all < self.all || taken.evict_late(|_| true)
        };
        if !has_slot {
            return None;
        }
        taken.all += 1;
        let user = match taken.by_user.get_key_value(user) {
            Some((user, _)) => Arc::clone(user),
            None => user.into(),
        };
        *taken.by_user.entry(Arc::clone(&user)).or_default() += 1;
        drop(taken);
        let owner = Arc::new(SlotOwner { user, was_evicted: AtomicBool::new(false) });
        Some(RequestSlot(SlotHandle { slots: Arc::clone(self), owner }))
    }

    fn taken(&self) -> MutexGuard<'_, TakenSlots> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakenSlots {
    /// Evicts the request that has been late for the longest among these users, and frees its slot; returns false if
    /// there is none.
    fn evict_late(&mut self, is_meant: impl Fn(&str) -> bool) -> bool {
        let late = self.late.iter().find(|(_, (owner, _))| is_meant(&owner.user));
        let Some(number) = late.map(|(number, _)| *number) else { return false };
        let Some((owner, eviction)) = self.late.remove(&number) else { return false };
        self.free(&owner);
        eviction.cancel();
        true
    }

    /// Frees the slot, unless it was already given to another request.
    fn free(&mut self, owner: &SlotOwner) {
        // This is only ever changed under the lock.
        if owner.was_evicted.swap(true, Ordering::Relaxed) {
            return;
        }
        self.all -= 1;
        match self.by_user.get_mut(&owner.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.by_user.remove(&owner.user)),
        }
    }
}

impl RequestSlot {
    /// Returns a reference to the slot, for a body that may turn out to be late.
    pub(crate) fn handle(&self) -> SlotHandle {
        self.0.clone()
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.slots.taken().free(&self.0.owner);
    }
}

impl SlotHandle {
    /// Returns whether the slot was given to another request.
    pub(crate) fn was_evicted(&self) -> bool {
        self.owner.was_evicted.load(Ordering::Relaxed)
    }

    /// Records that the body of the request in this slot is late.
    pub(crate) fn mark_late(self) -> LateBody {
        let eviction = CancellationToken::new();
        let mut taken = self.slots.taken();
        let number = taken.next_late;
        taken.next_late += 1;
        taken.late.insert(number, (Arc::clone(&self.owner), eviction.clone()));
        drop(taken);
        LateBody { handle: self, number, eviction }
    }
}

impl LateBody {
    /// Waits until another request needs the slot.
    pub(crate) async fn evicted(&self) {
        self.eviction.cancelled().await;
    }
}

impl Drop for LateBody {
    fn drop(&mut self) {
        self.handle.slots.taken().late.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_for_each_user_and_in_all() {
        let slots = RequestSlots::new(2, 3);
        let first = slots.take("jane").expect("there is room");
        let _second = slots.take("jane").expect("there is room");
        assert!(slots.take("jane").is_none(), "the share is full");
        let _other = slots.take("joe").expect("others have room");
        assert!(slots.take("joe").is_none(), "all slots are taken");
        drop(first);
        assert!(slots.take("jane").is_some());
        assert_eq!(slots.taken().by_user.len(), 2, "no user is remembered without a slot");
    }

    #[test]
    fn a_late_body_loses_its_slot_to_the_same_user_or_when_all_are_taken_to_anyone() {
        let slots = RequestSlots::new(2, 3);
        let all = ["jane", "jane", "joe"].map(|user| slots.take(user).expect("there is room"));
        let joe_late = all[2].handle().mark_late();
        assert!(slots.take("jane").is_none(), "a share is not widened by others");
        let jane_late = all[..2].iter().map(|slot| slot.handle().mark_late()).collect::<Vec<_>>();
        let third = slots.take("jane").expect("one of hers is late");
        assert!(jane_late[0].eviction.is_cancelled() && !jane_late[1].eviction.is_cancelled());
        let other = slots.take("jim").expect("somebody is late");
        assert!(joe_late.eviction.is_cancelled() && !jane_late[1].eviction.is_cancelled());
        drop(jane_late);
        assert!(slots.take("jane").is_none(), "a body that has arrived is no longer late");
        assert_eq!(slots.taken().all, 3, "the total stays at the limit");
        assert_eq!(slots.taken().by_user.get("jane"), Some(&2));
        let [left, stays, joe_left] = all;
        drop(left);
        assert!(slots.take("jane").is_none(), "a slot that was given away is not freed again");
        drop(stays);
        drop(slots.take("jane").expect("one of her slots is free"));
        drop((joe_left, third, other, joe_late));
        let taken = slots.taken();
        assert!(taken.all == 0 && taken.by_user.is_empty() && taken.late.is_empty());
    }
}
