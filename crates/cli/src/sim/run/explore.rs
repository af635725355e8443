//! Chooses the runs: two without faults, then every single fault at every point, then random combinations, until the
//! budget is used up or a failure is found. Runs are concurrent, each with its own server and operator.
//!
//! **Invariant:** if several runs fail, the one scheduled first is reported, even if another one finishes first.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use homeostat_core::Entropy;
use tokio::time::Instant;

use super::fault::{FaultAtAddress, FaultKind};
use super::fault_points::{random_faults, single_faults};
use super::one_run::{self, RunPlan};
use super::oracle;
use super::progress::ProgressLine;
use super::run_record::{ReferenceRuns, RunRecord};
use super::scenario::Scenario;
use super::violation::Violation;

/// How often a failure is retried; one that never recurs is only mentioned.
const CONFIRMATIONS: usize = 2;

/// The factors by which undisturbed runs wait longer for rest than the scenario says: first, and in case of doubt.
const SETTLE_FACTORS: [u32; 2] = [1, 3];

/// An exploration and its limits.
pub(super) struct Exploration {
    pub(super) command: String,
    pub(super) scenario: Scenario,
    pub(super) seed: u64,
    pub(super) runs_max: usize,
    pub(super) time_max: Duration,
    pub(super) jobs: usize,
    pub(super) sorts: Vec<FaultKind>,
    /// A folder for the files of runs.
    pub(super) folder: PathBuf,
}

/// A run that broke a rule.
pub(super) struct Failure {
    pub(super) faults: Vec<FaultAtAddress>,
    pub(super) violation: Violation,
    pub(super) record: RunRecord,
}

/// The result of replaying a saved failure.
pub(super) enum Replayed {
    /// It fails, though perhaps in a different way.
    Failed(Box<Failure>),
    /// All faults happened, and nothing failed.
    Passed,
    /// There was no run in which all faults happened; contains those that did not happen in the last one.
    Unreached(Vec<FaultAtAddress>),
}

/// What an exploration found.
pub(super) struct Findings {
    pub(super) failure: Option<Failure>,
    /// The number of disturbed runs, without those that shrank a failure.
    pub(super) runs: usize,
    /// Runs whose faults did not happen, because the operator did not make those requests.
    pub(super) unreached: usize,
    /// The number of possible single faults.
    pub(super) singles: usize,
    /// Failures that did not recur, in words.
    pub(super) unrepeated: Vec<String>,
    pub(super) took: Duration,
}

impl Exploration {
    /// Explores. The error says what is wrong with the scenario or the command.
    pub(super) async fn explore(&self, progress: &ProgressLine) -> Result<Findings, String> {
        let begun = Instant::now();
        let mut findings = Findings {
            failure: None,
            runs: 0,
            unreached: 0,
            singles: 0,
            unrepeated: Vec::new(),
            took: Duration::ZERO,
        };
        match self.reference(progress).await? {
            Err(failure) => findings.failure = Some(*failure),
            Ok(reference) => self.disturb(&reference, begun, &mut findings, progress).await?,
        }
        findings.took = begun.elapsed();
        Ok(findings)
    }

    /// Repeats a run with these faults, after the undisturbed ones, until it fails or has succeeded several times.
    pub(super) async fn replay(
        &self,
        faults: &[FaultAtAddress],
        progress: &ProgressLine,
    ) -> Result<Replayed, String> {
        let reference = match self.reference(progress).await? {
            Err(failure) => return Ok(Replayed::Failed(failure)),
            Ok(reference) => reference,
        };
        if faults.is_empty() {
            return Ok(Replayed::Passed);
        }
        let mut outcome = Replayed::Unreached(faults.to_vec());
        for _ in 0..=CONFIRMATIONS {
            progress.tell("the same faults again");
            let (failure, done) = self.failure_of(&reference, faults.to_vec()).await?;
            if let Some(failure) = failure {
                return Ok(Replayed::Failed(Box::new(failure)));
            }
            let unreached: Vec<FaultAtAddress> =
                faults.iter().filter(|fault| !done.contains(fault)).cloned().collect();
            if unreached.is_empty() {
                outcome = Replayed::Passed;
            } else if matches!(outcome, Replayed::Unreached(_)) {
                outcome = Replayed::Unreached(unreached);
            }
        }
        Ok(outcome)
    }

    /// Makes two undisturbed runs. The inner error is a failure without any fault. If it may come from judging too
    /// early, on a busy machine, it must happen again in runs that wait longer.
    async fn reference(
        &self,
        progress: &ProgressLine,
    ) -> Result<Result<ReferenceRuns, Box<Failure>>, String> {
        progress.tell("two runs without faults");
        let found = self.reference_with(SETTLE_FACTORS[0]).await?;
        if !found.as_ref().is_err_and(|failure| oracle::is_matter_of_time(&failure.violation)) {
            return Ok(found);
        }
        progress.tell("two runs without faults again, with more time to settle");
        self.reference_with(SETTLE_FACTORS[1]).await
    }

    async fn reference_with(
        &self,
        settle_factor: u32,
    ) -> Result<Result<ReferenceRuns, Box<Failure>>, String> {
        let plan = RunPlan { settle_factor, ..self.plan(&[], None) };
        let other = RunPlan { seed: self.seed.wrapping_add(1), ..plan };
        let (first, second) = futures::join!(self.run(plan), self.run(other));
        let (first, second) = (first?, second?);
        let judge = |record| oracle::judge_reference(&self.scenario, record).into_iter().next();
        let failure =
            |violation, record| Ok(Err(Box::new(Failure { faults: Vec::new(), violation, record })));
        if let Some(violation) = judge(&first) {
            return failure(violation, first);
        }
        if let Some(violation) = judge(&second) {
            return failure(violation, second);
        }
        let reference = ReferenceRuns::new(first, &second, &self.scenario.ignore);
        let mut rests = second.rests.iter().enumerate();
        match rests.find_map(|(number, rest)| reference.differences(number, &rest.state).into_iter().next()) {
            Some(difference) => failure(oracle::not_repeated(&difference), second),
            None => Ok(Ok(reference)),
        }
    }

