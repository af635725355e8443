//! What to do about one thing, sans I/O: from what is wanted, what is there, whose it is and what was intended, to one
//! step. Every write that is made outside for an object is decided here.

use std::time::Duration;

use homeostat_core::Key;

use super::attempts::Tried;
use super::policy::Drift;
use crate::kind::{Kind, key_of};

/// Whose a thing is, as far as it can be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Ours, kept for this object; a name prefix alone does not tell for which.
    Ours(Option<Owner>),
    /// We intended to make it and never learned whether we did.
    Doubtful(Owner),
    /// Marked by this other manager.
    Theirs(String),
    /// It has no mark.
    Nobody,
}

/// The object a thing is kept for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) key: Key,
    pub(super) uid: String,
}

impl Owner {
    pub(super) fn of_object<K: Kind>(object: &K) -> Self {
        Self { key: key_of(object), uid: object.meta().uid.clone().unwrap_or_default() }
    }
}

/// What is there under a name, and what is known about it. The claim and the difference are those of a thing that is
/// there; what is absent has neither.
#[derive(Clone, Debug)]
pub(super) struct Situation {
    pub(super) seen: Seen,
    /// The object wants a thing of this name.
    pub(super) is_wanted: bool,
    /// A create was intended this long ago and the thing has not been seen since.
    pub(super) intent: Option<Duration>,
    /// Thing and object agreed before, and the object has not changed since: a difference is drift.
    pub(super) was_synced: bool,
    /// Of several objects that want the name, this one comes first.
    pub(super) is_holder: bool,
    /// This very difference was corrected before.
    pub(super) tried: Option<Tried>,
}

/// What is there.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Absent,
    Present {
        whose: Whose,
        /// It is as wanted; unknown (false) when nothing is wanted.
        is_equal: bool,
    },
}

/// The claim, seen from the object that is being reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This object's.
    Own,
    /// Ours, without saying for which object.
    Common,
    /// Kept for another object that exists.
    Sibling(String),
    /// Kept for an object that is gone.
    Orphan,
    /// Maybe this object's.
    Doubtful,
    /// Of another manager.
    Foreign(String),
    /// Nobody's; `adopts` says whether the rule lets us adopt it.
    Nobody { adopts: bool },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is as wanted.
    Leave,
    Create {
        is_drift: bool,
    },
    Update {
        is_drift: bool,
    },
    /// Take over what is nobody's.
    Adopt,
    Delete,
    /// It drifted, and shall only be reported.
    Report,
    /// The thing is gone for good: drop it from the inventory.
    Forget,
    /// Not ours to touch: drop it from the inventory and leave it.
    Release(String),
    /// The outside may not show yet what was created.
    Wait(Duration),
    /// Somebody else has it.
    Conflict(String),
    /// It was corrected often enough for now: without effect, or, if `is_contested`, until it was undone. Tried again
    /// after this time.
    Endure {
        is_contested: bool,
        left: Duration,
    },
}

/// Decides what is done about a thing.
pub(super) fn decide(situation: Situation, drift: Drift, settle: Duration) -> Step {
    let Situation { seen, is_wanted, intent, was_synced, is_holder, tried } = situation;
    let left = intent.and_then(|age| settle.checked_sub(age)).filter(|left| !left.is_zero());
    if let (Seen::Absent, Some(left)) = (&seen, left) {
        return Step::Wait(left);
    }
    match (seen, is_wanted) {
        (Seen::Absent, false) => Step::Forget,
        (Seen::Absent, true) if !is_holder => Step::Conflict("another object, which came first".to_owned()),
        (Seen::Absent, true) if was_synced && drift == Drift::Report => Step::Report,
        (Seen::Absent, true) => Step::Create { is_drift: was_synced },
        (Seen::Present { whose, is_equal }, true) => {
            let change = || match (drift, tried) {
                // Our own update that does not show yet is not drift.
                (_, Some(Tried { has_taken: false, .. })) => Step::Update { is_drift: false },
                (Drift::Report, _) if was_synced => Step::Report,
                _ => Step::Update { is_drift: was_synced },
            };
            restrain(keep(whose, is_equal, is_holder, change), tried)
        }
        (Seen::Present { whose, is_equal }, false) => drop_unwanted(whose, is_equal, is_holder),
    }
}

