//! The work queue is sans I/O: time is passed in as an argument, and workers live elsewhere.
//!
//! **Invariants.** A key runs at most once at a time. A trigger is never lost: one that arrives while its key is
//! running makes it run again. Waiting is fair (see `ready_keys`). All operations are O(1), timers O(log n).
//!
//! **Backoff is not spent by unrelated triggers.** While a failing key waits for its retry, an edit of the object runs
//! it at once; the first other event during that time may run it once, early; echoes of our own writes, lists and
//! resyncs wait with the key. A failure of such an early run neither lengthens nor shortens the schedule. After a
//! terminal failure only an edit runs the key.

use std::time::Duration;

use homeostat_core::journal::Cause;
use homeostat_core::{Entropy, Key};
use tokio::time::Instant;

mod backoff;
mod key_slots;
mod key_state;
#[cfg(test)]
mod random_model_test;
mod ready_keys;
#[cfg(test)]
mod tests;
mod timers;

pub use backoff::Backoff;
use key_slots::Slots;
use key_state::{KeyHealth, KeyPhase, Timer, TimerReason};
use ready_keys::{QueuePriority, Ready, Ticket};
use timers::Timers;

/// A resync is spread over this share of its period, so that a million keys are not due at the same time.
const RESYNC_JITTER: f64 = 0.2;

/// The urgency of a trigger, least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The initial list or a resync: runs after fresh work, unless it has waited long.
    Background,
    /// Our own write, seen through the watch: fresh, but no reason to retry a failing key early.
    Echo,
    /// Something that the object depends on changed.
    Event,
    /// The object itself was edited: overrides backoff and a terminal fault.
    Edit,
}

impl Urgency {
    fn class(self) -> QueuePriority {
        match self {
            Self::Background => QueuePriority::Background,
            Self::Echo | Self::Event | Self::Edit => QueuePriority::Fresh,
        }
    }
}

/// How the queue behaves.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The retry schedule.
    pub backoff: Backoff,
    /// The maximum number of concurrent runs in one namespace; unlimited if absent.
    pub per_namespace: Option<u32>,
    /// The period after which a settled key runs again.
    pub resync: Option<Duration>,
}

/// A key handed out to run. Pass `ticket` to [`Queue::done`] when the run has finished.
#[derive(Debug)]
pub struct DispatchedKey {
    /// Identifies the run.
    pub ticket: u32,
    /// The object to reconcile.
    pub key: Key,
    /// The merged causes. They are moved into the journal when the run begins.
    pub causes: Vec<Cause>,
    /// Whether one of the causes is that it existed at startup.
    pub was_listed: bool,
    /// Failures in a row before this run.
    pub failures: u32,
    /// How long it has been due.
    pub waited: Duration,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success: wait for a change.
    AwaitChange,
    /// Success: run again after this time, or earlier on a change. Zero means now, after the keys that are already
    /// waiting.
    Requeue(Duration),
    /// An error: retry on the schedule.
    Failed,
    /// An error that specifies when to retry.
    RetryAfter(Duration),
    /// An error that only an edit can resolve.
    Terminal,
    /// It was cancelled before it finished: neither a success nor a failure, and due again at once.
    Interrupted,
    /// The object no longer exists; forget it.
    Gone,
}

/// The numbers of keys in the queue, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// The number of keys that may run now.
    pub ready: usize,
    /// The number of running keys.
    pub running: usize,
    /// The number of keys that are due later.
    pub waiting: usize,
    /// The number of all keys that the queue remembers.
    pub known: usize,
}

/// The queue of one controller.
#[derive(Debug)]
pub struct Queue {
    config: Config,
    entropy: Entropy,
    slots: Slots,
    ready: Ready,
    timers: Timers,
    ready_count: usize,
    running_count: usize,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(config: Config, entropy: &Entropy) -> Self {
        let ready = Ready::new(config.per_namespace);
        Self {
            config,
            // Jitter need not be secret: the queue has its own stream, which is not shared with other threads.
            entropy: Entropy::seeded(entropy.next_u64()),
            slots: Slots::default(),
            ready,
            timers: Timers::default(),
            ready_count: 0,
            running_count: 0,
        }
    }

    /// Requests a reconcile of `key`.
    pub fn add(&mut self, key: &Key, cause: Cause, urgency: Urgency, now: Instant) {
        let slot = self.slots.intern(key, now);
        self.slots[slot].add_cause(cause);
        self.trigger(slot, urgency, now);
    }

    /// Returns the next key to run, if any may run now.
    pub fn next(&mut self, now: Instant) -> Option<DispatchedKey> {
        self.tick(now);
        let slots = &self.slots;
        let ticket = self.ready.pop(|ticket| slots[ticket.slot].stamp == ticket.stamp)?;
        self.ready_count -= 1;
        self.running_count += 1;
        let slot = &mut self.slots[ticket.slot];
        slot.stamp = slot.stamp.wrapping_add(1);
        let is_early = matches!(slot.health, KeyHealth::Failing { until, .. } if now < until);
        slot.phase = KeyPhase::Running { again: None, is_early };
        let causes = std::mem::take(&mut slot.causes);
        Some(DispatchedKey {
            ticket: ticket.slot,
            key: slot.key.clone(),
            was_listed: causes.contains(&Cause::Listed),
            causes,
            failures: slot.failures(),
            waited: now.saturating_duration_since(slot.since),
        })
    }

