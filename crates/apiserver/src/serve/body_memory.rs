//! Limits the memory of request bodies.
//!
//! A body is counted piece by piece as it arrives, and until the response to its request is sent, which is how long it
//! is kept. A body that is late loses its memory when another one needs it, as its request loses its slot.
//!
//! **Invariant:** the bodies of one account stay below [`USER_BODIES_BYTES_MAX`], and those of all users below
//! [`BODIES_BYTES_MAX`]. Administrators have separate memory, so that no user's bodies can lock them out. Bodies that
//! never end do not lock anyone out.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::auth::{Identity, MASTERS, account_of};
use crate::limits::{BODIES_BYTES_MAX, USER_BODIES_BYTES_MAX};

/// The memory of all request bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyMemory(Arc<Mutex<BodyMemoryUse>>);

#[derive(Debug, Default)]
struct BodyMemoryUse {
    users: usize,
    administrators: usize,
    by_account: HashMap<Arc<str>, usize>,
    /// The bodies that are late, in the order in which they became late.
    late: BTreeMap<u64, (Arc<HeldBody>, CancellationToken)>,
    next_late: u64,
}

/// A body in memory.
#[derive(Debug)]
struct HeldBody {
    account: Arc<str>,
    is_administrator: bool,
    /// This and `was_evicted` are changed only under the lock.
    bytes: AtomicUsize,
    /// Whether its memory was given to another body.
    was_evicted: AtomicBool,
}

/// The memory of one body, until dropped.
#[derive(Debug)]
pub(crate) struct BodyMemoryReservation {
    bodies: BodyMemory,
    body: Arc<HeldBody>,
}

/// A body that is late, until dropped.
#[derive(Debug)]
pub(crate) struct LateBodyMemory {
    bodies: BodyMemory,
    number: u64,
    eviction: CancellationToken,
}

impl BodyMemory {
    /// Creates the reservation for a body of which nothing has arrived yet.
    pub(crate) fn open(&self, identity: &Identity) -> BodyMemoryReservation {
        let body = HeldBody {
            account: account_of(identity).into(),
            is_administrator: identity.is_in(MASTERS),
            bytes: AtomicUsize::new(0),
            was_evicted: AtomicBool::new(false),
        };
        BodyMemoryReservation { bodies: self.clone(), body: Arc::new(body) }
    }

    fn held(&self) -> MutexGuard<'_, BodyMemoryUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyMemoryUse {
    fn all_mut(&mut self, is_administrator: bool) -> &mut usize {
        if is_administrator { &mut self.administrators } else { &mut self.users }
    }

    /// Makes room for more bytes of a body, using the memory of late bodies if necessary: those of the same account if
    /// its share is full, otherwise any.
    fn make_room(&mut self, body: &HeldBody, bytes: usize) -> bool {
        let own = |late: &HeldBody| late.account == body.account;
        loop {
            let theirs = self.by_account.get(&body.account).copied().unwrap_or_default() + bytes;
            let has_room = if theirs > USER_BODIES_BYTES_MAX {
                self.evict_late(body, own)
            } else if *self.all_mut(body.is_administrator) + bytes > BODIES_BYTES_MAX {
                self.evict_late(body, |_| true)
            } else {
                return true;
            };
            if !has_room {
                return false;
            }
        }
    }

    /// Frees the memory of the body that has been late for the longest among these, other than `body` itself; returns
    /// false if there is none.
    fn evict_late(&mut self, body: &HeldBody, is_meant: impl Fn(&HeldBody) -> bool) -> bool {
        let is_other = |late: &HeldBody| {
            late.is_administrator == body.is_administrator && !std::ptr::eq(late, body) && is_meant(late)
        };
        let late = self.late.iter().find(|(_, (late, _))| is_other(late));
        let Some(number) = late.map(|(number, _)| *number) else { return false };
        let Some((late, eviction)) = self.late.remove(&number) else { return false };
        late.was_evicted.store(true, Ordering::Relaxed);
        self.free(&late);
        eviction.cancel();
        true
    }