/// Holds an update back that was sent before for the same difference: it gets time to show, and if it never does, it is
/// sent more and more rarely.
fn restrain(step: Step, tried: Option<Tried>) -> Step {
    let Some((tried, left)) = tried.and_then(|tried| Some((tried, tried.left()?))) else { return step };
    match step {
        Step::Update { .. } | Step::Adopt if tried.is_hopeless() => {
            Step::Endure { is_contested: tried.has_taken, left }
        }
        Step::Update { .. } | Step::Adopt => Step::Wait(left),
        step => step,
    }
}

fn keep(whose: Whose, is_equal: bool, is_holder: bool, change: impl Fn() -> Step) -> Step {
    match whose {
        Whose::Common if !is_holder => Step::Conflict("another object, which came first".to_owned()),
        Whose::Own | Whose::Common | Whose::Doubtful if is_equal => Step::Leave,
        Whose::Own | Whose::Common => change(),
        Whose::Orphan | Whose::Nobody { adopts: true } => Step::Adopt,
        Whose::Doubtful => Step::Conflict(DOUBT.to_owned()),
        Whose::Sibling(other) | Whose::Foreign(other) => Step::Conflict(other),
        Whose::Nobody { adopts: false } => {
            Step::Conflict("nobody known; no rule lets us adopt it".to_owned())
        }
    }
}

/// Decides about a thing that this object has, or had, in its inventory and no longer wants.
fn drop_unwanted(whose: Whose, is_equal: bool, is_holder: bool) -> Step {
    match whose {
        Whose::Own | Whose::Orphan => Step::Delete,
        Whose::Common if is_holder => Step::Delete,
        Whose::Doubtful if is_equal => Step::Delete,
        Whose::Common => Step::Release("another object wants it".to_owned()),
        Whose::Doubtful => Step::Conflict(DOUBT.to_owned()),
        Whose::Sibling(other) | Whose::Foreign(other) => Step::Release(format!("it belongs to {other}")),
        Whose::Nobody { .. } => Step::Release("its mark is gone".to_owned()),
    }
}