    /// Brings the retry of a failed key forward, to a random time within `spread`, because the cause of the failure is
    /// gone. A key that is due earlier, is running or did not fail is not changed.
    pub fn hasten(&mut self, key: &Key, spread: Duration, now: Instant) {
        let Some(index) = self.slots.get(key) else { return };
        let at = later(now, spread.mul_f64(self.entropy.unit()));
        let slot = &mut self.slots[index];
        let KeyHealth::Failing { until, .. } = &mut slot.health else { return };
        if slot.phase == KeyPhase::Idle && *until > at {
            *until = at;
            self.set_timer(index, Some(Timer { at, reason: TimerReason::Retry }));
        }
    }

    /// Returns when the next key is due, which is when the caller should call [`Queue::next`] again.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| at)
    }

    /// Finishes a run. Returns the time until the key is due again, if it is.
    pub fn done(&mut self, ticket: u32, outcome: Outcome, now: Instant) -> Option<Duration> {
        let slot = &mut self.slots[ticket];
        let KeyPhase::Running { again, is_early } = slot.phase else {
            unreachable!("only a running key is ended, once: its worker holds the ticket")
        };
        slot.phase = KeyPhase::Idle;
        let namespace = slot.namespace;
        self.running_count -= 1;
        self.ready.ended(namespace);
        let timer = self.judge(ticket, outcome, is_early, now);
        self.set_timer(ticket, timer);
        if let Some(urgency) = again {
            self.trigger(ticket, urgency, now);
        }
        if self.slots[ticket].phase == KeyPhase::Idle {
            match outcome {
                Outcome::Requeue(Duration::ZERO) => self.ring(ticket, TimerReason::Requeue, now),
                Outcome::Interrupted => self.ring(ticket, TimerReason::Interrupted, now),
                _ => {}
            }
        }
        if self.slots[ticket].is_forgettable() {
            self.slots.release(ticket);
        }
        timer.map(|timer| timer.at.saturating_duration_since(now))
    }

    /// Takes back a key whose run did not begin: it stays due, with its causes, its failures and its age.
    pub fn put_back(&mut self, work: DispatchedKey, now: Instant) {
        let (class, since) = (class_of(&work.causes), now.checked_sub(work.waited).unwrap_or(now));
        let ticket = self.shelve(work);
        self.make_ready(ticket, class, since);
    }

    /// Takes back a key whose run did not begin and may not begin for a while: [`Queue::resume`] or a trigger makes it
    /// due again.
    pub fn suspend(&mut self, work: DispatchedKey) {
        self.shelve(work);
    }

    /// Makes a key due that was suspended.
    pub fn resume(&mut self, key: &Key, now: Instant) {
        let Some(index) = self.slots.get(key) else { return };
        let slot = &self.slots[index];
        if slot.phase == KeyPhase::Idle && !slot.causes.is_empty() {
            let class = class_of(&slot.causes);
            self.set_timer(index, None);
            self.make_ready(index, class, now);
        }
    }

    /// Forgets a key, unless it is running.
    pub fn forget(&mut self, key: &Key) {
        let Some(index) = self.slots.get(key) else { return };
        if matches!(self.slots[index].phase, KeyPhase::Running { .. }) {
            return;
        }
        self.set_timer(index, None);
        let slot = &mut self.slots[index];
        if matches!(slot.phase, KeyPhase::Ready(_)) {
            slot.stamp = slot.stamp.wrapping_add(1);
            self.ready_count -= 1;
        }
        (slot.phase, slot.health) = (KeyPhase::Idle, KeyHealth::Well);
        slot.causes.clear();
        self.slots.release(index);
    }

    /// Finishes a run that did not begin; its causes stay with the key.
    fn shelve(&mut self, work: DispatchedKey) -> u32 {
        let slot = &mut self.slots[work.ticket];
        debug_assert!(
            matches!(slot.phase, KeyPhase::Running { .. }),
            "only a key that was handed out comes back"
        );
        slot.phase = KeyPhase::Idle;
        work.causes.into_iter().for_each(|cause| slot.add_cause(cause));
        let namespace = slot.namespace;
        self.running_count -= 1;
        self.ready.ended(namespace);
        work.ticket
    }

    /// Returns whether this key is running or has a pending trigger.
    pub fn is_active(&self, key: &Key) -> bool {
        self.slots.get(key).is_some_and(|slot| self.slots[slot].phase != KeyPhase::Idle)
    }

    /// Returns the numbers of keys in the queue.
    pub fn depth(&self) -> QueueCounts {
        QueueCounts {
            ready: self.ready_count,
            running: self.running_count,
            waiting: self.timers.len(),
            known: self.slots.len(),
        }
    }

    /// Sets the key's health after a run; returns when it is due again.
    fn judge(&mut self, ticket: u32, outcome: Outcome, is_early: bool, now: Instant) -> Option<Timer> {
        let slot = &mut self.slots[ticket];
        let failures = slot.failures();
        let (health, timer) = match outcome {
            Outcome::Gone | Outcome::Requeue(Duration::ZERO) => (KeyHealth::Well, None),
            Outcome::Interrupted => (slot.health, None),
            Outcome::AwaitChange => {
                (KeyHealth::Well, self.config.resync.map(|period| resync(period, &self.entropy, now)))
            }
            Outcome::Requeue(after) => {
                (KeyHealth::Well, Some(Timer { at: later(now, after), reason: TimerReason::Requeue }))
            }
            Outcome::Terminal => (KeyHealth::Terminal { failures: failures.saturating_add(1) }, None),
            Outcome::RetryAfter(after) => {
                failing(failures.saturating_add(u32::from(!is_early)), later(now, after), false)
            }
            Outcome::Failed => match slot.health {
                KeyHealth::Failing { until, early_used, .. } if is_early && now < until => {
                    failing(failures, until, early_used)
                }
                _ => {
                    let failures = failures.saturating_add(1);
                    failing(failures, later(now, self.config.backoff.delay(failures, &self.entropy)), false)
                }
            },
        };
        slot.health = health;
        timer
    }

    /// Applies a trigger to a key, according to its phase and health.
    fn trigger(&mut self, index: u32, urgency: Urgency, now: Instant) {
        let slot = &mut self.slots[index];
        match slot.phase {
            KeyPhase::Running { ref mut again, .. } => *again = (*again).max(Some(urgency)),
            KeyPhase::Ready(class) if class >= urgency.class() => {}
            KeyPhase::Ready(_) => self.promote(index, urgency.class()),
            KeyPhase::Idle if slot.health.allows_run(urgency) => {
                self.set_timer(index, None);
                self.make_ready(index, urgency.class(), now);
            }
            KeyPhase::Idle => {}
        }
    }

    fn make_ready(&mut self, index: u32, class: QueuePriority, since: Instant) {
        self.slots[index].since = since;
        self.ready_count += 1;
        self.promote(index, class);
    }

    /// Enqueues the key in this class; its new stamp invalidates any earlier position.
    fn promote(&mut self, index: u32, class: QueuePriority) {
        let slot = &mut self.slots[index];
        slot.stamp = slot.stamp.wrapping_add(1);
        slot.phase = KeyPhase::Ready(class);
        let ticket = Ticket { slot: index, stamp: slot.stamp, since: slot.since };
        self.ready.push(slot.namespace, class, ticket);
    }

    /// Makes keys ready whose time has come. [`Queue::next`] also does this.
    pub fn tick(&mut self, now: Instant) {
        while let Some((at, index)) = self.timers.first()
            && at <= now
        {
            let timer = self.slots[index].timer.expect("the first timer is alive");
            self.set_timer(index, None);
            self.ring(index, timer.reason, at);
        }
    }

    fn ring(&mut self, index: u32, reason: TimerReason, since: Instant) {
        self.slots[index].add_cause(reason.cause());
        self.make_ready(index, reason.class(), since);
    }

    fn set_timer(&mut self, index: u32, timer: Option<Timer>) {
        let old = std::mem::replace(&mut self.slots[index].timer, timer);
        if let Some(timer) = timer {
            self.timers.set(timer.at, index);
        }
        if old.is_some() {
            let slots = &self.slots;
            self.timers.unset(|at, slot| slots[slot].timer.is_some_and(|timer| timer.at == at));
        }
    }
}

