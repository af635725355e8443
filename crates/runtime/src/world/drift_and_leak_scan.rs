//! Performs full passes over a world: one at startup, then periodically and on request. One list of all external
//! resources finds those that drifted, vanished or leaked; affected objects are queued, and leaks are handed to the
//! sweep.
//!
//! While the API does not respond, the first page of the list is the probe and the only call that is sent. A panic in
//! the world's code ends the pass but not the task (`tests/it/world/panics.rs`).

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use homeostat_core::Key;
use homeostat_core::journal::{Cause, Entry, WatchState};
use kube::Resource;
use tokio::sync::watch;
use tokio::time::Instant;

use super::failure::Failure;
use super::leak_suspects::LeakSuspects;
use super::pass_result::PassResult;
use super::resource_memory::Agreement;
use super::world_parts::{WorldParts, fingerprint};
use super::world_trait::{Answer, Page, World};
use crate::cache::Freshness;
use crate::kind::revision_of;
use crate::panics::describe_panic;
use crate::queue::{Backoff, Urgency};
use crate::workers::controller_queue::ControllerQueue;

/// Passes requested within this time become one pass.
const GAP: Duration = Duration::from_secs(1);

/// The task that performs full passes over one world.
pub(super) struct DriftAndLeakScan<W: World> {
    pub(super) parts: Arc<WorldParts<W>>,
    pub(super) leaks: LeakSuspects,
    queue: ControllerQueue,
    freshness: watch::Sender<Freshness>,
    failures: u32,
}

impl<W: World> DriftAndLeakScan<W> {
    /// Creates the task and a receiver for its freshness.
    pub(super) fn new(
        parts: Arc<WorldParts<W>>,
        queue: ControllerQueue,
    ) -> (Self, watch::Receiver<Freshness>) {
        let (freshness, receiver) =
            watch::channel(Freshness { is_synced: false, state: WatchState::Listing });
        (Self { parts, leaks: LeakSuspects::default(), queue, freshness, failures: 0 }, receiver)
    }

    /// Performs passes until it is dropped.
    pub(super) async fn run(mut self) {
        self.caches_synced().await;
        loop {
            self.wait_for_right().await;
            let next = self.pass().await;
            self.wait(next).await;
        }
    }

    /// Waits until the next pass is due or requested. If calls for objects fail in the meantime, finds out whether the
    /// API is down.
    async fn wait(&mut self, mut next: Instant) {
        loop {
            let parts = self.parts.clone();
            tokio::select! {
                () = tokio::time::sleep_until(next) => return,
                () = parts.wake.notified(), if parts.limiter.is_closed() => next = next.min(Instant::now() + GAP),
                () = parts.limiter.suspected() => next = self.confirm(next).await,
            }
        }
    }

    /// Reads one page of the list after several calls for objects have failed in a row, to see whether other calls
    /// would fail as well. Returns when the next pass is due.
    async fn confirm(&mut self, next: Instant) -> Instant {
        if self.parts.limiter.is_closed() {
            return next;
        }
        let answer = AssertUnwindSafe(self.page(None)).catch_unwind().await;
        match answer.unwrap_or_else(|panic| Err(Failure::from(describe_panic(&*panic)))) {
            Err(failure) if !self.parts.limiter.is_closed() => self.failed(&failure),
            _ => {
                tracing::info!(world = W::NAME, "calls for some objects fail, but the API outside answers");
                next
            }
        }
    }

    /// Waits until the objects are known: otherwise every external resource looks undesired.
    async fn caches_synced(&self) {
        let records = self.parts.records.as_ref().map(|records| records.cache.watch_freshness());
        for mut receiver in [Some(self.parts.cache.watch_freshness()), records].into_iter().flatten() {
            // The sender lives in the cache, which lives as long as the operator.
            let _ = receiver.wait_for(|freshness| freshness.is_synced).await;
        }
    }

    /// Waits until this process may act.
    async fn wait_for_right(&self) {
        let mut rights = self.parts.shared.fence.subscribe();
        while !self.parts.shared.fence.is_open() {
            if rights.changed().await.is_err() {
                return;
            }
        }
    }

    /// Performs one pass; returns when the next is due.
    async fn pass(&mut self) -> Instant {
        let since = self.parts.memory.doubts();
        let whole = async {
            let survey = self.survey().await?;
            self.set_state(WatchState::Fresh);
            self.finish(survey, since).await;
            Ok::<(), Failure>(())
        };
        let ended = AssertUnwindSafe(whole).catch_unwind().await;
        match ended.unwrap_or_else(|panic| Err(Failure::from(describe_panic(&*panic)))) {
            Ok(()) => {
                if self.failures > 0 {
                    tracing::warn!(world = W::NAME, tries = self.failures, "the API outside answers again");
                }
                self.failures = 0;
                self.parts.passes.ended();
                let poll = self.parts.policy.poll;
                // A tenth of jitter, so that the operators of a fleet do not all list at the same time.
                Instant::now() + poll + poll.mul_f64(self.parts.shared.entropy.unit() / 10.0)
            }
            Err(failure) => self.failed(&failure),
        }
    }