    fn plan<'a>(&'a self, faults: &'a [FaultAtAddress], reference: Option<&'a ReferenceRuns>) -> RunPlan<'a> {
        RunPlan {
            command: &self.command,
            scenario: &self.scenario,
            seed: self.seed,
            faults,
            settle_factor: SETTLE_FACTORS[0],
            reference,
        }
    }

    /// Makes disturbed runs until the budget is used up or a failure is found and shrunk.
    async fn disturb(
        &self,
        reference: &ReferenceRuns,
        begun: Instant,
        findings: &mut Findings,
        progress: &ProgressLine,
    ) -> Result<(), String> {
        let singles = single_faults(&reference.record, self.scenario.steps.len(), &self.sorts);
        findings.singles = singles.len();
        if singles.is_empty() {
            return Ok(());
        }
        let entropy = Entropy::seeded(self.seed);
        // Sorted, so that the order does not depend on which of two concurrent requests came first.
        let sorted = {
            let mut sorted = singles.clone();
            sorted.sort();
            sorted
        };
        let random = std::iter::repeat_with(|| random_faults(&sorted, &entropy));
        let mut schedules = singles.iter().map(|one| vec![one.clone()]).chain(random).take(self.runs_max);
        loop {
            let found = self.next_failure(reference, &mut schedules, begun, findings, progress).await?;
            let Some(failure) = found else { return Ok(()) };
            progress.tell("a failure: trying it again and making it smaller");
            match self.confirm(reference, failure).await? {
                Ok(failure) => {
                    findings.failure = Some(self.shrink(reference, failure).await?);
                    return Ok(());
                }
                Err(unrepeated) => findings.unrepeated.push(unrepeated),
            }
        }
    }

    /// Makes runs, several concurrently, until one fails.
    async fn next_failure(
        &self,
        reference: &ReferenceRuns,
        schedules: &mut impl Iterator<Item = Vec<FaultAtAddress>>,
        begun: Instant,
        findings: &mut Findings,
        progress: &ProgressLine,
    ) -> Result<Option<Failure>, String> {
        let mut running = FuturesUnordered::new();
        let mut first: Option<(usize, Failure)> = None;
        loop {
            while first.is_none() && running.len() < self.jobs && begun.elapsed() < self.time_max {
                let Some(faults) = schedules.next() else { break };
                let number = findings.runs;
                findings.runs += 1;
                progress.tell_run(findings.runs, self.runs_max, &faults);
                running.push(async move { (number, self.failure_of(reference, faults).await) });
            }
            let Some((number, outcome)) = running.next().await else {
                return Ok(first.map(|(_, failure)| failure));
            };
            let (failure, done) = outcome?;
            findings.unreached += usize::from(done.is_empty());
            if let Some(failure) = failure
                && first.as_ref().is_none_or(|(earlier, _)| number < *earlier)
            {
                first = Some((number, failure));
            }
        }
    }

    /// Runs these faults and returns the failure, and which of them happened.
    async fn failure_of(
        &self,
        reference: &ReferenceRuns,
        faults: Vec<FaultAtAddress>,
    ) -> Result<(Option<Failure>, Vec<FaultAtAddress>), String> {
        let record = self.run(self.plan(&faults, Some(reference))).await?;
        let done = record.done.clone();
        let violation = oracle::judge(reference, &record).into_iter().next();
        // Faults that did not happen are not part of the story.
        let failure = violation.map(|violation| Failure { faults: record.done.clone(), violation, record });
        Ok((failure, done))
    }

    /// Retries a failure. The inner error describes a failure that did not recur.
    async fn confirm(
        &self,
        reference: &ReferenceRuns,
        failure: Failure,
    ) -> Result<Result<Failure, String>, String> {
        for _ in 0..CONFIRMATIONS {
            let (again, _) = self.failure_of(reference, failure.faults.clone()).await?;
            if again.is_some_and(|again| again.violation.is_like(&failure.violation)) {
                return Ok(Ok(failure));
            }
        }
        let faults: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
        Ok(Err(format!("{} ({}): {}", failure.violation.oracle, faults.join("; "), failure.violation.text)))
    }

    /// Leaves out faults as long as the failure stays the same.
    async fn shrink(&self, reference: &ReferenceRuns, failure: Failure) -> Result<Failure, String> {
        let mut best = failure;
        let mut at = 0;
        while best.faults.len() > 1 && at < best.faults.len() {
            let mut fewer = best.faults.clone();
            fewer.remove(at);
            match self.failure_of(reference, fewer).await? {
                (Some(smaller), _) if smaller.violation.is_like(&best.violation) => best = smaller,
                _ => at += 1,
            }
        }
        Ok(best)
    }

    /// Makes one run in its own folder.
    async fn run(&self, plan: RunPlan<'_>) -> Result<RunRecord, String> {
        let folder = self.folder.join(Entropy::system().suffix(10));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
        let record = one_run::run(plan, &folder).await;
        // The parent folder is removed at the end in any case.
        let _ = std::fs::remove_dir_all(&folder);
        record
    }
}