impl KeyHealth {
    /// Returns whether this trigger may run a key that is backing off. If so, this uses up the one early run of the
    /// period.
    fn allows_run(&mut self, urgency: Urgency) -> bool {
        match self {
            Self::Well => true,
            Self::Terminal { .. } => urgency == Urgency::Edit,
            Self::Failing { early_used, .. } => match urgency {
                Urgency::Edit => true,
                Urgency::Event => !std::mem::replace(early_used, true),
                Urgency::Echo | Urgency::Background => false,
            },
        }
    }
}

/// Returns the class of a key that is due for these causes.
fn class_of(causes: &[Cause]) -> QueuePriority {
    let is_background = causes.iter().all(|cause| matches!(cause, Cause::Listed | Cause::Resync));
    if is_background { QueuePriority::Background } else { QueuePriority::Fresh }
}

fn failing(failures: u32, until: Instant, early_used: bool) -> (KeyHealth, Option<Timer>) {
    (
        KeyHealth::Failing { failures, until, early_used },
        Some(Timer { at: until, reason: TimerReason::Retry }),
    )
}

fn resync(period: Duration, entropy: &Entropy, now: Instant) -> Timer {
    let jittered = period.mul_f64(1.0 - RESYNC_JITTER * entropy.unit());
    Timer { at: later(now, jittered), reason: TimerReason::Resync }
}

/// Returns `now + after`, or a year from now when that overflows: far enough to mean never.
fn later(now: Instant, after: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now.checked_add(after).unwrap_or(now + YEAR)
}
