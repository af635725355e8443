//! Decides what to do about one external resource, sans I/O: turns its desired state, actual state, ownership and
//! intent into one step. Every external write for an object is decided here.

use std::time::Duration;

use homeostat_core::Key;

use super::update_attempts::CorrectionHistory;
use super::world_policy::Drift;
use crate::kind::{Kind, key_of};

/// The owner of an external resource, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnershipClaim {
    /// It is ours and belongs to this object; a name prefix alone does not identify the object.
    Ours(Option<Owner>),
    /// We intended to create it and never found out whether we did.
    Doubtful(Owner),
    /// It is marked by this other manager.
    Theirs(String),
    /// It is not marked.
    Nobody,
}

/// The object that an external resource belongs to.
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

/// The known facts about the resource with a given name. Only an existing resource has a claim and differences.
#[derive(Clone, Debug)]
pub(super) struct ResourceSituation {
    pub(super) seen: SeenResource,
    /// Whether the object desires a resource with this name.
    pub(super) is_wanted: bool,
    /// How long ago a create was intended, if the resource has not been seen since.
    pub(super) intent: Option<Duration>,
    /// Whether the resource matched the object before and the object has not changed since, so that a difference is
    /// drift.
    pub(super) was_synced: bool,
    /// Whether this object comes first among several that desire the name.
    pub(super) is_holder: bool,
    /// The history of this difference, if it was corrected before.
    pub(super) tried: Option<CorrectionHistory>,
}

/// The resource as it was read.
#[derive(Clone, Debug)]
pub(super) enum SeenResource {
    Absent,
    Present {
        whose: ClaimForObject,
        /// Whether it matches the spec; false (unknown) if none is desired.
        is_equal: bool,
    },
}

/// The claim from the point of view of the object that is being reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimForObject {
    /// It belongs to this object.
    Own,
    /// It is ours, but it is not known to which object it belongs.
    Common,
    /// It belongs to another object that exists.
    Sibling(String),
    /// It belonged to an object that is gone.
    Orphan,
    /// It possibly belongs to this object.
    Doubtful,
    /// It belongs to another manager.
    Foreign(String),
    /// It is unowned; `adopts` says whether the rule allows adopting it.
    Nobody { adopts: bool },
}

/// The step to take for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceStep {
    /// It matches the spec.
    Leave,
    Create {
        is_drift: bool,
    },
    Update {
        is_drift: bool,
    },
    /// Adopt an unowned resource.
    Adopt,
    Delete,
    /// It drifted, which is only reported.
    Report,
    /// The resource is gone for good: drop it from the inventory.
    Forget,
    /// It is not ours to change: drop it from the inventory and leave it.
    Release(String),
    /// The API may not show the created resource yet.
    Wait(Duration),
    /// It belongs to someone else.
    Conflict(String),
    /// It was corrected often enough for now: the corrections had no effect or, if `is_contested`, were undone each
    /// time. It is retried after this time.
    Endure {
        is_contested: bool,
        left: Duration,
    },
}

/// Decides what to do about a resource.
pub(super) fn decide(situation: ResourceSituation, drift: Drift, visible_within: Duration) -> ResourceStep {
    let ResourceSituation { seen, is_wanted, intent, was_synced, is_holder, tried } = situation;
    let left = intent.and_then(|age| visible_within.checked_sub(age)).filter(|left| !left.is_zero());
    if let (SeenResource::Absent, Some(left)) = (&seen, left) {
        return ResourceStep::Wait(left);
    }
    match (seen, is_wanted) {
        (SeenResource::Absent, false) => ResourceStep::Forget,
        (SeenResource::Absent, true) if !is_holder => {
            ResourceStep::Conflict("another object, which came first".to_owned())
        }
        (SeenResource::Absent, true) if was_synced && drift == Drift::Report => ResourceStep::Report,
        (SeenResource::Absent, true) => ResourceStep::Create { is_drift: was_synced },
        (SeenResource::Present { whose, is_equal }, true) => {
            let change = || match (drift, tried) {
                // Our own update that is not visible yet is not drift.
                (_, Some(CorrectionHistory { has_taken: false, .. })) => {
                    ResourceStep::Update { is_drift: false }
                }
                (Drift::Report, _) if was_synced => ResourceStep::Report,
                _ => ResourceStep::Update { is_drift: was_synced },
            };
            restrain(keep(whose, is_equal, is_holder, change), tried)
        }
        (SeenResource::Present { whose, is_equal }, false) => drop_unwanted(whose, is_equal, is_holder),
    }
}

