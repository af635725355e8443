//! Chooses which schedules are run: first the one without faults, then every single fault at every point, then pairs,
//! then random schedules guided by states that were not seen before.
//!
//! **Invariant:** which schedules are run, and which failure is reported, depends only on setup, seed and budget, not
//! on the number of cores. A limit of real time can end the exploration earlier.

mod blocking;
mod faults;
mod pairs;
mod random;
mod singles;
mod workers;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_core::Clock;
use homeostat_runtime::kind::DecodedObjects;
use jiff::Timestamp;

use crate::alarm::Alarm;
use crate::engine::{Acceptance, Point, RunExtent, RunOptions, RunRecord, Setup, run_schedule};
use crate::oracle::{self, ReferenceRun, SameEnd, WantedEnd};
use crate::rights::{self, Right};
use crate::trace::Deviation;

/// The number of schedules that are run before the next decision.
const BATCH: usize = 128;

/// How long an operator must be quiet at the end of the reference.
const REST: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of operations of the reference in a minute of virtual time.
const REFERENCE_OPERATIONS_MAX: u64 = 1_000;

/// The maximum number of operations in a minute of other schedules: this many, or this multiple of all
/// operations of the reference before and after its rest.
const OPERATIONS_MIN: u64 = 800;
const OPERATIONS_FACTOR: u64 = 30;

/// Limits an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The maximum number of schedules.
    pub schedules: u64,
    /// The maximum real time, in seconds.
    pub seconds: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { schedules: 10_000, seconds: 10 }
    }
}

/// A failing schedule.
pub(crate) struct Found {
    pub(crate) deviations: Vec<Deviation>,
    pub(crate) alarm: Alarm,
}

/// The result of a schedule that has been judged.
pub(crate) struct Judged {
    pub(crate) deviations: Vec<Deviation>,
    pub(crate) points: Vec<Point>,
    pub(crate) fingerprints: Vec<u64>,
    pub(crate) rights: BTreeSet<Right>,
    pub(crate) alarms: Vec<Alarm>,
    /// A hash of everything that happened.
    pub(crate) hash: u64,
    /// Whether every deviation took place.
    pub(crate) is_taken: bool,
}

/// Runs and judges schedules of one setup.
pub(crate) struct Explorer<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) reference: ReferenceRun,
    budget: Budget,
    began: Timestamp,
    /// The number of schedules that were run.
    pub(crate) schedules: u64,
    pub(crate) seen: HashSet<u64>,
    pub(crate) rights: BTreeSet<Right>,
    /// A hash of all schedules so far, in order.
    pub(crate) hash: u64,
    /// Whether fingerprints of states are computed, which needs every change to be parsed.
    has_fingerprints: bool,
    /// One for each thread that has run schedules.
    decoded: Mutex<Vec<DecodedObjects>>,
}

