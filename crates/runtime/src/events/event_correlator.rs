//! Decides which events are sent, sans I/O: repeated events are counted on the first one, and an object with too many
//! events is silenced for a while.
//!
//! Memory is bounded: the correlator keeps at most [`KNOWN_MAX`] events and as many budgets, even while the server
//! refuses every event, and forgets the oldest half when either is full.

use std::collections::HashMap;
use std::time::Duration;

use homeostat_core::Entropy;
use tokio::time::Instant;

use super::{EventNote, Severity};

/// An event that is repeated within this time is counted on the first one, and a later one is new; the value is
/// Kubernetes' own.
const SAME_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The number of events that one object may send at once, and the time after which it may send one more, as in
/// Kubernetes' spam filter.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(5 * 60);

/// The maximum number of remembered events.
const KNOWN_MAX: usize = 4096;

/// The decision about a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventDecision {
    /// Create an Event with this name.
    Create { name: String },
    /// Set the count of the Event with this name.
    Count { name: String, count: i32 },
    /// There are too many events.
    Drop,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct EventIdentity {
    uid: String,
    severity: Severity,
    reason: String,
    message: String,
}

struct KnownEvent {
    name: String,
    count: i32,
    last: Instant,
}

struct EventBudget {
    left: u32,
    refilled: Instant,
}

/// The recently sent events.
pub(super) struct Correlator {
    known: HashMap<EventIdentity, KnownEvent>,
    budgets: HashMap<String, EventBudget>,
    entropy: Entropy,
}

impl Correlator {
    pub(super) fn new(entropy: Entropy) -> Self {
        Self { known: HashMap::new(), budgets: HashMap::new(), entropy }
    }

    pub(super) fn decide_event(&mut self, note: &EventNote, now: Instant) -> EventDecision {
        self.shrink(now);
        let same = same(note);
        if !self.spend(&same.uid, now) {
            return EventDecision::Drop;
        }
        if let Some(known) = self.known.get_mut(&same)
            && now.saturating_duration_since(known.last) < SAME_WITHIN
        {
            known.count = known.count.saturating_add(1);
            known.last = now;
            return EventDecision::Count { name: known.name.clone(), count: known.count };
        }
        let object = note.about.name.as_deref().unwrap_or("unnamed");
        let name = format!("{object}.{:016x}", self.entropy.next_u64());
        self.known.insert(same, KnownEvent { name: name.clone(), count: 1, last: now });
        EventDecision::Create { name }
    }

    /// Forgets an event that was not recorded: the next one like it is created again.
    pub(super) fn forget(&mut self, note: &EventNote) {
        self.known.remove(&same(note));
    }

    fn spend(&mut self, uid: &str, now: Instant) -> bool {
        let budget = self.budgets.entry(uid.to_owned()).or_insert(EventBudget { left: BURST, refilled: now });
        let earned = budget.earned(now);
        if earned > 0 {
            budget.left = budget.left.saturating_add(earned).min(BURST);
            budget.refilled += REFILL * earned;
        }
        budget.left.checked_sub(1).map(|left| budget.left = left).is_some()
    }

    fn shrink(&mut self, now: Instant) {
        if self.known.len() >= KNOWN_MAX {
            let middle = median(self.known.values().map(|known| known.last));
            self.known.retain(|_, known| known.last > middle);
        }
        if self.budgets.len() >= KNOWN_MAX {
            // A budget that has been fully replenished need not be kept.
            self.budgets.retain(|_, budget| !budget.is_whole(now));
        }
        if self.budgets.len() >= KNOWN_MAX {
            let middle = median(self.budgets.values().map(|budget| budget.refilled));
            self.budgets.retain(|_, budget| budget.refilled > middle);
        }
    }
}

impl EventBudget {
    /// Returns the number of events earned since the last refill.
    fn earned(&self, now: Instant) -> u32 {
        let elapsed = now.saturating_duration_since(self.refilled);
        u32::try_from(elapsed.as_secs() / REFILL.as_secs()).unwrap_or(BURST)
    }

    fn is_whole(&self, now: Instant) -> bool {
        self.left.saturating_add(self.earned(now)) >= BURST
    }
}

fn median(times: impl Iterator<Item = Instant>) -> Instant {
    let mut times: Vec<Instant> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn same(note: &EventNote) -> EventIdentity {
    EventIdentity {
        uid: note.about.uid.clone().unwrap_or_default(),
        severity: note.severity,
        reason: note.reason.clone(),
        message: note.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn note(uid: &str, message: &str) -> EventNote {
        EventNote {
            about: ObjectReference {
                uid: Some(uid.into()),
                name: Some("x".into()),
                ..ObjectReference::default()
            },
            severity: Severity::Normal,
            reason: "Testing".into(),
            message: message.into(),
        }
    }

    #[test]
    fn repeats_are_counted_for_ten_minutes() {
        let mut correlator = Correlator::new(Entropy::seeded(1));
        let mut now = Instant::now();
        let EventDecision::Create { name } = correlator.decide_event(&note("a", "m"), now) else {
            panic!("the first is new")
        };
        now += Duration::from_secs(1);
        assert_eq!(correlator.decide_event(&note("a", "m"), now), EventDecision::Count { name, count: 2 });
        now += SAME_WITHIN;
        assert!(matches!(correlator.decide_event(&note("a", "m"), now), EventDecision::Create { .. }));
    }

    #[test]
    fn a_flood_is_cut_for_its_object_only() {
        let mut correlator = Correlator::new(Entropy::seeded(1));
        let now = Instant::now();
        let sent = (0..100).filter(|number| {
            correlator.decide_event(&note("loud", &number.to_string()), now) != EventDecision::Drop
        });
        assert_eq!(sent.count(), 25);
        assert!(matches!(correlator.decide_event(&note("quiet", "m"), now), EventDecision::Create { .. }));
        assert!(matches!(
            correlator.decide_event(&note("loud", "m"), now + REFILL),
            EventDecision::Create { .. }
        ));
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::new(Entropy::seeded(1));
        let now = Instant::now();
        for number in 0..20_000_u32 {
            let at = now + Duration::from_millis(number.into());
            correlator.decide_event(&note(&(number / 20).to_string(), &number.to_string()), at);
        }
        assert!(correlator.known.len() <= KNOWN_MAX && correlator.budgets.len() <= KNOWN_MAX);
    }

    #[test]
    fn memory_is_bounded_while_every_event_is_refused() {
        let mut correlator = Correlator::new(Entropy::seeded(1));
        let now = Instant::now();
        for number in 0..20_000_u32 {
            let told = note(&number.to_string(), "m");
            correlator.decide_event(&told, now + Duration::from_millis(number.into()));
            correlator.forget(&told);
        }
        assert!(correlator.known.is_empty() && correlator.budgets.len() <= KNOWN_MAX);
    }

    #[test]
    fn an_object_that_talks_too_much_stays_silenced_when_others_are_forgotten() {
        let mut correlator = Correlator::new(Entropy::seeded(1));
        let now = Instant::now();
        for number in 0..KNOWN_MAX {
            correlator.decide_event(&note(&number.to_string(), "m"), now);
        }
        let later = now + Duration::from_secs(1);
        (0..BURST)
            .for_each(|number| drop(correlator.decide_event(&note("loud", &number.to_string()), later)));
        // The other objects have earned their event back, and are forgotten when the next new object appears.
        let last = now + REFILL;
        correlator.decide_event(&note("newcomer", "m"), last);
        assert_eq!(correlator.budgets.len(), 2);
        assert_eq!(correlator.decide_event(&note("loud", "again"), last), EventDecision::Drop);
    }
}
