//! Tracks updates that were sent, and whether they took effect, sans I/O. An API may accept an update and keep the old
//! value (a field it ignores, a value that it writes in its own way), or another owner may restore the old value each
//! time. Either way the same difference comes back, and writing it again at every pass would be of no use.
//!
//! **Invariant:** a new spec is applied at once. So is the correction of a new difference, unless our corrections keep
//! being undone, whatever the resource is changed to. Counts do not outlive the process, but `lasting_differences`
//! records the differences that updates do not remove: the next process begins with the shortest of the long pauses.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use homeostat_core::Key;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::difference::Difference;

/// The number of ineffective updates for one difference before the object reports it: one may be lost, two may be a
/// coincidence.
const NOT_TAKEN_AFTER: u32 = 3;

/// The number of undone updates before the object reports this. People who experiment also undo something a few times.
const CONTESTED_AFTER: u32 = 5;

/// The same number if the resource was changed to something else each time: that may be several people with different
/// reasons.
const CONTESTED_VARIED_AFTER: u32 = 10;

/// A correction that is undone after a longer time than this is drift like any other, and the count starts again.
const PEACE: Duration = Duration::from_secs(15 * 60);

/// The shortest time until an update is sent again, for worlds that show writes at once.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest time until an update is sent again: someone who removes the cause should not have to wait for half a
/// day.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The updates whose difference may come back, by object and resource.
#[derive(Default)]
pub(super) struct UpdateAttempts {
    /// How long the external API may take to show an update.
    visible_within: Duration,
    sent: HashMap<Key, BTreeMap<String, UpdateAttempt>>,
}

struct UpdateAttempt {
    print: DifferencePrint,
    /// The number of consecutive updates after which the resource was never seen to match the spec.
    in_vain: u32,
    /// The number of earlier updates that took effect and were undone.
    undone: u32,
    at: Instant,
    has_taken: bool,
}

/// A difference that is to be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DifferencePrint {
    /// The generation of the object's spec: the result for one spec says nothing about another.
    #[serde(rename = "generation")]
    wish: i64,
    /// A hash of the differences from the spec. It may change with the version of the program; in that case the
    /// attempts start again.
    difference: u64,
}

/// How often a difference was corrected before, without effect or until it was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CorrectionHistory {
    pub(super) count: u32,
    /// The time since the last correction.
    pub(super) since: Duration,
    /// Whether the resource matched the spec after that, so that the update must have been undone.
    pub(super) has_taken: bool,
    /// Whether it is the same difference as last time.
    pub(super) is_same: bool,
    pub(super) visible_within: Duration,
}

impl UpdateAttempts {
    pub(super) fn new(visible_within: Duration) -> Self {
        Self { visible_within, sent: HashMap::new() }
    }

    /// Records that an update for this difference was accepted. Returns the attempts so far.
    pub(super) fn sent(&mut self, key: &Key, name: &str, print: DifferencePrint) -> CorrectionHistory {
        let visible_within = self.visible_within;
        let resources = self.sent.entry(key.clone()).or_default();
        let before = resources.get(name).filter(|attempt| attempt.is_about(print, visible_within));
        let (in_vain, undone) = match before {
            Some(attempt) if attempt.has_taken => (1, attempt.undone.saturating_add(1)),
            Some(attempt) => (attempt.in_vain.saturating_add(1), attempt.undone),
            None => (1, 0),
        };
        let attempt = UpdateAttempt { print, in_vain, undone, at: Instant::now(), has_taken: false };
        let tried = attempt.tried(visible_within);
        resources.insert(name.to_owned(), attempt);
        tried
    }

