//! How many bytes of request bodies may be held at once.
//!
//! A body is counted while it arrives, piece by piece, and until its request is answered: that is how long it is kept.
//!
//! **Invariant:** the bodies of one user stay below [`USER_BODIES_BYTES_MAX`], those of all users below [`BODIES_BYTES_MAX`].
//! Administrators have room of their own, so that nobody's bodies keep them from acting.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::{BODIES_BYTES_MAX, USER_BODIES_BYTES_MAX};
use crate::auth::{Identity, MASTERS};

/// The room for bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    users: usize,
    administrators: usize,
    by_user: HashMap<Arc<str>, usize>,
}

/// What one body holds, until dropped.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    bodies: Bodies,
    user: Arc<str>,
    is_administrator: bool,
    bytes: AtomicUsize,
}

impl Bodies {
    /// The room of a body of which nothing has come yet.
    pub(crate) fn open(&self, identity: &Identity) -> BodyRoom {
        BodyRoom {
            bodies: self.clone(),
            user: (*identity.name).into(),
            is_administrator: identity.is_in(MASTERS),
            bytes: AtomicUsize::new(0),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyRoom {
    /// Takes room for more bytes; false: there is none.
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

impl Drop for BodyRoom {
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

    /// As many bodies of 2 MiB as there is room for.
    fn fill(bodies: &Bodies, who: &Identity) -> Vec<BodyRoom> {
        let body = || Some(bodies.open(who)).filter(|room| room.grow(2 * MIB));
        std::iter::from_fn(body).take(1000).collect()
    }

    #[test]
    fn bodies_are_bounded_for_each_user_and_for_all_and_administrators_have_their_own() {
        let bodies = Bodies::default();
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
