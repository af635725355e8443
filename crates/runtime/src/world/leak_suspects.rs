//! Tracks our external resources that no object desires, sans I/O: since when each has been suspected, and how many may
//! be deleted now.
//!
//! **Invariant:** nothing is deleted after a single check. A suspect must be found by several passes over some time;
//! and if too large a share of our resources is suspected at once, none is deleted, because the list is probably wrong
//! in that case. A restart resets the count, which can only delay a deletion.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::decide_step::Owner;
use super::world_policy::LeakDeletionLimits;

/// The time window of the per-minute cap.
const MINUTE: Duration = Duration::from_secs(60);

/// The reason a resource is suspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// It belongs to this object, which is gone.
    OwnerGone(Owner),
    /// It is ours according to its name, and no object desires that name.
    Unwanted,
    /// It is unowned, in a world that is ours alone.
    Stray,
}

/// The suspects of one world over time.
#[derive(Debug, Default)]
pub(super) struct LeakSuspects {
    suspects: BTreeMap<String, LeakSuspect>,
}

#[derive(Debug)]
struct LeakSuspect {
    suspicion: Suspicion,
    since: Instant,
    passes: u32,
}

/// The suspects that may be deleted now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LeakVerdict {
    pub(super) due: Vec<(String, Suspicion)>,
    /// Why not all of those that are due may be deleted.
    pub(super) withheld: Option<String>,
}

impl LeakSuspects {
    /// Records the suspects of one pass. A suspect of an earlier pass that is not among them is cleared.
    pub(super) fn observe(&mut self, found: BTreeMap<String, Suspicion>, now: Instant) {
        let mut before = std::mem::take(&mut self.suspects);
        self.suspects = found
            .into_iter()
            .map(|(name, suspicion)| {
                let known = before.remove(&name).filter(|suspect| suspect.suspicion == suspicion);
                let (since, passes) = known.map_or((now, 0), |suspect| (suspect.since, suspect.passes));
                (name, LeakSuspect { suspicion, since, passes: passes + 1 })
            })
            .collect();
    }

    /// Returns the suspects that may be deleted now, given that we own `owned` external resources.
    pub(super) fn deletable_suspects(
        &self,
        sweep: &LeakDeletionLimits,
        owned: usize,
        now: Instant,
    ) -> LeakVerdict {
        let is_due = |suspect: &LeakSuspect| {
            suspect.passes >= sweep.confirmations && now.duration_since(suspect.since) >= sweep.min_age
        };
        let mut due: Vec<_> = self.suspects.iter().filter(|(_, suspect)| is_due(suspect)).collect();
        if due.is_empty() {
            return LeakVerdict::default();
        }
        let count = self.suspects.len();
        if count > allowed(sweep, owned) {
            let withheld =
                Some(format!("{count} of {owned} seem unwanted, more than a share of {}", sweep.share));
            return LeakVerdict { due: vec![], withheld };
        }
        let withheld = (due.len() > sweep.per_pass)
            .then(|| format!("{} are due, {} may go in one pass", due.len(), sweep.per_pass));
        due.truncate(sweep.per_pass);
        let due = due.into_iter().map(|(name, suspect)| (name.clone(), suspect.suspicion.clone())).collect();
        LeakVerdict { due, withheld }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.suspects.remove(name);
    }

    pub(super) fn len(&self) -> usize {
        self.suspects.len()
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of resources are far below 2^52, and a share of one is not negative"
)]
fn allowed(sweep: &LeakDeletionLimits, owned: usize) -> usize {
    sweep.floor.max((sweep.share.clamp(0.0, 1.0) * owned as f64) as usize)
}

/// The cap on deletions per minute.
#[derive(Debug, Default)]
pub(super) struct DeletionPace(VecDeque<Instant>);

impl DeletionPace {
    /// Counts one deletion, or returns how long to wait until one is allowed.
    pub(super) fn take(&mut self, per_minute: usize, now: Instant) -> Result<(), Duration> {
        while self.0.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            self.0.pop_front();
        }
        match self.0.front() {
            _ if self.0.len() < per_minute => {
                self.0.push_back(now);
                Ok(())
            }
            Some(first) => Err(MINUTE.saturating_sub(now.duration_since(*first))),
            None => Err(MINUTE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sweep() -> LeakDeletionLimits {
        LeakDeletionLimits {
            min_age: 60 * SECOND,
            confirmations: 2,
            per_pass: 2,
            per_minute: 2,
            share: 0.5,
            floor: 1,
        }
    }

    fn found(names: &[&str]) -> BTreeMap<String, Suspicion> {
        names.iter().map(|name| ((*name).to_owned(), Suspicion::Unwanted)).collect()
    }

    fn due(leaks: &LeakSuspects, owned: usize, now: Instant) -> Vec<String> {
        leaks.deletable_suspects(&sweep(), owned, now).due.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn age_and_confirmations_are_both_needed() {
        let start = Instant::now();
        let mut leaks = LeakSuspects::default();
        leaks.observe(found(&["a"]), start);
        assert!(due(&leaks, 9, start + 600 * SECOND).is_empty(), "one look is not enough at any age");
        leaks.observe(found(&["a"]), start + 30 * SECOND);
        assert!(due(&leaks, 9, start + 59 * SECOND).is_empty(), "too young");
        assert_eq!(due(&leaks, 9, start + 60 * SECOND), ["a"]);
        leaks.observe(found(&[]), start + 61 * SECOND);
        leaks.observe(found(&["a"]), start + 62 * SECOND);
        assert!(due(&leaks, 9, start + 120 * SECOND).is_empty(), "who was cleared begins anew");
    }

    #[test]
    fn too_large_a_share_withholds_all_and_too_many_some() {
        let start = Instant::now();
        let later = start + 60 * SECOND;
        let mut leaks = LeakSuspects::default();
        for at in [start, later] {
            leaks.observe(found(&["a", "b", "c"]), at);
        }
        assert_eq!(due(&leaks, 6, later), ["a", "b"], "as many as one pass may take");
        assert!(leaks.deletable_suspects(&sweep(), 6, later).withheld.is_some());
        assert!(due(&leaks, 5, later).is_empty(), "three of five is more than half");
        assert!(leaks.deletable_suspects(&sweep(), 5, later).withheld.unwrap().contains("3 of 5"));
    }

    #[test]
    fn the_pace_is_kept_over_any_minute() {
        let start = Instant::now();
        let mut pace = DeletionPace::default();
        assert_eq!(pace.take(2, start), Ok(()));
        assert_eq!(pace.take(2, start + 30 * SECOND), Ok(()));
        assert_eq!(pace.take(2, start + 40 * SECOND), Err(20 * SECOND));
        assert_eq!(pace.take(2, start + 60 * SECOND), Ok(()));
        assert_eq!(pace.take(2, start + 61 * SECOND), Err(29 * SECOND));
        assert_eq!(DeletionPace::default().take(0, start), Err(MINUTE));
    }
}
