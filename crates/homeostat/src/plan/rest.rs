//! Waits until an operator is at rest: nothing has been written and nothing has run for some virtual time.
//!
//! **Invariant:** the wait always ends. If writes continue after the limit of virtual time, or there are too many of
//! them, the error names the writer and the objects that it writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::{Clock, Key, Revision};
use homeostat_runtime::PlannedCalls;
use homeostat_store::{Memory, Store};

use super::error::PlanError;
use super::journal_summary::SharedSummary;

/// How long nothing must be written before an operator counts as resting: longer than the first three retries of a
/// failing reconcile (1, 2 and 4 seconds), shorter than most schedules.
const QUIET: Duration = Duration::from_secs(10);

/// How often the state is checked.
const STEP: Duration = Duration::from_millis(500);

/// The maximum length of a phase. A rollout that waits for a probe, or an operator that polls once a minute, is done by
/// then.
const PHASE_MAX: Duration = Duration::from_secs(3600);

/// The maximum number of writes in one phase: enough to write every object of a large cluster a few times.
const WRITES_MAX: usize = 200_000;

/// The maximum number of writes to one object in one phase. A reconciler that reacts to its own write writes again
/// immediately, and no virtual time passes.
const WRITES_OF_ONE_MAX: usize = 1000;

/// How many objects an explanation names.
const NAMED_MAX: usize = 3;

/// Watches the store for writes.
pub(super) struct RestWatcher {
    store: Arc<Memory>,
    calls: PlannedCalls,
    clock: Clock,
    seen: Revision,
    seen_calls: usize,
}

impl RestWatcher {
    pub(super) fn new(store: Arc<Memory>, calls: PlannedCalls, clock: Clock) -> Self {
        let seen = store.snapshot().revision();
        Self { store, calls, clock, seen, seen_calls: 0 }
    }

    /// Waits until the operator is at rest.
    pub(super) async fn rest_of_operator(&mut self, summary: &SharedSummary) -> Result<(), PlanError> {
        self.rest(QUIET, summary).await
    }

    /// Waits until nothing has been written and nothing has run for `quiet`.
    pub(super) async fn rest(&mut self, quiet: Duration, summary: &SharedSummary) -> Result<(), PlanError> {
        let begin = self.clock.instant();
        let (mut quiet_since, mut writes, mut counts) = (begin, 0, BTreeMap::new());
        loop {
            tokio::select! {
                () = tokio::time::sleep(STEP) => {}
                // Virtual time does not pass while there is always something to do.
                () = summary.much_happened() => {}
            }
            if let Some(why) = &summary.lock().ended {
                return Err(PlanError::OperatorEnded(why.clone()));
            }
            let written = self.new_writes(&mut counts);
            writes += written;
            if written > 0 || summary.lock().is_running() {
                quiet_since = self.clock.instant();
            }
            if self.clock.since(quiet_since) >= quiet {
                return Ok(());
            }
            let passed = self.clock.since(begin);
            let most = counts.values().max().copied().unwrap_or_default();
            if passed >= PHASE_MAX || writes > WRITES_MAX || most > WRITES_OF_ONE_MAX {
                return Err(PlanError::NotAtRest(explain_unrest(passed, writes, &counts, summary)));
            }
        }
    }

    /// Counts the writes since the last check, by object.
    fn new_writes(&mut self, counts: &mut BTreeMap<String, usize>) -> usize {
        let calls = self.calls.count();
        // The record is taken between phases.
        let mut written = calls.saturating_sub(self.seen_calls);
        self.seen_calls = calls;
        let revision = self.store.snapshot().revision();
        match self.store.changes_after(self.seen) {
            Ok(changes) => {
                for change in changes.iter().filter(|change| !is_chatter(&change.key)) {
                    *counts.entry(describe_key(&change.key)).or_default() += 1;
                    written += 1;
                }
            }
            // There were so many writes that some of them dropped out of the history.
            Err(_) => written += 1,
        }
        self.seen = revision;
        written
    }
}

/// Returns whether writes to this object are ignored when waiting for rest: events and leases are written forever.
pub(super) fn is_chatter(key: &Key) -> bool {
    matches!(
        (key.group(), key.resource()),
        ("" | "events.k8s.io", "events") | ("coordination.k8s.io", "leases")
    )
}

/// Returns `deployments default/web`.
fn describe_key(key: &Key) -> String {
    let place = if key.namespace().is_empty() { String::new() } else { format!("{}/", key.namespace()) };
    format!("{} {place}{}", key.resource(), key.name())
}

fn explain_unrest(
    passed: Duration,
    writes: usize,
    counts: &BTreeMap<String, usize>,
    summary: &SharedSummary,
) -> String {
    let mut most: Vec<(&String, &usize)> = counts.iter().collect();
    most.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
    let named = most.iter().take(NAMED_MAX).map(|(name, count)| format!("{name} ({count} times)"));
    let named = named.collect::<Vec<_>>().join(", ");
    let running = summary.lock().running();
    let what = match (named.is_empty(), running.is_empty()) {
        (false, _) => format!("it keeps writing {named}"),
        (true, false) => format!("a reconcile of {} does not end", running.join(", ")),
        (true, true) => "it keeps calling outside".to_owned(),
    };
    format!(
        "the operator does not come to rest: after {} seconds of virtual time and {writes} writes {what}; a plan needs a \
         reconciler that writes nothing when nothing is left to do",
        passed.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrest_is_explained_by_the_objects_written_most() {
        let counts = [("a", 1), ("b", 9), ("c", 5), ("d", 7)].map(|(name, count)| (name.to_owned(), count));
        let text = explain_unrest(PHASE_MAX, 22, &counts.into(), &SharedSummary::default());
        assert!(text.contains("after 3600 seconds"), "{text}");
        assert!(text.contains("keeps writing b (9 times), d (7 times), c (5 times); "), "{text}");
    }
}
