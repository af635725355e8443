//! Tracks when keys are due, in a heap of times; each slot also knows its own time.
//!
//! **Invariant:** the slot is authoritative. An entry whose time differs from its slot's is dead; it is dropped when it
//! reaches the top, and all dead entries are dropped when they outnumber the live ones. A million keys that settle
//! (each schedules its next resync, far in the future and at random) therefore cost a push each, which is O(1) on
//! average and touches little memory, whereas an ordered set would walk a tree that does not fit into any processor
//! cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

/// The number of dead entries that are always tolerated: below this, a sweep costs more than it frees.
const DEAD_TOLERATED: usize = 64;

/// The times at which slots are due.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    alive: usize,
}

impl Timers {
    /// Makes this slot due at this time.
    pub(super) fn set(&mut self, at: Instant, slot: u32) {
        self.heap.push(Reverse((at, slot)));
        self.alive += 1;
    }

    /// Records that a slot is no longer due at its previous time; `is_alive` compares an entry with its slot.
    pub(super) fn unset(&mut self, is_alive: impl Fn(Instant, u32) -> bool) {
        self.alive -= 1;
        if self.heap.len() > 2 * self.alive + DEAD_TOLERATED {
            self.heap.retain(|Reverse((at, slot))| is_alive(*at, *slot));
        }
        while let Some(Reverse((at, slot))) = self.heap.peek()
            && !is_alive(*at, *slot)
        {
            self.heap.pop();
        }
    }

    /// Returns the slot that is due first.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.peek().map(|Reverse(entry)| *entry)
    }

    /// Returns how many slots have a timer.
    pub(super) fn len(&self) -> usize {
        self.alive
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_that_is_replanned_for_ever_leaves_no_trail() {
        let start = Instant::now();
        let mut timers = Timers::default();
        let mut truth = start;
        timers.set(truth, 0);
        for second in 1..10_000 {
            truth = start + Duration::from_secs(second);
            timers.set(truth, 0);
            timers.unset(|at, _| at == truth);
            assert!(timers.heap.len() <= DEAD_TOLERATED + 2);
        }
        assert_eq!((timers.first(), timers.len()), (Some((truth, 0)), 1));
    }
}
