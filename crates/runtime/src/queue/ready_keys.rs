//! Holds the keys that may run now: two classes, each with a ring of namespaces, each namespace with a FIFO.
//!
//! Fresh work goes before background work, but background work ages: after [`AGEING`] it gets one turn in [`TURNS`], so
//! that it neither starves nor holds up what people are waiting for. Within a class, namespaces take turns, so one
//! tenant's thousand keys delay another's single key by one turn. A namespace at its limit leaves the ring until one of
//! its runs finishes. All operations are O(1) amortised.
//!
//! **Invariant:** a namespace is in a class's ring exactly when its FIFO in that class holds a ticket and it is below
//! its limit. A ticket whose stamp differs from its slot's is dead and is skipped, which is how promotion avoids a
//! search.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A background key this much older than the fresh ones gets turns ahead of them: half a minute of delay is invisible
/// in a resync.
const AGEING: Duration = Duration::from_secs(30);

/// Aged background keys get one of this many turns, as long as there are fresh ones. A list of thousands may take
/// minutes, and an edit must not wait for all of it.
const TURNS: u32 = 4;

/// The class of a ready key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueuePriority {
    Background,
    Fresh,
}

impl QueuePriority {
    const ALL: [Self; 2] = [Self::Fresh, Self::Background];
}

/// One position in a FIFO.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) slot: u32,
    pub(super) stamp: u32,
    pub(super) since: Instant,
}

#[derive(Debug, Default)]
struct Lane {
    fifo: VecDeque<Ticket>,
    is_in_ring: bool,
}

#[derive(Debug, Default)]
struct Namespace {
    lanes: [Lane; 2],
    running: u32,
}

/// All ready keys.
#[derive(Debug)]
pub(super) struct Ready {
    namespaces: Vec<Namespace>,
    rings: [VecDeque<u32>; 2],
    limit: u32,
    /// The number of turns that fresh keys took while aged ones waited.
    passed_over: u32,
}

impl Ready {
    pub(super) fn new(per_namespace: Option<u32>) -> Self {
        let limit = per_namespace.unwrap_or(u32::MAX);
        Self { namespaces: Vec::new(), rings: Default::default(), limit, passed_over: 0 }
    }

    pub(super) fn push(&mut self, namespace: u32, class: QueuePriority, ticket: Ticket) {
        let index = namespace as usize;
        if index >= self.namespaces.len() {
            self.namespaces.resize_with(index + 1, Namespace::default);
        }
        self.namespaces[index].lanes[class as usize].fifo.push_back(ticket);
        self.enter_ring(namespace, class);
    }

    /// Takes the key that should run next. `is_alive` returns whether a ticket is still valid for its slot.
    pub(super) fn pop(&mut self, is_alive: impl Fn(Ticket) -> bool) -> Option<Ticket> {
        let class = self.turn(&is_alive)?;
        let namespace = self.rings[class as usize].pop_front().expect("head found a namespace in this ring");
        let state = &mut self.namespaces[namespace as usize];
        let lane = &mut state.lanes[class as usize];
        let ticket = lane.fifo.pop_front().expect("head found a ticket in this lane");
        lane.is_in_ring = false;
        state.running += 1;
        self.enter_ring(namespace, class);
        Some(ticket)
    }

    /// Returns the class whose turn it is.
    fn turn(&mut self, is_alive: &impl Fn(Ticket) -> bool) -> Option<QueuePriority> {
        let (fresh, background) =
            (self.head(QueuePriority::Fresh, is_alive), self.head(QueuePriority::Background, is_alive));
        let (Some(fresh), Some(background)) = (fresh, background) else {
            return fresh.map(|_| QueuePriority::Fresh).or(background.map(|_| QueuePriority::Background));
        };
        if background.since + AGEING >= fresh.since {
            self.passed_over = 0;
            return Some(QueuePriority::Fresh);
        }
        // The first aged key runs at once.
        let is_passed_over = self.passed_over > 0 && self.passed_over < TURNS;
        self.passed_over = if is_passed_over { self.passed_over + 1 } else { 1 };
        Some(if is_passed_over { QueuePriority::Fresh } else { QueuePriority::Background })
    }

    /// Records that a run in this namespace finished.
    pub(super) fn ended(&mut self, namespace: u32) {
        self.namespaces[namespace as usize].running -= 1;
        for class in QueuePriority::ALL {
            self.enter_ring(namespace, class);
        }
    }

    /// Returns the ticket whose turn it is in a class; drops dead tickets and empty or full namespaces along the way.
    fn head(&mut self, class: QueuePriority, is_alive: &impl Fn(Ticket) -> bool) -> Option<Ticket> {
        while let Some(&namespace) = self.rings[class as usize].front() {
            let state = &mut self.namespaces[namespace as usize];
            let is_full = state.running >= self.limit;
            let lane = &mut state.lanes[class as usize];
            while lane.fifo.front().is_some_and(|ticket| !is_alive(*ticket)) {
                lane.fifo.pop_front();
            }
            match lane.fifo.front() {
                Some(ticket) if !is_full => return Some(*ticket),
                _ => lane.is_in_ring = false,
            }
            self.rings[class as usize].pop_front();
        }
        None
    }

    fn enter_ring(&mut self, namespace: u32, class: QueuePriority) {
        let state = &mut self.namespaces[namespace as usize];
        let lane = &mut state.lanes[class as usize];
        if !lane.is_in_ring && !lane.fifo.is_empty() && state.running < self.limit {
            lane.is_in_ring = true;
            self.rings[class as usize].push_back(namespace);
        }
    }
}
