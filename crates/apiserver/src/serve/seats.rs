//! Room for requests: so many at once, and no user takes more than a share of it.
//!
//! A request keeps its seat until its answer is sent, so answers that nobody reads are counted, too. Only one whose body
//! is late hands it over when somebody else wants in, and gets a refusal of fixed size.
//!
//! **Invariant:** nobody ever has more seats than their share. So whoever fills it, by many requests or by answers they do not
//! read, leaves room for everybody else; bodies that never end keep nobody out.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Seats of one sort.
#[derive(Debug)]
pub(crate) struct Seats {
    share: usize,
    all: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_user: HashMap<Arc<str>, usize>,
    /// Those whose bodies are late, the first to be so first.
    late: BTreeMap<u64, (Arc<Sitter>, CancellationToken)>,
    next_late: u64,
}

/// A seat, free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat(Place);

/// Where a seat is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    seats: Arc<Seats>,
    sitter: Arc<Sitter>,
}

/// Who sits on a seat.
#[derive(Debug)]
struct Sitter {
    user: Arc<str>,
    /// Handed over: not theirs any more.
    has_left: AtomicBool,
}

/// A body that is late, until dropped.
#[derive(Debug)]
pub(crate) struct Late {
    place: Place,
    number: u64,
    leave: CancellationToken,
}

impl Seats {
    /// So many for one user, and so many for all.
    pub(crate) fn new(share: usize, all: usize) -> Arc<Self> {
        Arc::new(Self { share, all, taken: Mutex::default() })
    }

    /// A seat for this user: a free one, or that of somebody who is late.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Option<Seat> {
        let mut taken = self.taken();
        let is_share_full = taken.by_user.get(user).is_some_and(|count| *count >= self.share);
        let has_seat = if is_share_full {
            taken.send_away(|late| late == user)
        } else {
            taken.all < self.all || taken.send_away(|_| true)
        };
        if !has_seat {
            return None;
        }
        taken.all += 1;
        let user = match taken.by_user.get_key_value(user) {
            Some((user, _)) => Arc::clone(user),
            None => user.into(),
        };
        *taken.by_user.entry(Arc::clone(&user)).or_default() += 1;
        drop(taken);
        let sitter = Arc::new(Sitter { user, has_left: AtomicBool::new(false) });
        Some(Seat(Place { seats: Arc::clone(self), sitter }))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Sends away the one who has been late for the longest among those users, and frees the seat; false: nobody is.
    fn send_away(&mut self, is_meant: impl Fn(&str) -> bool) -> bool {
        let late = self.late.iter().find(|(_, (sitter, _))| is_meant(&sitter.user));
        let Some(number) = late.map(|(number, _)| *number) else { return false };
        let Some((sitter, leave)) = self.late.remove(&number) else { return false };
        self.free(&sitter);
        leave.cancel();
        true
    }

    /// The seat is free, unless it was handed over before.
    fn free(&mut self, sitter: &Sitter) {
        // Only ever changed under the lock.
        if sitter.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        self.all -= 1;
        match self.by_user.get_mut(&sitter.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.by_user.remove(&sitter.user)),
        }
    }
}

impl Seat {
    /// Where it is: for a body, which may turn out to be late.
    pub(crate) fn place(&self) -> Place {
        self.0.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seats.taken().free(&self.0.sitter);
    }
}

impl Place {
    /// Was the seat handed over?
    pub(crate) fn has_left(&self) -> bool {
        self.sitter.has_left.load(Ordering::Relaxed)
    }

    /// Notes that the body of the request that sits here is late.
    pub(crate) fn late(self) -> Late {
        let leave = CancellationToken::new();
        let mut taken = self.seats.taken();
        let number = taken.next_late;
        taken.next_late += 1;
        taken.late.insert(number, (Arc::clone(&self.sitter), leave.clone()));
        drop(taken);
        Late { place: self, number, leave }
    }
}

impl Late {
    /// Waits until somebody else needs the seat.
    pub(crate) async fn told_to_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.place.seats.taken().late.remove(&self.number);
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
        assert_eq!(seats.taken().by_user.len(), 2, "nobody is remembered without a seat");
    }

    #[test]
    fn who_is_late_gives_way_to_the_same_user_or_in_a_full_room_to_anybody() {
        let seats = Seats::new(2, 3);
        let all = ["jane", "jane", "joe"].map(|user| seats.take(user).expect("there is room"));
        let joe_late = all[2].place().late();
        assert!(seats.take("jane").is_none(), "a share is not widened by others");
        let jane_late = all[..2].iter().map(|seat| seat.place().late()).collect::<Vec<_>>();
        let third = seats.take("jane").expect("one of hers is late");
        assert!(jane_late[0].leave.is_cancelled() && !jane_late[1].leave.is_cancelled());
        let other = seats.take("jim").expect("somebody is late");
        assert!(joe_late.leave.is_cancelled() && !jane_late[1].leave.is_cancelled());
        drop(jane_late);
        assert!(seats.take("jane").is_none(), "a body that has come is not late any more");
        assert_eq!(seats.taken().all, 3, "nobody has more than there is");
        assert_eq!(seats.taken().by_user.get("jane"), Some(&2));
        let [left, stays, joe_left] = all;
        drop(left);
        assert!(seats.take("jane").is_none(), "a seat that was handed over is not freed again");
        drop(stays);
        drop(seats.take("jane").expect("she has one seat free"));
        drop((joe_left, third, other, joe_late));
        let taken = seats.taken();
        assert!(taken.all == 0 && taken.by_user.is_empty() && taken.late.is_empty());
    }
}