    /// Reports that the API could not be listed; returns when to try again.
    fn failed(&mut self, failure: &Failure) -> Instant {
        self.failures = self.failures.saturating_add(1);
        let next = self.parts.limiter.probe_at().unwrap_or_else(|| Instant::now() + self.pause());
        let retry = next.saturating_duration_since(Instant::now());
        let is_blocked = !self.parts.limiter.is_closed();
        tracing::warn!(world = W::NAME, error = %failure, ?retry, is_blocked, "the API outside does not answer");
        self.parts.passes.failed(failure.to_string());
        let entry =
            Entry::SurveyFailed { world: W::NAME.to_owned(), error: failure.to_string(), is_blocked, retry };
        self.parts.shared.journal.record(&self.parts.source, entry);
        self.set_state(WatchState::Failing { error: failure.to_string(), retry });
        next
    }

    /// Returns the time between two attempts to read a list that fails while other calls succeed.
    fn pause(&self) -> Duration {
        let most = self.parts.policy.poll.min(self.parts.policy.limits.probe_max).max(GAP);
        Backoff::exponential(GAP, most).delay(self.failures, &self.parts.shared.entropy)
    }

    /// Reads one page of the list, which is also the probe: if the API responds, the objects that were waiting for it
    /// continue.
    async fn page(&self, from: Option<&str>) -> Answer<Page<W::Have>> {
        let answer = self.parts.limiter.probe(self.parts.world.list(from)).await;
        if self.parts.limiter.is_closed() {
            self.unpark();
        }
        answer
    }

    /// Lists all external resources and classifies each as it arrives.
    async fn survey(&self) -> Answer<PassResult> {
        let mut survey = PassResult::new(self.parts.cache.len());
        let (mut from, mut pages) = (None::<String>, HashSet::new());
        loop {
            let page = self.page(from.as_deref()).await?;
            for (name, have) in page.resources {
                let finding = self.parts.classify(&name, &have);
                survey.add_finding(name, finding);
            }
            let Some(next) = page.next else { return Ok(survey) };
            if !pages.insert(next.clone()) {
                return Err(Failure::from(
                    "the list never ends: a page returned a continue token that an earlier page had returned",
                ));
            }
            from = Some(next);
            // Other tasks on this thread come first: a large list is never urgent.
            tokio::task::yield_now().await;
        }
    }

    /// Acts on a complete list that was begun when the resource memory had this many doubts.
    async fn finish(&mut self, mut survey: PassResult, since: u64) {
        let mut is_certain = self.parts.cache.quarantined().is_empty();
        let mut wanted = 0;
        for (key, object) in self.parts.cache.entries() {
            match self.confirm_object(key, &object, &mut survey, since) {
                Some(count) => wanted += count,
                None => is_certain = false,
            }
        }
        self.add_dangling(&mut survey);
        if !is_certain {
            survey.spare_unwanted();
        }
        for (key, resource) in std::mem::take(&mut survey.unlisted) {
            self.parts.memory.spot(key, resource);
        }
        for key in &survey.suspects {
            self.parts.memory.doubt(key);
            self.queue.add(key, Cause::Outside { source: W::NAME.into() }, Urgency::Background);
        }
        let (things, owned, suspects) = (survey.resources, survey.owned, survey.suspects.len());
        self.leaks.observe(survey.leaks, Instant::now());
        let (deleted, withheld) = self.sweep(owned).await;
        let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
        let entry = Entry::Surveyed {
            world: W::NAME.to_owned(),
            wanted: count(wanted),
            things: count(things),
            owned: count(owned),
            suspects: count(suspects),
            leaks: count(self.leaks.len()),
            deleted: count(deleted),
            withheld,
        };
        self.parts.shared.journal.record(&self.parts.source, entry);
    }

    /// Compares one object with the pass; returns how many resources it wants, if that is known.
    fn confirm_object(
        &self,
        key: Key,
        object: &W::Kind,
        survey: &mut PassResult,
        since: u64,
    ) -> Option<usize> {
        if object.meta().deletion_timestamp.is_some() {
            return Some(0);
        }
        let (memory, revision) = (&self.parts.memory, revision_of(object));
        if let Some(count) = survey.agreed(&key).filter(|count| memory.affirm(&key, revision, *count)) {
            return Some(count);
        }
        let wanted = self.parts.wanted(object).ok()?;
        let count = wanted.len();
        if survey.is_settled(&key, wanted.len()) {
            let agreement = Agreement { print: fingerprint(&wanted), count: wanted.len(), revision };
            memory.took(&key, None);
            memory.agree(key, agreement, wanted.into_keys().collect(), since);
        }
        Some(count)
    }

    /// Adds the resources of records whose object is gone, whether or not they were listed.
    fn add_dangling(&self, survey: &mut PassResult) {
        for (resource, owner) in self.parts.dangling() {
            survey.leaks.entry(resource).or_insert(owner);
        }
    }

    /// Resumes the objects that were waiting for the API to respond.
    fn unpark(&self) {
        for key in self.parts.memory.unpark() {
            self.queue.add(&key, Cause::Outside { source: W::NAME.into() }, Urgency::Event);
        }
    }

    fn set_state(&self, state: WatchState) {
        let was_failing = matches!(self.freshness.borrow().state, WatchState::Failing { .. });
        let is_failing = matches!(state, WatchState::Failing { .. });
        if was_failing || is_failing {
            let entry = Entry::Watched { resource: format!("outside/{}", W::NAME), state: state.clone() };
            self.parts.shared.journal.record(&self.parts.source, entry);
        }
        self.freshness.send_modify(|freshness| {
            freshness.is_synced |= !is_failing;
            freshness.state = state;
        });
    }
}
