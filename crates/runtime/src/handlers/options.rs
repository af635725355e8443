//! Options of what was declared last: filters for everything, attempts for handlers. What an option does not fit does
//! not compile.

use std::sync::Arc;
use std::time::Duration;

use super::agenda::Role;
use super::declare::Handlers;
use super::filter::{self, Is};
use super::policy::Policy;
use super::timer::Schedule;
use crate::engine::Test;
use crate::kind::Kind;
use crate::object::Object;
use crate::queue::Backoff;

/// Nothing was declared yet.
#[derive(Debug)]
pub enum Nothing {}

/// A handler was declared last.
#[derive(Debug)]
pub enum Handler {}

/// A timer was declared last.
#[derive(Debug)]
pub enum Timer {}

/// A daemon was declared last.
#[derive(Debug)]
pub enum Daemon {}

/// A listener was declared last.
#[derive(Debug)]
pub enum Listener {}

mod sealed {
    /// Where what was declared last is found.
    #[derive(Clone, Copy)]
    pub enum Sort {
        Entry,
        Daemon,
        Listener,
    }

    /// Something that has filters.
    pub trait Filtered {
        const SORT: Sort;
    }

    /// Something that is tried again.
    pub trait Tried {}
}
pub(super) use sealed::Sort;
use sealed::{Filtered, Tried};

impl Filtered for Handler {
    const SORT: Sort = Sort::Entry;
}
impl Tried for Handler {}

impl Filtered for Timer {
    const SORT: Sort = Sort::Entry;
}
impl Tried for Timer {}

impl Filtered for Daemon {
    const SORT: Sort = Sort::Daemon;
}

impl Filtered for Listener {
    const SORT: Sort = Sort::Listener;
}

impl<K: Kind, L: Filtered> Handlers<K, L> {
    /// Only objects whose label is this: `.label("tier", "gold")`, `.label("tier", Is::Present)`.
    pub fn label(self, name: impl Into<String>, is: impl Into<Is>) -> Self {
        self.filter(filter::label(name.into(), is.into()))
    }

    /// Only objects whose annotation is this.
    pub fn annotation(self, name: impl Into<String>, is: impl Into<Is>) -> Self {
        self.filter(filter::annotation(name.into(), is.into()))
    }

    /// Only objects whose field has this value: `.field(|claim| claim.spec.tier.clone(), "gold".to_owned())`.
    pub fn field<V>(self, field: impl Fn(&K) -> V + Send + Sync + 'static, value: V) -> Self
    where
        V: PartialEq + Send + Sync + 'static,
    {
        self.when(move |object| field(object) == value)
    }

    /// Only objects that pass this test.
    pub fn when(self, test: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.filter(Arc::new(move |object: &Object| test(object.as_type())))
    }

    fn filter(mut self, test: Test) -> Self {
        self.plan.filters_of_last(L::SORT).push(test);
        self
    }
}

impl<K: Kind, L: Tried> Handlers<K, L> {
    /// Called again at most this many times for one state of the object (without end unless told).
    pub fn retries(self, retries: u32) -> Self {
        self.policy(|policy| policy.retries = Some(retries))
    }

    /// Tried for this long from the first attempt on, over restarts (without end unless told). An attempt that runs
    /// when the time is over is cut off where it waits.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.policy(|policy| policy.timeout = Some(timeout))
    }

    /// The pauses between attempts (1 s, 2 s, 4 s … 5 min unless told).
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.policy(|policy| policy.backoff = backoff)
    }

    fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.plan.last_entry().policy);
        self
    }
}

impl<K: Kind> Handlers<K, Timer> {
    /// The interval is counted from tick to tick (from the end of one to the next unless told).
    pub fn sharp(self) -> Self {
        self.schedule(|schedule| schedule.is_sharp = true)
    }

    /// Ticks only when spec, labels and annotations have been the same for this long.
    pub fn idle(self, idle: Duration) -> Self {
        self.schedule(|schedule| schedule.idle = Some(idle))
    }

    /// The first tick comes this long after the object's creation (at once unless told).
    pub fn initial_delay(self, delay: Duration) -> Self {
        self.schedule(|schedule| schedule.initial_delay = delay)
    }

    fn schedule(mut self, change: impl FnOnce(&mut Schedule)) -> Self {
        if let Role::Timer(schedule) = &mut self.plan.last_entry().role {
            change(schedule);
        }
        self
    }
}

impl<K: Kind> Handlers<K, Daemon> {
    /// The pauses before a failed daemon is started again (1 s, 2 s, 4 s … 5 min unless told).
    pub fn restart(mut self, backoff: Backoff) -> Self {
        self.plan.last_daemon().backoff = backoff;
        self
    }

    /// How long it may take to end when told to stop (5 s unless told); then it is dropped where it waits.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.last_daemon().grace = grace;
        self
    }
}
