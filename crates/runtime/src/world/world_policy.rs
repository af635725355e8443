//! Defines the configuration of a world: ownership, the treatment of drift, how much may be deleted, and how often the
//! API may be called. It is plain data, with cautious defaults.

use std::sync::Arc;
use std::time::Duration;

use super::planned_world::PlannedHave;

/// How we know which external resources are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ownership {
    /// Resources whose name begins with this prefix; the engine adds it to every desired name.
    Prefix(String),
    /// Resources that carry our [`Mark`](super::Mark) in a label, a tag or a description.
    Tags,
    /// Resources with an [`OutsideRecord`](super::OutsideRecord) in the cluster; for APIs that cannot store a mark.
    Records,
}

/// Who else uses the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiSharing {
    /// Others do: resources that are not ours are left alone.
    #[default]
    Shared,
    /// No one else does: an unmarked resource is adopted without a rule if an object desires its name, and deleted
    /// otherwise. Resources that another manager has marked are still left alone.
    Exclusive,
}

/// How to treat a resource that others changed or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drift {
    /// Report and correct it.
    #[default]
    Correct,
    /// Only report it. Changes to the object itself are still applied.
    Report,
}

/// Decides whether a resource without an owner becomes ours. It is called with the name and the resource if an object
/// desires the name.
pub(super) type Adoption<H> = Arc<dyn Fn(&str, &H) -> bool + Send + Sync>;

/// The conditions under which one of our resources that no object desires is deleted. All bounds apply together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeakDeletionLimits {
    /// It must have been undesired for this long (10 min).
    pub min_age: Duration,
    /// At least this many full passes must have found it undesired (2).
    pub confirmations: u32,
    /// At most this many deletions in one pass (10); with zero, leaks are only reported.
    pub per_pass: usize,
    /// At most this many deletions in any minute (30).
    pub per_minute: usize,
    /// If more than this share of our resources seems undesired, none is deleted: something else is wrong (0.2).
    pub share: f64,
    /// Up to this many are deleted regardless of their share; otherwise a world of two resources could never be cleaned
    /// up (2).
    pub floor: usize,
}

impl Default for LeakDeletionLimits {
    fn default() -> Self {
        Self {
            min_age: Duration::from_secs(10 * 60),
            confirmations: 2,
            per_pass: 10,
            per_minute: 30,
            share: 0.2,
            floor: 2,
        }
    }
}

/// How often the API may be called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The average number of calls per second (20).
    pub per_second: f64,
    /// The number of calls in a burst after a pause (40).
    pub burst: u32,
    /// The maximum number of concurrent calls (8).
    pub in_flight: usize,
    /// A call without a response within this time has failed (30 s).
    pub timeout: Duration,
    /// After this many failures in a row (5), one page of the list is read to find out whether the API is down; if that
    /// fails as well, only one such probe at a time is sent.
    pub failures: u32,
    /// The pause before the next probe (5 s); it doubles up to `probe_max`. After a successful probe, the API is
    /// trusted for the same time: calls that fail in that time are the objects' own failures.
    pub probe: Duration,
    /// The longest pause between probes (2 min).
    pub probe_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 40,
            in_flight: 8,
            timeout: Duration::from_secs(30),
            failures: 5,
            probe: Duration::from_secs(5),
            probe_max: Duration::from_secs(2 * 60),
        }
    }
}

/// The complete configuration of a world.
pub(super) struct WorldPolicy<H> {
    pub(super) ownership: Ownership,
    pub(super) r#use: ApiSharing,
    pub(super) drift: Drift,
    pub(super) adoption: Option<Adoption<H>>,
    pub(super) sweep: LeakDeletionLimits,
    pub(super) limits: Limits,
    /// The time between full passes.
    pub(super) poll: Duration,
    /// How long the API may take to show a created resource.
    pub(super) visible_within: Duration,
    /// Our identity in marks; the operator's name by default.
    pub(super) identity: Option<String>,
}

impl<H: 'static> WorldPolicy<H> {
    /// Returns the same policy for a plan. A resource that the plan itself wrote has an owner, so it is never adopted.
    pub(super) fn planned(self) -> WorldPolicy<PlannedHave<H>> {
        let adoption = self.adoption.map(|rule| -> Adoption<PlannedHave<H>> {
            Arc::new(move |name: &str, have: &PlannedHave<H>| match have {
                PlannedHave::Real(have) => rule(name, have),
                PlannedHave::Written { .. } => false,
            })
        });
        let Self { ownership, r#use, drift, sweep, limits, poll, visible_within, identity, .. } = self;
        WorldPolicy { ownership, r#use, drift, adoption, sweep, limits, poll, visible_within, identity }
    }
}

impl<H> WorldPolicy<H> {
    /// Returns whether this unowned resource may become ours. If the API is used exclusively, everything is ours to
    /// begin with.
    pub(super) fn adopts(&self, name: &str, have: &H) -> bool {
        match &self.adoption {
            Some(rule) => rule(name, have),
            None => self.r#use == ApiSharing::Exclusive,
        }
    }
}

impl<H> Default for WorldPolicy<H> {
    fn default() -> Self {
        Self {
            ownership: Ownership::Tags,
            r#use: ApiSharing::default(),
            drift: Drift::default(),
            adoption: None,
            sweep: LeakDeletionLimits::default(),
            limits: Limits::default(),
            poll: Duration::from_secs(60),
            visible_within: Duration::from_secs(30),
            identity: None,
        }
    }
}