/// Only a person can resolve this: by removing the thing, or its record, or by setting `made` in the record.
const DOUBT: &str = "nobody for certain: we meant to create it, but it is not what we meant to create";

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(30);

    fn wanted(seen: Seen) -> Situation {
        Situation { seen, is_wanted: true, intent: None, was_synced: false, is_holder: true, tried: None }
    }

    fn there(whose: Whose, is_equal: bool) -> Seen {
        Seen::Present { whose, is_equal }
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(situation: Situation, drift: Drift, expected: Step) {
        assert_eq!(decide(situation.clone(), drift, SETTLE), expected, "{situation:?}");
    }

    #[test]
    fn what_is_wanted_and_ours() {
        let nobody = Situation { is_holder: false, ..wanted(Seen::Absent) };
        check(wanted(Seen::Absent), Drift::Correct, Step::Create { is_drift: false });
        check(nobody, Drift::Correct, Step::Conflict("another object, which came first".into()));
        check(wanted(there(Whose::Own, true)), Drift::Correct, Step::Leave);
        check(wanted(there(Whose::Own, false)), Drift::Correct, Step::Update { is_drift: false });
        check(wanted(there(Whose::Own, false)), Drift::Report, Step::Update { is_drift: false });
        check(wanted(there(Whose::Orphan, true)), Drift::Correct, Step::Adopt);
        check(wanted(there(Whose::Doubtful, true)), Drift::Correct, Step::Leave);
    }

    #[test]
    fn drift_is_a_difference_after_agreement() {
        let drifted = |seen| Situation { was_synced: true, ..wanted(seen) };
        check(drifted(Seen::Absent), Drift::Correct, Step::Create { is_drift: true });
        check(drifted(Seen::Absent), Drift::Report, Step::Report);
        check(drifted(there(Whose::Own, false)), Drift::Correct, Step::Update { is_drift: true });
        check(drifted(there(Whose::Own, false)), Drift::Report, Step::Report);
        check(drifted(there(Whose::Own, true)), Drift::Report, Step::Leave);
    }

    #[test]
    fn an_intent_is_given_time_to_show() {
        let young = |is_wanted| Situation {
            intent: Some(Duration::from_secs(10)),
            is_wanted,
            ..wanted(Seen::Absent)
        };
        let old = |is_wanted| Situation { intent: Some(SETTLE), ..young(is_wanted) };
        check(young(true), Drift::Correct, Step::Wait(Duration::from_secs(20)));
        check(young(false), Drift::Correct, Step::Wait(Duration::from_secs(20)));
        check(old(true), Drift::Correct, Step::Create { is_drift: false });
        check(old(false), Drift::Correct, Step::Forget);
    }

    #[test]
    fn what_was_put_right_before_is_given_time_and_then_endured() {
        let second = Duration::from_secs(1);
        let tried = |count, seconds: u32, has_taken| {
            let tried = Tried { count, since: seconds * second, has_taken, is_same: true, settle: SETTLE };
            Situation { tried: Some(tried), was_synced: true, ..wanted(there(Whose::Own, false)) }
        };
        let endure = |is_contested, left: u32| Step::Endure { is_contested, left: left * second };
        for drift in [Drift::Correct, Drift::Report] {
            check(tried(1, 10, false), drift, Step::Wait(20 * second));
            check(tried(1, 30, false), drift, Step::Update { is_drift: false });
            check(tried(3, 10, false), drift, Step::Wait(20 * second));
            check(tried(3, 40, false), drift, endure(false, 20));
            check(tried(4, 10, false), drift, endure(false, 110));
        }
        check(tried(4, 1, true), Drift::Correct, Step::Update { is_drift: true });
        check(tried(5, 1, true), Drift::Correct, endure(true, 59));
        check(tried(5, 1, true), Drift::Report, Step::Report);
        let equal = Situation { seen: there(Whose::Own, true), ..tried(5, 1, false) };
        check(equal, Drift::Correct, Step::Leave);
        let nameless = Situation { seen: there(Whose::Nobody { adopts: true }, true), ..tried(1, 10, false) };
        check(nameless, Drift::Correct, Step::Wait(20 * second));
    }

    #[test]
    fn what_is_not_ours_is_never_written() {
        for (whose, is_wanted) in [
            (Whose::Foreign("x".into()), true),
            (Whose::Foreign("x".into()), false),
            (Whose::Sibling("x".into()), true),
            (Whose::Sibling("x".into()), false),
            (Whose::Nobody { adopts: false }, true),
            (Whose::Nobody { adopts: true }, false),
            (Whose::Doubtful, true),
            (Whose::Doubtful, false),
        ] {
            let situation = Situation { is_wanted, ..wanted(there(whose.clone(), false)) };
            let step = decide(situation, Drift::Correct, SETTLE);
            assert!(
                matches!(step, Step::Conflict(_) | Step::Release(_)),
                "{whose:?} wanted {is_wanted}: {step:?}"
            );
        }
        check(wanted(there(Whose::Nobody { adopts: true }, false)), Drift::Correct, Step::Adopt);
    }

    #[test]
    fn what_is_ours_and_unwanted_goes() {
        let unwanted = |whose, is_equal| Situation { is_wanted: false, ..wanted(there(whose, is_equal)) };
        check(unwanted(Whose::Own, false), Drift::Report, Step::Delete);
        check(unwanted(Whose::Common, false), Drift::Correct, Step::Delete);
        check(unwanted(Whose::Doubtful, true), Drift::Correct, Step::Delete);
        let shared = Situation { is_holder: false, ..unwanted(Whose::Common, false) };
        check(shared, Drift::Correct, Step::Release("another object wants it".into()));
        let gone = Situation { is_wanted: false, ..wanted(Seen::Absent) };
        check(gone, Drift::Correct, Step::Forget);
    }
}
