//! Remembers facts about the external resources of each object in this process: which ones were seen, and whether all
//! matched the spec. It saves calls and distinguishes drift from a first check; nothing depends on it after a restart.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::{Key, Revision};
use tokio::time::Instant;

use super::update_attempts::{CorrectionHistory, DifferencePrint, UpdateAttempts};

/// The memory of one world. All methods are quick and never wait for the external API.
#[derive(Default)]
pub(super) struct ResourceMemory(Mutex<ResourceMemoryState>);

#[derive(Default)]
struct ResourceMemoryState {
    accounts: HashMap<Key, ObjectAccount>,
    parked: BTreeSet<Key>,
    /// Intents with a time in the future, by object and resource: that time, and when we first saw it.
    sighted: HashMap<Key, HashMap<String, (String, Instant)>>,
    attempts: UpdateAttempts,
    /// Counts the doubts, so that a check does not overrule a doubt that arises while it runs.
    doubts: u64,
}

#[derive(Default)]
struct ObjectAccount {
    /// Names of existing resources, sorted, and when they were seen.
    seen: Sighting,
    /// The spec with which all resources agreed.
    agreed: Option<Agreement>,
    /// Whether they were found to agree and nothing has cast doubt on it since.
    is_certain: bool,
    /// The number of the last doubt about it.
    doubt: u64,
    /// The drift that was reported and left uncorrected.
    told: Vec<String>,
}

/// The spec of an object at the time all its resources matched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    /// A fingerprint of the spec.
    pub(super) print: u64,
    /// The number of resources.
    pub(super) count: usize,
    /// The revision of the object: at the same revision, its spec is the same.
    pub(super) revision: Revision,
}

/// Which resources were last seen to exist, and when.
#[derive(Clone, Default)]
pub(super) struct Sighting {
    pub(super) names: Vec<String>,
    at: Option<Instant>,
}

impl ObjectAccount {
    fn has_agreed(&self, wanted: u64) -> bool {
        self.agreed.is_some_and(|known| known.print == wanted)
    }
}

impl Sighting {
    fn now(names: Vec<String>) -> Self {
        Self { names, at: Some(Instant::now()) }
    }

    /// Returns whether the resource was seen within this time. Anything that was intended before then is visible now.
    pub(super) fn is_since(&self, name: &str, age: Duration) -> bool {
        let is_later = self.at.is_some_and(|at| at.elapsed() <= age);
        is_later && self.names.iter().any(|seen| seen == name)
    }
}

impl ResourceMemory {
    /// Returns an empty memory for a world that may take this long to show a write.
    pub(super) fn new(visible_within: Duration) -> Self {
        Self(Mutex::new(ResourceMemoryState {
            attempts: UpdateAttempts::new(visible_within),
            ..ResourceMemoryState::default()
        }))
    }

    /// Returns whether the resources matched this spec and there is no reason to check again.
    pub(super) fn is_certain(&self, key: &Key, wanted: u64) -> bool {
        self.state().accounts.get(key).is_some_and(|account| account.is_certain && account.has_agreed(wanted))
    }

    /// Returns whether the resources ever matched this spec.
    pub(super) fn agreed(&self, key: &Key, wanted: u64) -> bool {
        self.state().accounts.get(key).is_some_and(|account| account.has_agreed(wanted))
    }

    /// Returns the names of this object's resources that were seen to exist.
    pub(super) fn seen(&self, key: &Key) -> Sighting {
        self.state().accounts.get(key).map(|account| account.seen.clone()).unwrap_or_default()
    }

    /// Returns the number of doubts so far: a check that begins now may overrule them.
    pub(super) fn doubts(&self) -> u64 {
        self.state().doubts
    }

