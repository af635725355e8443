//! Limits the memory of request bodies.
//!
//! A body is counted piece by piece while it arrives, and until its request is answered: that is how long it is kept.
//!
//! **Invariant:** the bodies of one user stay below [`USER_BODIES_BYTES_MAX`], those of all users below
//! [`BODIES_BYTES_MAX`]. Administrators have memory of their own, so that nobody's bodies can lock them out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::{Identity, MASTERS};
use crate::limits::{BODIES_BYTES_MAX, USER_BODIES_BYTES_MAX};

/// The memory of all request bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyMemory(Arc<Mutex<BodyMemoryUse>>);

#[derive(Debug, Default)]
struct BodyMemoryUse {
    users: usize,
    administrators: usize,
    by_user: HashMap<Arc<str>, usize>,
}

/// The memory of one body, until dropped.
#[derive(Debug)]
pub(crate) struct BodyMemoryReservation {
    bodies: BodyMemory,
    user: Arc<str>,
    is_administrator: bool,
    bytes: AtomicUsize,
}

impl BodyMemory {
    /// Creates the reservation of a body of which nothing has arrived yet.
    pub(crate) fn open(&self, identity: &Identity) -> BodyMemoryReservation {
        BodyMemoryReservation {
            bodies: self.clone(),
            user: (*identity.name).into(),
            is_administrator: identity.is_in(MASTERS),
            bytes: AtomicUsize::new(0),
        }
    }

    fn held(&self) -> MutexGuard<'_, BodyMemoryUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyMemoryReservation {
    /// Reserves memory for more bytes; returns false if there is none.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let mut held = self.bodies.held();
        let theirs = held.by_user.get(&self.user).copied().unwrap_or_default() + bytes;
        let all = if self.is_administrator { held.administrators } else { held.users } + bytes;
        let fits = theirs <= USER_BODIES_BYTES_MAX && all <= BODIES_BYTES_MAX;
        if fits {
            *(if self.is_administrator { &mut held.administrators } else { &mut held.users }) = all;
            held.by_user.insert(Arc::clone(&self.user), theirs);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        fits
    }
}

impl Drop for BodyMemoryReservation {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        let mut held = self.bodies.held();
        *(if self.is_administrator { &mut held.administrators } else { &mut held.users }) -= bytes;
        match held.by_user.get_mut(&self.user) {
            Some(theirs) if *theirs > bytes => *theirs -= bytes,
            _ => drop(held.by_user.remove(&self.user)),
        }
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
        assert!(held.by_user.is_empty() && held.users == 0 && held.administrators == 0);
    }
}