/// Runs the schedule without faults twice, with different times and random numbers. After the first run the operator
/// must be quiet for `rest`.
fn run_reference(setup: &Setup, rest: Duration) -> ReferenceRun {
    let wanted = WantedEnd(setup);
    let options = |seed: u64, rest: Duration| RunOptions {
        plan: &[],
        seed,
        acceptance: Some(&wanted),
        is_told: false,
        rest,
        operations_max: REFERENCE_OPERATIONS_MAX,
        has_fingerprints: true,
        extent: RunExtent::Whole,
        identity: None,
    };
    let first = run_schedule(setup, &options(setup.seed, rest));
    let second = run_schedule(setup, &options(setup.seed + 1, Duration::ZERO));
    ReferenceRun::new(setup, first, &second)
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(setup: &'a Setup, budget: Budget) -> Self {
        Self::with_rest(setup, budget, REST)
    }

    /// Creates an explorer for a single schedule with faults. Its reference omits the long rest, which takes longer
    /// than the remaining schedule, and by which only a schedule without faults is judged.
    pub(crate) fn for_one_schedule(setup: &'a Setup) -> Self {
        Self::with_rest(setup, Budget { schedules: 1, seconds: u64::MAX }, Duration::ZERO)
    }

    fn with_rest(setup: &'a Setup, budget: Budget, rest: Duration) -> Self {
        let began = Clock::system().now();
        let reference = run_reference(setup, rest);
        let rights = reference.record.rights.clone();
        let seen = reference.record.fingerprints.iter().copied().collect();
        let hash = reference.record.hash;
        Self {
            setup,
            reference,
            budget,
            began,
            schedules: 2,
            seen,
            rights,
            hash,
            has_fingerprints: true,
            decoded: Mutex::default(),
        }
    }

    /// Looks for a failing schedule.
    pub(crate) fn explore(&mut self) -> Option<Found> {
        if let Some(alarm) = self.alarms_of_scenario(&[]).into_iter().next() {
            return Some(Found { deviations: Vec::new(), alarm });
        }
        self.schedules += 1;
        let (found, judged) = singles::explore(self);
        if found.is_some() {
            return found;
        }
        // Only random schedules are guided by states.
        self.has_fingerprints = false;
        let found = pairs::explore(self, &judged);
        self.has_fingerprints = true;
        let found = found.or_else(|| random::explore(self, judged));
        found.or_else(|| self.judge_rights().map(|alarm| Found { deviations: Vec::new(), alarm }))
    }

    /// Runs the schedule without faults under exactly the rights that were needed so far.
    fn judge_rights(&mut self) -> Option<Alarm> {
        let limited = Setup {
            with_givens: Arc::new(rights::granted(&self.setup.with_givens, &self.rights)),
            ..self.setup.clone()
        };
        let same_end = SameEnd { setup: self.setup, reference: &self.reference };
        let identity = rights::identity();
        let options =
            RunOptions { acceptance: Some(&same_end), identity: Some(&identity), ..self.options(&[]) };
        let record = run_schedule(&limited, &options);
        self.schedules += 1;
        oracle::judge_rights(self.setup, &self.reference, &record)
    }

    /// Runs a schedule that begins with the objects as they are after the last step, and compares its end.
    fn judge_direct_path(&self) -> Option<Alarm> {
        let direct = self.setup.direct()?.try_with_givens_made().ok()?;
        let wanted = WantedEnd(&direct);
        let options = RunOptions { acceptance: Some(&wanted), ..self.options(&[]) };
        let record = run_schedule(&direct, &options);
        oracle::judge_paths(self.setup, &self.reference, &record)
    }

    pub(crate) fn options<'b>(&self, plan: &'b [Deviation]) -> RunOptions<'b> {
        // A repetition of the reference has the same limit.
        let operations_max = match plan {
            [] => REFERENCE_OPERATIONS_MAX,
            _ => OPERATIONS_MIN
                .max(self.reference.record.operations_at_work().saturating_mul(OPERATIONS_FACTOR)),
        };
        RunOptions {
            plan,
            seed: self.setup.seed,
            acceptance: None,
            is_told: false,
            rest: Duration::ZERO,
            operations_max,
            has_fingerprints: self.has_fingerprints,
            extent: RunExtent::Whole,
            identity: None,
        }
    }

    /// Runs a schedule.
    pub(crate) fn record_of(&self, plan: &[Deviation], is_told: bool) -> RunRecord {
        let same_end = SameEnd { setup: self.setup, reference: &self.reference };
        let wanted = WantedEnd(self.setup);
        let is_reference = plan.is_empty();
        let acceptance: &dyn Acceptance = if is_reference { &wanted } else { &same_end };
        let rest = if is_reference { REST } else { Duration::ZERO };
        let options = RunOptions { acceptance: Some(acceptance), is_told, rest, ..self.options(plan) };
        run_schedule(self.setup, &options)
    }

    /// Runs and judges a schedule.
    pub(crate) fn alarms_of(&self, plan: &[Deviation]) -> Vec<Alarm> {
        let record = self.record_of(plan, false);
        self.alarms_in(plan, &record)
    }

    /// Runs and judges a schedule; without deviations, the whole scenario is judged.
    pub(crate) fn alarms_of_scenario(&self, plan: &[Deviation]) -> Vec<Alarm> {
        if !plan.is_empty() {
            return self.alarms_of(plan);
        }
        let mut alarms = self.alarms_in(&[], &self.reference.record);
        if alarms.is_empty() {
            alarms.extend(self.judge_direct_path());
        }
        alarms
    }

    /// Judges a schedule that was run.
    pub(crate) fn alarms_in(&self, plan: &[Deviation], record: &RunRecord) -> Vec<Alarm> {
        let mut alarms = if plan.is_empty() {
            oracle::judge_reference(self.setup, record)
        } else {
            oracle::judge(self.setup, &self.reference, record)
        };
        if alarms.is_empty() {
            alarms.extend(blocking::confirm(self, plan, record));
        }
        alarms
    }

    fn judge_one(&self, deviations: Vec<Deviation>) -> Judged {
        let record = self.record_of(&deviations, false);
        let alarms = self.alarms_in(&deviations, &record);
        let is_taken = record.taken.len() == deviations.len();
        let RunRecord { points, fingerprints, rights, hash, .. } = record;
        Judged { deviations, points, fingerprints, rights, alarms, hash, is_taken }
    }

    /// Returns whether more schedules may be run.
    pub(crate) fn has_budget(&self) -> bool {
        let spent = Clock::system().now().duration_since(self.began);
        let is_late = u64::try_from(spent.as_secs()).unwrap_or_default() >= self.budget.seconds;
        self.schedules < self.budget.schedules && !is_late
    }

    /// Returns the number of schedules that the budget has left.
    pub(crate) fn left(&self) -> u64 {
        self.budget.schedules.saturating_sub(self.schedules)
    }

    /// Runs schedules, as many as the budget allows, in batches; stops after the first batch with a failure.
    pub(crate) fn run_all(&mut self, plans: Vec<Vec<Deviation>>) -> (Option<Found>, Vec<Judged>) {
        let mut passed = Vec::new();
        let mut plans = plans.into_iter();
        while self.has_budget() {
            let left = usize::try_from(self.budget.schedules - self.schedules).unwrap_or(usize::MAX);
            let batch: Vec<_> = plans.by_ref().take(BATCH.min(left)).collect();
            if batch.is_empty() {
                break;
            }
            self.schedules += batch.len() as u64;
            for judged in workers::run_batch(self, batch) {
                self.rights.extend(judged.rights.iter().cloned());
                self.hash = self.hash.rotate_left(5) ^ judged.hash;
                if let Some(alarm) = judged.alarms.first() {
                    return (Some(Found { deviations: judged.deviations, alarm: alarm.clone() }), passed);
                }
                passed.push(judged);
            }
        }
        (None, passed)
    }
}