    /// Records that a check found that this many of the object's resources match its spec at this revision. Returns
    /// whether that agrees with the known facts; if so, the spec need not be computed.
    pub(super) fn affirm(&self, key: &Key, revision: Revision, count: usize) -> bool {
        let mut state = self.state();
        let Some(account) = state.accounts.get_mut(key).filter(|account| account.is_certain) else {
            return false;
        };
        // Resources that we wrote are among the names once they have been seen.
        let is_whole = account.seen.names.len() == count;
        if !is_whole || account.agreed.is_none_or(|known| (known.revision, known.count) != (revision, count))
        {
            return false;
        }
        account.seen.at = Some(Instant::now());
        state.attempts.took(key, None);
        true
    }

    /// Records that all resources match this spec, found by a check that began when there were that many doubts and saw
    /// these names.
    pub(super) fn agree(&self, key: Key, wanted: Agreement, seen: Vec<String>, since: u64) {
        let seen = Sighting::now(seen);
        let mut state = self.state();
        let doubt = state.accounts.get(&key).map_or(0, |account| account.doubt);
        let is_certain = doubt <= since;
        state
            .accounts
            .insert(key, ObjectAccount { seen, agreed: Some(wanted), is_certain, doubt, told: vec![] });
    }

    /// Records that this object's mark is on a resource that it neither desires nor has in its inventory.
    pub(super) fn spot(&self, key: Key, name: String) {
        let mut state = self.state();
        let names = &mut state.accounts.entry(key).or_default().seen.names;
        if !names.contains(&name) {
            names.push(name);
        }
    }

    /// Records that not all resources match, and that these names were seen. The last agreement is kept.
    pub(super) fn disagree(&self, key: Key, seen: Vec<String>) {
        let mut state = self.state();
        let account = state.accounts.entry(key).or_default();
        account.seen = Sighting::now(seen);
        account.is_certain = false;
    }

    /// Records that there is reason to check again.
    pub(super) fn doubt(&self, key: &Key) {
        let mut state = self.state();
        state.doubts += 1;
        let doubt = state.doubts;
        let account = state.accounts.entry(key.clone()).or_default();
        account.is_certain = false;
        account.doubt = doubt;
    }

    /// Returns whether this drift is new. It is reported once, until the resources match again.
    pub(super) fn is_news(&self, key: &Key, drift: &str) -> bool {
        let mut state = self.state();
        let told = &mut state.accounts.entry(key.clone()).or_default().told;
        let is_news = !told.iter().any(|words| words == drift);
        if is_news {
            told.push(drift.to_owned());
        }
        is_news
    }

    /// Records that an update to a resource with this difference was accepted.
    pub(super) fn sent(&self, key: &Key, name: &str, print: DifferencePrint) -> CorrectionHistory {
        self.state().attempts.sent(key, name, print)
    }

    /// Returns how often this difference in a resource was corrected before.
    pub(super) fn tried(&self, key: &Key, name: &str, print: DifferencePrint) -> Option<CorrectionHistory> {
        self.state().attempts.tried(key, name, print)
    }

    /// Takes over the fact, recorded by a previous process, that this difference remains or comes back.
    pub(super) fn resume(
        &self,
        key: &Key,
        name: &str,
        print: DifferencePrint,
        is_contested: bool,
    ) -> Option<CorrectionHistory> {
        self.state().attempts.resume(key, name, print, is_contested)
    }

    /// Records that the resource, or without a name all resources of the object, matched the spec.
    pub(super) fn took(&self, key: &Key, name: Option<&str>) {
        self.state().attempts.took(key, name);
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &Key) {
        let mut state = self.state();
        state.attempts.forget(key);
        state.accounts.remove(key);
        state.parked.remove(key);
        state.sighted.remove(key);
    }

    /// Records an intent whose time is in the future; returns how long ago it was first seen.
    pub(super) fn sight(&self, key: &Key, name: &str, at: &str) -> Duration {
        let mut state = self.state();
        let all = state.sighted.entry(key.clone()).or_default();
        let (known, since) = all.entry(name.to_owned()).or_insert_with(|| (at.to_owned(), Instant::now()));
        if known != at {
            (*known, *since) = (at.to_owned(), Instant::now());
        }
        since.elapsed()
    }

