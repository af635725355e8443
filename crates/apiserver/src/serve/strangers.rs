//! Connections that have not yet said who they are: the TLS handshake is not finished.
//!
//! **Invariant:** there are only so many of them. One more, and the oldest has to go: a client that means it is done in a moment, so whoever opens connections and says nothing only drives out their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All strangers.
#[derive(Clone)]
pub(crate) struct Strangers {
    most: usize,
    waiting: Arc<Mutex<Waiting>>,
}

/// Oldest first.
#[derive(Default)]
struct Waiting {
    next: u64,
    by_age: BTreeMap<u64, CancellationToken>,
}

/// One of them, until dropped.
pub(super) struct Stranger {
    strangers: Strangers,
    number: u64,
    leave: CancellationToken,
}

impl Strangers {
    /// So many at once.
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: Arc::default() }
    }

    /// Lets one more in, for which the oldest may have to leave.
    pub(super) fn admit(&self) -> Stranger {
        let mut waiting = self.waiting();
        if waiting.by_age.len() >= self.most
            && let Some((_, oldest)) = waiting.by_age.pop_first()
        {
            oldest.cancel();
        }
        let (number, leave) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_age.insert(number, leave.clone());
        Stranger { strangers: self.clone(), number, leave }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// Waits until it has to leave.
    pub(super) async fn told_to_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.waiting().by_age.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_for_the_newest() {
        let strangers = Strangers::new(3);
        let mut all = (0..3).map(|_| strangers.admit()).collect::<Vec<_>>();
        assert!(all.iter().all(|one| !one.leave.is_cancelled()));
        let known = all.remove(0);
        drop(known);
        all.push(strangers.admit());
        assert!(all.iter().all(|one| !one.leave.is_cancelled()), "one who became known made room");
        let newest = strangers.admit();
        assert!(all[0].leave.is_cancelled() && !all[1].leave.is_cancelled() && !newest.leave.is_cancelled());
        drop((all, newest));
        assert!(strangers.waiting().by_age.is_empty());
    }
}