/// Delays an update that was sent before for the same difference: it gets time to take effect, and if it never takes
/// effect, it is sent less and less often.
fn restrain(step: ResourceStep, tried: Option<CorrectionHistory>) -> ResourceStep {
    let Some((tried, left)) = tried.and_then(|tried| Some((tried, tried.left()?))) else { return step };
    match step {
        ResourceStep::Update { .. } | ResourceStep::Adopt if tried.is_hopeless() => {
            ResourceStep::Endure { is_contested: tried.has_taken, left }
        }
        ResourceStep::Update { .. } | ResourceStep::Adopt => ResourceStep::Wait(left),
        step => step,
    }
}

fn keep(
    whose: ClaimForObject,
    is_equal: bool,
    is_holder: bool,
    change: impl Fn() -> ResourceStep,
) -> ResourceStep {
    match whose {
        ClaimForObject::Common if !is_holder => {
            ResourceStep::Conflict("another object, which came first".to_owned())
        }
        ClaimForObject::Own | ClaimForObject::Common | ClaimForObject::Doubtful if is_equal => {
            ResourceStep::Leave
        }
        ClaimForObject::Own | ClaimForObject::Common => change(),
        ClaimForObject::Orphan | ClaimForObject::Nobody { adopts: true } => ResourceStep::Adopt,
        ClaimForObject::Doubtful => ResourceStep::Conflict(DOUBT.to_owned()),
        ClaimForObject::Sibling(other) | ClaimForObject::Foreign(other) => ResourceStep::Conflict(other),
        ClaimForObject::Nobody { adopts: false } => {
            ResourceStep::Conflict("nobody known; no rule lets us adopt it".to_owned())
        }
    }
}

/// Decides about a resource that this object has, or had, in its inventory and no longer desires.
fn drop_unwanted(whose: ClaimForObject, is_equal: bool, is_holder: bool) -> ResourceStep {
    match whose {
        ClaimForObject::Own | ClaimForObject::Orphan => ResourceStep::Delete,
        ClaimForObject::Common if is_holder => ResourceStep::Delete,
        ClaimForObject::Doubtful if is_equal => ResourceStep::Delete,
        ClaimForObject::Common => ResourceStep::Release("another object wants it".to_owned()),
        ClaimForObject::Doubtful => ResourceStep::Conflict(DOUBT.to_owned()),
        ClaimForObject::Sibling(other) | ClaimForObject::Foreign(other) => {
            ResourceStep::Release(format!("it belongs to {other}"))
        }
        ClaimForObject::Nobody { .. } => ResourceStep::Release("its mark is gone".to_owned()),
    }
}

/// Only a person can resolve this: by removing the resource or its record, or by setting `made` in the record.
const DOUBT: &str = "nobody for certain: we meant to create it, but it is not what we meant to create";

#[cfg(test)]
mod tests {
    use super::*;

    const VISIBLE_WITHIN: Duration = Duration::from_secs(30);

    fn wanted(seen: SeenResource) -> ResourceSituation {
        ResourceSituation {
            seen,
            is_wanted: true,
            intent: None,
            was_synced: false,
            is_holder: true,
            tried: None,
        }
    }

