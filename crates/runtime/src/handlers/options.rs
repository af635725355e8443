//! Declares the options for the last declaration: filters for everything, retries for handlers. An option that does not
//! fit the declaration does not compile.

use std::sync::Arc;
use std::time::Duration;

use super::agenda::Role;
use super::declare::Handlers;
use super::filter::{self, ValueFilter};
use super::retry_policy::RetryPolicy;
use super::timer::Schedule;
use crate::kind::Kind;
use crate::kind::object::Object;
use crate::kind::object::ObjectTest;
use crate::queue::Backoff;

/// Nothing has been declared yet.
#[derive(Debug)]
pub enum NothingDeclared {}

/// A handler was declared last.
#[derive(Debug)]
pub enum HandlerDeclared {}

/// A timer was declared last.
#[derive(Debug)]
pub enum TimerDeclared {}

/// A daemon was declared last.
#[derive(Debug)]
pub enum DaemonDeclared {}

/// A listener was declared last.
#[derive(Debug)]
pub enum ListenerDeclared {}

mod sealed {
    /// Where the last declaration is stored.
    #[derive(Clone, Copy)]
    pub enum DeclaredPlace {
        Entry,
        Daemon,
        Listener,
    }

    /// A declaration that has filters.
    pub trait HasFilters {
        const PLACE: DeclaredPlace;
    }

    /// A declaration that is retried.
    pub trait HasRetries {}
}
pub(super) use sealed::DeclaredPlace;
use sealed::{HasFilters, HasRetries};

impl HasFilters for HandlerDeclared {
    const PLACE: DeclaredPlace = DeclaredPlace::Entry;
}
impl HasRetries for HandlerDeclared {}

impl HasFilters for TimerDeclared {
    const PLACE: DeclaredPlace = DeclaredPlace::Entry;
}
impl HasRetries for TimerDeclared {}

impl HasFilters for DaemonDeclared {
    const PLACE: DeclaredPlace = DeclaredPlace::Daemon;
}

impl HasFilters for ListenerDeclared {
    const PLACE: DeclaredPlace = DeclaredPlace::Listener;
}

impl<K: Kind, L: HasFilters> Handlers<K, L> {
    /// Calls the handler only for objects whose label matches: `.label("tier", "gold")`, `.label("tier",
    /// ValueFilter::Present)`.
    pub fn label(self, name: impl Into<String>, is: impl Into<ValueFilter>) -> Self {
        self.filter(filter::label(name.into(), is.into()))
    }

    /// Calls the handler only for objects whose annotation matches.
    pub fn annotation(self, name: impl Into<String>, is: impl Into<ValueFilter>) -> Self {
        self.filter(filter::annotation(name.into(), is.into()))
    }

    /// Calls the handler only for objects whose field has this value: `.field(|claim| claim.spec.tier.clone(),
    /// "gold".to_owned())`.
    pub fn field<V>(self, field: impl Fn(&K) -> V + Send + Sync + 'static, value: V) -> Self
    where
        V: PartialEq + Send + Sync + 'static,
    {
        self.when(move |object| field(object) == value)
    }

    /// Calls the handler only for objects that pass this test.
    pub fn when(self, test: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.filter(Arc::new(move |object: &Object| test(object.as_type())))
    }

    fn filter(mut self, test: ObjectTest) -> Self {
        self.plan.filters_of_last(L::PLACE).push(test);
        self
    }
}

impl<K: Kind, L: HasRetries> Handlers<K, L> {
    /// Retries the handler at most this many times for one state of the object (without limit by default).
    pub fn retries(self, retries: u32) -> Self {
        self.policy(|policy| policy.retries = Some(retries))
    }

    /// Retries the handler for this long after its first attempt, across restarts (without limit by default). An
    /// attempt that is running when the time is up is cancelled at its next await.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.policy(|policy| policy.timeout = Some(timeout))
    }

    /// Sets the pauses between attempts (1 s, 2 s, 4 s … 5 min by default).
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.policy(|policy| policy.backoff = backoff)
    }

    fn policy(mut self, change: impl FnOnce(&mut RetryPolicy)) -> Self {
        change(&mut self.plan.last_entry().policy);
        self
    }
}

impl<K: Kind> Handlers<K, TimerDeclared> {
    /// Counts the interval from the start of one call to the start of the next (by default from its end).
    pub fn sharp(self) -> Self {
        self.schedule(|schedule| schedule.is_sharp = true)
    }

    /// Ticks only after spec, labels and annotations have been unchanged for this long.
    pub fn idle(self, idle: Duration) -> Self {
        self.schedule(|schedule| schedule.idle = Some(idle))
    }

    /// Schedules the first call this long after the object's creation (at once by default).
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

impl<K: Kind> Handlers<K, DaemonDeclared> {
    /// Sets the pauses before a failed daemon is started again (1 s, 2 s, 4 s … 5 min by default).
    pub fn restart(mut self, backoff: Backoff) -> Self {
        self.plan.last_daemon().backoff = backoff;
        self
    }

    /// Sets how long the daemon may take to stop (5 s by default); after that it is cancelled at its next await.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.last_daemon().grace = grace;
        self
    }
}
