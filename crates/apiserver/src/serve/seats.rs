//! Room for requests: so many at once, and no user takes more than a share of it.
//!
//! A request keeps its seat until its answer is sent, so answers that nobody reads are counted, too.
//!
//! **Invariant:** whoever fills their share, by many requests, by bodies that never end or by answers they do not read,
//! leaves room for everybody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Seats of one sort.
#[derive(Debug)]
pub(crate) struct Seats {
    all: Arc<Semaphore>,
    share: usize,
    taken: Mutex<HashMap<Box<str>, usize>>,
}

/// A seat, free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    user: Box<str>,
    _permit: OwnedSemaphorePermit,
}

impl Seats {
    /// So many for one user, and so many for all.
    pub(crate) fn new(share: usize, all: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), share, taken: Mutex::default() })
    }

    /// A seat for this user, if one is free.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Option<Seat> {
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let mut taken = self.taken();
        match taken.get_mut(user) {
            Some(count) if *count >= self.share => return None,
            Some(count) => *count += 1,
            None => drop(taken.insert(user.into(), 1)),
        }
        Some(Seat { seats: Arc::clone(self), user: user.into(), _permit: permit })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        match taken.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&self.user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_fills_a_share_and_all_fill_the_room() {
        let seats = Seats::new(2, 3);
        let first = seats.take("jane").expect("there is room");
        let _second = seats.take("jane").expect("there is room");
        assert!(seats.take("jane").is_none(), "the share is full");
        let _other = seats.take("joe").expect("others have room");
        assert!(seats.take("joe").is_none(), "the room is full");
        drop(first);
        assert!(seats.take("jane").is_some());
        assert_eq!(seats.taken().len(), 2, "nobody is remembered without a seat");
    }
}