    fn there(whose: ClaimForObject, is_equal: bool) -> SeenResource {
        SeenResource::Present { whose, is_equal }
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(situation: ResourceSituation, drift: Drift, expected: ResourceStep) {
        assert_eq!(decide(situation.clone(), drift, VISIBLE_WITHIN), expected, "{situation:?}");
    }

    #[test]
    fn what_is_wanted_and_ours() {
        let nobody = ResourceSituation { is_holder: false, ..wanted(SeenResource::Absent) };
        check(wanted(SeenResource::Absent), Drift::Correct, ResourceStep::Create { is_drift: false });
        check(nobody, Drift::Correct, ResourceStep::Conflict("another object, which came first".into()));
        check(wanted(there(ClaimForObject::Own, true)), Drift::Correct, ResourceStep::Leave);
        check(
            wanted(there(ClaimForObject::Own, false)),
            Drift::Correct,
            ResourceStep::Update { is_drift: false },
        );
        check(
            wanted(there(ClaimForObject::Own, false)),
            Drift::Report,
            ResourceStep::Update { is_drift: false },
        );
        check(wanted(there(ClaimForObject::Orphan, true)), Drift::Correct, ResourceStep::Adopt);
        check(wanted(there(ClaimForObject::Doubtful, true)), Drift::Correct, ResourceStep::Leave);
    }

    #[test]
    fn drift_is_a_difference_after_agreement() {
        let drifted = |seen| ResourceSituation { was_synced: true, ..wanted(seen) };
        check(drifted(SeenResource::Absent), Drift::Correct, ResourceStep::Create { is_drift: true });
        check(drifted(SeenResource::Absent), Drift::Report, ResourceStep::Report);
        check(
            drifted(there(ClaimForObject::Own, false)),
            Drift::Correct,
            ResourceStep::Update { is_drift: true },
        );
        check(drifted(there(ClaimForObject::Own, false)), Drift::Report, ResourceStep::Report);
        check(drifted(there(ClaimForObject::Own, true)), Drift::Report, ResourceStep::Leave);
    }

    #[test]
    fn an_intent_is_given_time_to_show() {
        let young = |is_wanted| ResourceSituation {
            intent: Some(Duration::from_secs(10)),
            is_wanted,
            ..wanted(SeenResource::Absent)
        };
        let old = |is_wanted| ResourceSituation { intent: Some(VISIBLE_WITHIN), ..young(is_wanted) };
        check(young(true), Drift::Correct, ResourceStep::Wait(Duration::from_secs(20)));
        check(young(false), Drift::Correct, ResourceStep::Wait(Duration::from_secs(20)));
        check(old(true), Drift::Correct, ResourceStep::Create { is_drift: false });
        check(old(false), Drift::Correct, ResourceStep::Forget);
    }

    #[test]
    fn what_was_put_right_before_is_given_time_and_then_endured() {
        let second = Duration::from_secs(1);
        let tried = |count, seconds: u32, has_taken| {
            let tried = CorrectionHistory {
                count,
                since: seconds * second,
                has_taken,
                is_same: true,
                visible_within: VISIBLE_WITHIN,
            };
            ResourceSituation {
                tried: Some(tried),
                was_synced: true,
                ..wanted(there(ClaimForObject::Own, false))
            }
        };
        let endure = |is_contested, left: u32| ResourceStep::Endure { is_contested, left: left * second };
        for drift in [Drift::Correct, Drift::Report] {
            check(tried(1, 10, false), drift, ResourceStep::Wait(20 * second));
            check(tried(1, 30, false), drift, ResourceStep::Update { is_drift: false });
            check(tried(3, 10, false), drift, ResourceStep::Wait(20 * second));
            check(tried(3, 40, false), drift, endure(false, 20));
            check(tried(4, 10, false), drift, endure(false, 110));
        }
        check(tried(4, 1, true), Drift::Correct, ResourceStep::Update { is_drift: true });
        check(tried(5, 1, true), Drift::Correct, endure(true, 59));
        check(tried(5, 1, true), Drift::Report, ResourceStep::Report);
        let equal = ResourceSituation { seen: there(ClaimForObject::Own, true), ..tried(5, 1, false) };
        check(equal, Drift::Correct, ResourceStep::Leave);
        let nameless = ResourceSituation {
            seen: there(ClaimForObject::Nobody { adopts: true }, true),
            ..tried(1, 10, false)
        };
        check(nameless, Drift::Correct, ResourceStep::Wait(20 * second));
    }

    #[test]
    fn what_is_not_ours_is_never_written() {
        for (whose, is_wanted) in [
            (ClaimForObject::Foreign("x".into()), true),
            (ClaimForObject::Foreign("x".into()), false),
            (ClaimForObject::Sibling("x".into()), true),
            (ClaimForObject::Sibling("x".into()), false),
            (ClaimForObject::Nobody { adopts: false }, true),
            (ClaimForObject::Nobody { adopts: true }, false),
            (ClaimForObject::Doubtful, true),
            (ClaimForObject::Doubtful, false),
        ] {
            let situation = ResourceSituation { is_wanted, ..wanted(there(whose.clone(), false)) };
            let step = decide(situation, Drift::Correct, VISIBLE_WITHIN);
            assert!(
                matches!(step, ResourceStep::Conflict(_) | ResourceStep::Release(_)),
                "{whose:?} wanted {is_wanted}: {step:?}"
            );
        }
        check(
            wanted(there(ClaimForObject::Nobody { adopts: true }, false)),
            Drift::Correct,
            ResourceStep::Adopt,
        );
    }

    #[test]
    fn what_is_ours_and_unwanted_goes() {
        let unwanted =
            |whose, is_equal| ResourceSituation { is_wanted: false, ..wanted(there(whose, is_equal)) };
        check(unwanted(ClaimForObject::Own, false), Drift::Report, ResourceStep::Delete);
        check(unwanted(ClaimForObject::Common, false), Drift::Correct, ResourceStep::Delete);
        check(unwanted(ClaimForObject::Doubtful, true), Drift::Correct, ResourceStep::Delete);
        let shared = ResourceSituation { is_holder: false, ..unwanted(ClaimForObject::Common, false) };
        check(shared, Drift::Correct, ResourceStep::Release("another object wants it".into()));
        let gone = ResourceSituation { is_wanted: false, ..wanted(SeenResource::Absent) };
        check(gone, Drift::Correct, ResourceStep::Forget);
    }
}
