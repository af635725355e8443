//! Room for requests: so many at once, and no user takes more than a share of it.
//!
//! **Invariant:** whoever fills their share, by many requests or by bodies that never end, leaves room for everybody else.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Seats of one sort.
#[derive(Debug)]
pub(crate) struct Seats {
    all: Semaphore,
    share: usize,
    taken: Mutex<HashMap<Box<str>, usize>>,
}

/// A seat, free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    seats: &'a Seats,
    user: Box<str>,
    _permit: SemaphorePermit<'a>,
}

impl Seats {
    /// So many for one user, and so many for all.
    pub(crate) fn new(share: usize, all: usize) -> Self {
        Self { all: Semaphore::new(all), share, taken: Mutex::default() }
    }

    /// A seat for this user, if one is free.
    pub(crate) fn take(&self, user: &str) -> Option<Seat<'_>> {
        let permit = self.all.try_acquire().ok()?;
        let mut taken = self.taken();
        match taken.get_mut(user) {
            Some(count) if *count >= self.share => return None,
            Some(count) => *count += 1,
            None => drop(taken.insert(user.into(), 1)),
        }
        Some(Seat { seats: self, user: user.into(), _permit: permit })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat<'_> {
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