    /// Takes over the fact, recorded by a previous process, that this difference remains or, if `is_contested`, comes
    /// back. Returns `None` if this process has seen the resource itself, which takes precedence.
    pub(super) fn resume(
        &mut self,
        key: &Key,
        name: &str,
        print: DifferencePrint,
        is_contested: bool,
    ) -> Option<CorrectionHistory> {
        let resources = self.sent.entry(key.clone()).or_default();
        if resources.contains_key(name) {
            return None;
        }
        let (in_vain, undone) = if is_contested { (1, CONTESTED_AFTER) } else { (NOT_TAKEN_AFTER + 1, 0) };
        let attempt = UpdateAttempt { print, in_vain, undone, at: Instant::now(), has_taken: is_contested };
        let tried = attempt.tried(self.visible_within);
        resources.insert(name.to_owned(), attempt);
        Some(tried)
    }

    /// Returns the known history of this difference; `None` if it is unrelated to the previous one, or the previous one
    /// was long ago.
    pub(super) fn tried(&self, key: &Key, name: &str, print: DifferencePrint) -> Option<CorrectionHistory> {
        let attempt = self.sent.get(key)?.get(name)?;
        let is_same = attempt.print.difference == print.difference;
        attempt
            .is_about(print, self.visible_within)
            .then(|| CorrectionHistory { is_same, ..attempt.tried(self.visible_within) })
    }

    /// Records that the resource matched the spec; without a name, that all resources of the object did.
    pub(super) fn took(&mut self, key: &Key, name: Option<&str>) {
        let Some(resources) = self.sent.get_mut(key) else { return };
        resources.retain(|other, attempt| {
            attempt.has_taken |= name.is_none_or(|name| name == other);
            !attempt.tried(self.visible_within).is_past()
        });
        if resources.is_empty() {
            self.sent.remove(key);
        }
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.sent.remove(key);
    }
}

impl UpdateAttempt {
    /// Returns whether this is the difference that was corrected before. If the correction took effect and the resource
    /// has changed in any way since, the correction was undone.
    fn is_about(&self, print: DifferencePrint, visible_within: Duration) -> bool {
        self.print.wish == print.wish
            && (self.has_taken || self.print.difference == print.difference)
            && !self.tried(visible_within).is_past()
    }

    fn tried(&self, visible_within: Duration) -> CorrectionHistory {
        let count = if self.has_taken { self.undone.saturating_add(1) } else { self.in_vain };
        let (since, visible_within) = (self.at.elapsed(), visible_within.max(PAUSE_MIN));
        CorrectionHistory { count, since, has_taken: self.has_taken, is_same: true, visible_within }
    }
}

impl CorrectionHistory {
    /// Returns how long to wait before the next check; `None` if the next update is due.
    pub(super) fn left(&self) -> Option<Duration> {
        let pause = match self.has_taken {
            _ if self.is_hopeless() => self.backoff(),
            true => Duration::ZERO,
            false => self.visible_within,
        };
        pause.checked_sub(self.since).filter(|left| !left.is_zero())
    }

    /// Returns whether it is time to report the difference to people. This is not the case while the last of the first
    /// few updates may still take effect.
    pub(super) fn is_hopeless(&self) -> bool {
        let may_show = !self.has_taken && self.since < self.visible_within;
        self.count > self.limit() || (self.count == self.limit() && !may_show)
    }

    /// Returns the time between two updates once several updates have had no effect.
    fn backoff(&self) -> Duration {
        let excess = self.count.saturating_sub(self.limit());
        self.visible_within.saturating_mul(2_u32.saturating_pow(excess.saturating_add(1))).min(PAUSE_MAX)
    }

    fn limit(&self) -> u32 {
        match (self.has_taken, self.is_same) {
            (false, _) => NOT_TAKEN_AFTER,
            (true, true) => CONTESTED_AFTER,
            (true, false) => CONTESTED_VARIED_AFTER,
        }
    }

    /// Returns whether it matched the spec for long enough: longer than our own pauses, which would otherwise look like
    /// agreement.
    fn is_past(&self) -> bool {
        self.has_taken && self.since > PEACE.max(self.backoff().saturating_mul(2))
    }
}

impl DifferencePrint {
    /// Returns whether it belongs to this generation of the spec.
    pub(super) fn is_of(&self, generation: i64) -> bool {
        self.wish == generation
    }