    /// Returns how long ago such an intent was first seen; `None` if its time was never in the future.
    pub(super) fn sighted(&self, key: &Key, name: &str, at: &str) -> Option<Duration> {
        let state = self.state();
        let (known, since) = state.sighted.get(key)?.get(name)?;
        (known == at).then(|| since.elapsed())
    }

    /// Records that the object is waiting until the external API responds again.
    pub(super) fn park(&self, key: Key) {
        self.state().parked.insert(key);
    }

    /// Removes and returns the waiting objects.
    pub(super) fn unpark(&self) -> BTreeSet<Key> {
        std::mem::take(&mut self.state().parked)
    }

    fn state(&self) -> MutexGuard<'_, ResourceMemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Agreement = Agreement { print: 1, count: 1, revision: Revision::new(7) };

    #[test]
    fn what_is_certain_at_a_revision_is_affirmed_by_a_count() {
        let memory = ResourceMemory::default();
        let key = Key::new("demo.dev", "shapes", "a", "x");
        assert!(!memory.affirm(&key, ONE.revision, 1));
        memory.agree(key.clone(), ONE, vec!["x".into()], 0);
        assert!(memory.affirm(&key, ONE.revision, 1));
        assert!(!memory.affirm(&key, Revision::new(8), 1), "it may want something else now");
        assert!(!memory.affirm(&key, ONE.revision, 0), "its resource is gone");
        memory.agree(key.clone(), ONE, vec![], 0);
        assert!(!memory.affirm(&key, ONE.revision, 1), "it is to be noted as seen");
        memory.agree(key.clone(), ONE, vec!["x".into()], 0);
        memory.doubt(&key);
        assert!(!memory.affirm(&key, ONE.revision, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_seen_after_an_intent_fulfils_it() {
        let memory = ResourceMemory::default();
        let key = Key::new("demo.dev", "shapes", "a", "x");
        assert!(!memory.seen(&key).is_since("x", Duration::MAX));
        memory.agree(key.clone(), ONE, vec!["x".into()], 0);
        tokio::time::advance(Duration::from_secs(10)).await;
        let seen = memory.seen(&key);
        assert!(seen.is_since("x", Duration::from_secs(11)), "intended, then seen");
        assert!(
            !seen.is_since("x", Duration::from_secs(9)),
            "seen, then intended again, maybe by another process"
        );
        assert!(!seen.is_since("y", Duration::from_secs(11)));
    }

    #[test]
    fn agreement_is_remembered_through_doubt() {
        let memory = ResourceMemory::default();
        let key = Key::new("demo.dev", "shapes", "a", "x");
        assert!(!memory.agreed(&key, 1));
        memory.agree(key.clone(), ONE, vec!["x".into()], 0);
        assert!(memory.is_certain(&key, 1) && !memory.is_certain(&key, 2));
        memory.doubt(&key);
        assert!(!memory.is_certain(&key, 1) && memory.agreed(&key, 1), "a difference now is drift");
        memory.disagree(key.clone(), vec![]);
        assert!(memory.agreed(&key, 1) && memory.seen(&key).names.is_empty());
        assert!(memory.is_news(&key, "x is red") && !memory.is_news(&key, "x is red"));
        memory.agree(key.clone(), ONE, vec![], memory.doubts());
        assert!(memory.is_news(&key, "x is red"), "it happened again");
        memory.forget(&key);
        assert!(!memory.agreed(&key, 1));
    }

    #[test]
    fn a_doubt_during_a_look_outlives_it() {
        let memory = ResourceMemory::default();
        let key = Key::new("demo.dev", "shapes", "a", "x");
        let before = memory.doubts();
        memory.doubt(&key);
        memory.agree(key.clone(), ONE, vec![], before);
        assert!(memory.agreed(&key, 1) && !memory.is_certain(&key, 1));
        memory.agree(key.clone(), ONE, vec![], memory.doubts());
        assert!(memory.is_certain(&key, 1), "the next look settles it");
    }
}