    fn free(&mut self, body: &HeldBody) {
        let bytes = body.bytes.swap(0, Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        *self.all_mut(body.is_administrator) -= bytes;
        match self.by_account.get_mut(&body.account) {
            Some(theirs) if *theirs > bytes => *theirs -= bytes,
            _ => drop(self.by_account.remove(&body.account)),
        }
    }
}

impl BodyMemoryReservation {
    /// Reserves memory for more bytes; returns false if there is none, or if the body has lost its memory.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let mut held = self.bodies.held();
        if self.was_evicted() || !held.make_room(&self.body, bytes) {
            return false;
        }
        *held.all_mut(self.body.is_administrator) += bytes;
        *held.by_account.entry(Arc::clone(&self.body.account)).or_default() += bytes;
        self.body.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Returns whether the memory was given to another body.
    pub(crate) fn was_evicted(&self) -> bool {
        self.body.was_evicted.load(Ordering::Relaxed)
    }

    /// Records that the body is late.
    pub(crate) fn mark_late(&self) -> LateBodyMemory {
        let eviction = CancellationToken::new();
        let mut held = self.bodies.held();
        let number = held.next_late;
        held.next_late += 1;
        held.late.insert(number, (Arc::clone(&self.body), eviction.clone()));
        drop(held);
        LateBodyMemory { bodies: self.bodies.clone(), number, eviction }
    }
}

impl LateBodyMemory {
    /// Waits until another body needs the memory.
    pub(crate) async fn evicted(&self) {
        self.eviction.cancelled().await;
    }
}

impl Drop for LateBodyMemory {
    fn drop(&mut self) {
        self.bodies.held().late.remove(&self.number);
    }
}

impl Drop for BodyMemoryReservation {
    fn drop(&mut self) {
        self.bodies.held().free(&self.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    /// Reserves bodies of 2 MiB until there is no more memory.
    fn fill(bodies: &BodyMemory, who: &Identity) -> Vec<BodyMemoryReservation> {
        let body = || Some(bodies.open(who)).filter(|room| room.grow(2 * MIB));
        std::iter::from_fn(body).take(1000).collect()
    }

    #[test]
    fn bodies_are_bounded_for_each_user_and_for_all_and_administrators_have_their_own() {
        let bodies = BodyMemory::default();
        let names: Vec<_> = (0..20).map(|at| user(&format!("user-{at}"))).collect();
        let held: Vec<_> = names.iter().map(|who| fill(&bodies, who)).collect();
        assert_eq!(held[0].len(), USER_BODIES_BYTES_MAX / (2 * MIB));
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), BODIES_BYTES_MAX / (2 * MIB));
        assert!(!fill(&bodies, &Identity::admin()).is_empty());
        drop(held);
        assert_eq!(fill(&bodies, &names[19]).len(), USER_BODIES_BYTES_MAX / (2 * MIB));
        let held = bodies.held();
        assert!(held.by_account.is_empty() && held.users == 0 && held.administrators == 0);
    }

    #[test]
    fn service_accounts_of_a_namespace_share_the_memory_of_one_user() {
        let bodies = BodyMemory::default();
        let accounts = ["a", "b", "c"].map(|name| user(&format!("system:serviceaccount:team:{name}")));
        let held = accounts.each_ref().map(|who| fill(&bodies, who));
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), USER_BODIES_BYTES_MAX / (2 * MIB));
        assert!(!fill(&bodies, &user("joe")).is_empty());
    }

    #[test]
    fn a_late_body_loses_its_memory_to_the_same_account_or_when_all_is_taken_to_anyone() {
        let bodies = BodyMemory::default();
        let names = ["jane", "joe", "jim"].map(user);
        let [jane, joe, jim] = names.each_ref().map(|who| fill(&bodies, who));
        assert!(fill(&bodies, &user("new")).is_empty(), "all memory is taken");
        let joe_late = joe[0].mark_late();
        assert!(fill(&bodies, &names[0]).is_empty(), "a share is not widened by others");
        let new = fill(&bodies, &user("new"));
        assert_eq!(new.len(), 1, "one body was late");
        assert!(joe_late.eviction.is_cancelled() && joe[0].was_evicted() && !joe[0].grow(1));
        let jane_late = jane[0].mark_late();
        assert!(!jane[0].grow(1) && !jane[0].was_evicted(), "a body does not make room for itself");
        assert_eq!(fill(&bodies, &names[0]).len(), 1);
        assert!(jane_late.eviction.is_cancelled());
        let arrived = jim[0].mark_late();
        drop(arrived);
        assert!(bodies.held().late.is_empty(), "a body that has arrived is no longer late");
        drop((jane, joe, jim, new, jane_late, joe_late));
        let held = bodies.held();
        assert!(held.by_account.is_empty() && held.users == 0 && held.late.is_empty());
    }
}