    /// Hashes the object's generation, the differences from its spec, field by field, and whether the resource is
    /// marked. The text of a difference may be short ("9 bytes"), so it alone does not distinguish one spec from
    /// another.
    pub(super) fn new(wish: i64, differences: &[Difference], is_marked: bool) -> Self {
        let mut hasher = DefaultHasher::new();
        (differences, is_marked).hash(&mut hasher);
        Self { wish, difference: hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn print(difference: u64) -> DifferencePrint {
        DifferencePrint { wish: 1, difference }
    }

    fn lab() -> (UpdateAttempts, Key) {
        (UpdateAttempts::new(30 * SECOND), Key::new("demo.dev", "shapes", "a", "x"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_take_is_tried_a_few_times_and_then_ever_more_rarely() {
        let (mut attempts, key) = lab();
        let mut pauses = vec![];
        for _ in 0..12 {
            let sent = Instant::now();
            let mut tried = attempts.sent(&key, "x", print(1));
            while let Some(left) = tried.left() {
                tokio::time::advance(left).await;
                tried = attempts.tried(&key, "x", print(1)).unwrap();
            }
            pauses.push(sent.elapsed().as_secs());
        }
        assert_eq!(pauses, [30, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]);
        assert_eq!(attempts.tried(&key, "x", print(2)), None, "another difference is put right at once");
        assert_eq!(attempts.tried(&key, "y", print(1)), None);
        assert_eq!(attempts.sent(&key, "x", print(2)).count, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_hopeless_when_the_third_had_time_to_show() {
        let (mut attempts, key) = lab();
        for is_hopeless in [false, false, true, true] {
            attempts.sent(&key, "x", print(1));
            tokio::time::advance(30 * SECOND).await;
            assert_eq!(attempts.tried(&key, "x", print(1)).unwrap().is_hopeless(), is_hopeless);
        }
        assert!(attempts.sent(&key, "x", print(1)).is_hopeless(), "and stays so, or the word would flap");
    }

    #[tokio::test(start_paused = true)]
    async fn the_word_of_a_former_process_is_taken_unless_we_know_better() {
        for is_contested in [false, true] {
            let (mut attempts, key) = lab();
            let tried = attempts.resume(&key, "x", print(1), is_contested).unwrap();
            assert!(tried.is_hopeless() && tried.has_taken == is_contested);
            assert_eq!(tried.left(), Some(120 * SECOND));
            assert_eq!(attempts.tried(&key, "x", print(1)), Some(tried));
            assert_eq!(attempts.resume(&key, "x", print(2), is_contested), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_undone_is_put_right_at_once_a_few_times() {
        let (mut attempts, key) = lab();
        for round in 1..=5 {
            attempts.sent(&key, "x", print(1));
            attempts.took(&key, Some("other"));
            assert!(!attempts.tried(&key, "x", print(1)).unwrap().has_taken);
            attempts.took(&key, Some("x"));
            let tried = attempts.tried(&key, "x", print(1)).unwrap();
            assert_eq!((tried.count, tried.is_hopeless()), (round, round == 5));
            assert_eq!(tried.left(), (round == 5).then_some(60 * SECOND));
        }
        let varied = attempts.tried(&key, "x", print(2)).unwrap();
        assert_eq!(
            (varied.count, varied.left()),
            (5, None),
            "another value is put right longer, but it counts"
        );
        for value in 2..=6 {
            attempts.sent(&key, "x", print(value));
            attempts.took(&key, Some("x"));
        }
        assert!(attempts.tried(&key, "x", print(7)).unwrap().is_hopeless());
        assert_eq!(
            attempts.tried(&key, "x", DifferencePrint { wish: 2, difference: 1 }),
            None,
            "another wish is carried out"
        );
        tokio::time::advance(2 * PAUSE_MAX + SECOND).await;
        assert_eq!(attempts.tried(&key, "x", print(1)), None, "long ago");
        attempts.took(&key, None);
        assert!(attempts.sent.is_empty(), "and forgotten");
    }
}
