//! The loop of a schedule: waits until nothing can run, lets one thing happen, and repeats.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use homeostat_apiserver::auth::Identity;
use homeostat_apiserver::{ApiServer, BackgroundWorker};
use homeostat_core::{Clock, Entropy, Revision};
use homeostat_store::{Limits, Memory, Store};
use jiff::Timestamp;
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

use super::answer_memory::{AnswerMemory, ServerHistory};
use super::blocked::{BLOCKED_MIN, ThreadTimes};
use super::calls::WaitingCall;
use super::idle_signal::IdleSignal;
use super::parking::{ApiCall, Parking, ProcessNumber};
use super::phases::{Move, Phase};
use super::process::{Process, ProcessRole};
use super::record::{RunRecord, SettledEnd};
use super::setup::{OutsideInstance, Setup, Template};
use super::watch_streams::OpenWatch;
use super::wire::StartAnswers;
use crate::alarm::Alarm;
use crate::fault::Fault;
use crate::trace::Deviation;

/// The hint for an operator that uses real I/O.
pub(super) const REAL_IO: &str =
    "give what is outside the cluster to the simulator with Simulation::with_outside, as a twin in memory";

const HOT_LOOP: &str = "a write by the operator triggers its own next run: write only what differs, without times and counters; \
                        or two writers undo each other's changes: let one writer own each field";

/// The maximum number of operations in a schedule: several per second for three hours.
const OPERATIONS_TOTAL_MAX: u64 = 40_000;

/// Gives schedules that start from different states different random numbers. It must differ from the increment of the
/// generator itself: otherwise a schedule would draw its template's numbers again, and two objects would get the same
/// uid.
const SEED_STRIDE: u64 = 0xd1b5_4a32_d192_ed03;

/// The virtual time at which schedules begin, before the offset that depends on the seed.
const BEGINNING: i64 = 1_800_000_000;

/// Which part of the scenario has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EndPart {
    Scenario,
    Cleanup,
}

/// Decides whether an end is the expected one. A schedule keeps waiting while it is not.
pub(crate) trait Acceptance: Sync {
    fn accepts(&self, part: EndPart, end: &mut SettledEnd) -> bool;
}

/// How to run a schedule.
#[derive(Clone, Copy)]
pub(crate) struct RunOptions<'a> {
    pub(crate) plan: &'a [Deviation],
    pub(crate) seed: u64,
    pub(crate) acceptance: Option<&'a dyn Acceptance>,
    /// Writes the timeline.
    pub(crate) is_told: bool,
    /// At the end of the scenario the operator is started again and watched for this long.
    pub(crate) rest: Duration,
    /// More operations than this in a minute of virtual time are a hot loop.
    pub(crate) operations_max: u64,
    pub(crate) has_fingerprints: bool,
    pub(crate) extent: RunExtent,
    /// The operator under test acts as this user, not as the administrator.
    pub(crate) identity: Option<&'a Identity>,
}

/// How much of the scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunExtent {
    /// The operator starts, on a server without any of its definitions.
    WarmUp,
    /// The given objects are created while no operator runs.
    Givens,
    Whole,
}

/// A running schedule.
pub(crate) struct ScheduleRun<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) options: &'a RunOptions<'a>,
    pub(crate) template: &'a Template,
    pub(crate) server: ApiServer,
    pub(crate) background: BackgroundWorker,
    pub(crate) store: Arc<Memory>,
    pub(crate) clock: Clock,
    pub(crate) started: Instant,
    pub(crate) parking: Arc<Parking>,
    pub(crate) idle: Arc<IdleSignal>,
    pub(crate) outside: Option<OutsideInstance>,
    pub(crate) calls: Vec<WaitingCall>,
    /// Calls that are never disturbed.
    pub(crate) aside: Vec<(ProcessNumber, ApiCall)>,
    /// The process that holds leases under each identity.
    pub(crate) holders: HashMap<String, ProcessNumber>,
    pub(crate) uses_leases: bool,
    /// The holder of each lease, and how often leases have changed hands.
    pub(crate) lease_holders: HashMap<String, String>,
    pub(crate) lease_changes: u64,
    /// When a process started or ended, or a lease changed hands.
    pub(crate) last_election: Instant,
    /// The last writer of each object of the user, and how often leases had changed hands by then.
    pub(crate) last_writers: HashMap<String, (ProcessNumber, u64)>,
    pub(crate) watches: Vec<OpenWatch>,
    /// The time until which a process's watches of a resource end with 410 as soon as they begin.
    pub(crate) expiring: HashMap<(ProcessNumber, Arc<str>), Instant>,
    pub(crate) processes: Vec<Process>,
    pub(crate) processes_started: u32,
    pub(crate) outcome_order: Arc<AtomicU64>,
    pub(crate) occurrences: HashMap<String, u32>,
    pub(crate) round: u64,
    /// When the current minute began, and the number of operations until then.
    pub(crate) minute: (Instant, u64),
    /// Changes by the operator since the last step of the user.
    pub(crate) writes_since_step: u64,
    /// The number of operations when something was last written.
    pub(crate) operations_at_write: u64,
    /// The number of operations when the long rest began.
    pub(crate) operations_before_rest: u64,
    /// When the server does the next part of its own work.
    pub(crate) background_due: Option<Instant>,
    /// The revision up to which changes have been recorded.
    pub(crate) noted: Revision,
    pub(crate) phase: Phase,
    pub(crate) phase_since: Instant,
    pub(crate) last_activity: Instant,
    pub(crate) last_write: Instant,
    /// The number of steps the user has done, including the clean-up.
    pub(crate) step: usize,
    /// The order of the steps that are still to be done, by number.
    pub(crate) order: Vec<usize>,
    /// The revision before each step.
    pub(crate) step_revisions: Vec<Revision>,
    /// How often the server has refused the next step.
    pub(crate) refusals: u32,
    pub(crate) is_down: bool,
    pub(crate) postponed: Option<usize>,
    /// Answers to add to those of the template.
    pub(crate) start_answers: StartAnswers,
    pub(crate) server_history: ServerHistory,
    pub(crate) hasher: Xxh3,
    pub(crate) record: RunRecord,
}

/// Boots a server and creates the objects that every cluster has.
pub(crate) fn boot(seed: u64) -> Template {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(async {
        let clock = Clock::virtual_from(beginning(seed));
        let store = Arc::new(Memory::with(clock, Limits::default()));
        let booted = ApiServer::builder(store.clone()).clock(clock).entropy(Entropy::seeded(seed)).build();
        let (server, background) = booted.await.expect("a store in memory takes everything");
        background.observe_store();
        while background.step().await {}
        let snapshot = store.snapshot();
        Template {
            server,
            background,
            born: snapshot.revision(),
            snapshot,
            start_answers: Arc::default(),
            answers: AnswerMemory::default(),
        }
    })
}

/// Returns when schedules with this seed begin: two seeds also differ in the time of day.
fn beginning(seed: u64) -> Timestamp {
    let offset = i64::try_from(seed % 1000).expect("below a thousand") * 86_461;
    Timestamp::from_second(BEGINNING + offset).expect("in this century")
}

/// Runs one schedule. It starts with the given objects, unless one of them is created late.
pub(crate) fn run_schedule(setup: &Setup, options: &RunOptions<'_>) -> RunRecord {
    let is_late = options.plan.iter().any(|deviation| matches!(deviation.fault, Fault::Postpone { .. }));
    let template = if is_late { &setup.template } else { &setup.with_givens };
    run_to_end(setup, template, options).0
}

/// Runs one schedule; also returns its final state, from which other schedules may start.
pub(crate) fn run_to_end(
    setup: &Setup,
    template: &Template,
    options: &RunOptions<'_>,
) -> (RunRecord, Template) {
    let idle = Arc::new(IdleSignal::default());
    let has_threads = Arc::new(AtomicBool::new(false));
    let (hook, threads) = (Arc::clone(&idle), Arc::clone(&has_threads));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || hook.ring())
        .on_thread_start(move || threads.store(true, Ordering::Relaxed))
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    let times = ThreadTimes::read();
    let (mut record, template) = runtime.block_on(tokio::task::unconstrained(async {
        let mut run = ScheduleRun::new(setup, template, options, idle);
        run.run().await;
        run.finish()
    }));
    record.blocked = times.map(|times| times.blocked_since()).unwrap_or_default();
    if has_threads.load(Ordering::Relaxed) {
        let text = "the operator uses threads (spawn_blocking, tokio::fs, resolving a host name), so its schedules cannot be \
                    repeated";
        record.alarms.push(Alarm::new("deterministic", "operator", text.to_owned()).hint(REAL_IO));
    }
    (record, template)
}

impl<'a> ScheduleRun<'a> {
    fn new(
        setup: &'a Setup,
        template: &'a Template,
        options: &'a RunOptions<'a>,
        idle: Arc<IdleSignal>,
    ) -> Self {
        let clock = Clock::virtual_from(beginning(options.seed));
        let store = Arc::new(Memory::holding(template.snapshot.clone(), clock, Limits::default()));
        // The seed alone is not enough: the template's objects got their uids from it, and new objects need different
        // ones.
        let start = template.snapshot.revision();
        let entropy = Entropy::seeded(options.seed ^ start.get().wrapping_mul(SEED_STRIDE));
        let (server, background) = template
            .server
            .fork(&template.background, store.clone(), clock, entropy.clone())
            .expect("a copy begins with its own revision");
        let now = Instant::now();
        let postponed = options.plan.iter().find_map(|deviation| match deviation.fault {
            Fault::Postpone { given } => Some(given - 1),
            _ => None,
        });
        Self {
            setup,
            options,
            template,
            server,
            background,
            noted: store.snapshot().revision(),
            store,
            clock,
            started: now,
            parking: Arc::default(),
            idle,
            outside: setup.outside.as_ref().map(|make| make()),
            calls: Vec::new(),
            aside: Vec::new(),
            holders: HashMap::new(),
            uses_leases: false,
            lease_holders: HashMap::new(),
            lease_changes: 0,
            last_election: now,
            last_writers: HashMap::new(),
            watches: Vec::new(),
            expiring: HashMap::new(),
            processes: Vec::new(),
            processes_started: 0,
            outcome_order: Arc::default(),
            occurrences: HashMap::new(),
            round: 0,
            minute: (now, 0),
            writes_since_step: 0,
            operations_at_write: 0,
            operations_before_rest: 0,
            background_due: None,
            phase: Phase::Steps(EndPart::Scenario),
            phase_since: now,
            last_activity: now,
            last_write: now,
            step: 0,
            order: (0..setup.all_steps()).collect(),
            step_revisions: Vec::new(),
            refusals: 0,
            is_down: false,
            postponed,
            start_answers: StartAnswers::new(),
            server_history: ServerHistory::new(options.seed, start, entropy),
            hasher: Xxh3::new(),
            record: RunRecord::default(),
        }
    }

    async fn run(&mut self) {
        if self.options.extent == RunExtent::Givens || self.postponed.is_some() {
            self.create_givens().await;
        }
        if self.options.extent == RunExtent::Givens {
            return;
        }
        for beside in 0..self.setup.beside.len() {
            self.start_process(ProcessRole::Beside(beside), None);
        }
        self.start_all();
        let mut longest = BLOCKED_MIN;
        loop {
            let times = if self.options.is_told { ThreadTimes::read() } else { None };
            self.idle.wait().await;
            if let Some(blocked) =
                times.map(|times| times.blocked_since()).filter(|blocked| *blocked > longest)
            {
                longest = blocked;
                self.record.blocked_after = self.record.lines.last().map(|line| line.text.clone());
            }
            self.round += 1;
            if self.has_ended_early() {
                return;
            }
            self.tell_journals();
            self.take_calls().await;
            self.pull_watches();
            if self.is_hot_loop() {
                return;
            }
            if self.perform_next().await {
                continue;
            }
            match self.next_move().await {
                Move::Again => {}
                Move::Wait(until) => self.wait(until).await,
                Move::End => return,
            }
        }
    }

    /// Returns whether there are too many operations in a minute of virtual time, or too many writes since the user's
    /// last step.
    fn is_hot_loop(&mut self) -> bool {
        let operations = self.record.operations;
        if self.minute.0.elapsed() >= Duration::from_secs(60) {
            self.minute = (Instant::now(), operations);
        }
        let (since, before) = self.minute;
        let is_hot = operations - before > self.options.operations_max;
        let is_restless = !self.is_resting() && self.writes_since_step > self.options.operations_max / 2;
        if !is_hot && !is_restless && operations <= OPERATIONS_TOTAL_MAX {
            return false;
        }
        let last = self.record.points.last().map(|point| point.address.to_string()).unwrap_or_default();
        let text = if is_restless {
            format!("{} writes without coming to rest; the last is \"{last}\"", self.writes_since_step)
        } else {
            let (count, seconds) = (operations - before, since.elapsed().as_secs());
            format!(
                "{count} operations in {seconds}s of virtual time without coming to rest; the last is \"{last}\""
            )
        };
        self.record.alarms.push(Alarm::new("hot loop", "operator", text).hint(HOT_LOOP));
        true
    }

    /// Lets virtual time pass until a call or an event arrives, or until the given time.
    async fn wait(&mut self, until: Instant) {
        let mut sleep = Box::pin(tokio::time::sleep_until(until));
        let parking = Arc::clone(&self.parking);
        std::future::poll_fn(|cx| {
            if parking.poll_arrival(cx).is_ready() || sleep.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if self.pull_with(cx) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn has_ended_early(&mut self) -> bool {
        let Some(at) = self.processes.iter().position(|process| process.task.is_finished()) else {
            return false;
        };
        let process = self.processes.remove(at);
        let message = match futures::FutureExt::now_or_never(process.task) {
            Some(Ok(Ok(()))) => "it returned".to_owned(),
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "it ended".to_owned(),
        };
        let text = format!("the operator exited on its own: {message}");
        self.record.alarms.push(Alarm::new("no panic", "operator", text));
        true
    }

    fn finish(mut self) -> (RunRecord, Template) {
        self.tell_journals();
        for process in std::mem::take(&mut self.processes) {
            self.keep_journal(&process);
        }
        self.record.hash = self.hasher.digest();
        let start_answers = if self.start_answers.is_empty() {
            Arc::clone(&self.template.start_answers)
        } else {
            let known = (*self.template.start_answers).clone();
            Arc::new(known.into_iter().chain(self.start_answers).collect())
        };
        let template = Template {
            server: self.server,
            background: self.background,
            snapshot: self.store.snapshot(),
            born: self.template.born,
            start_answers,
            answers: AnswerMemory::default(),
        };
        (self.record, template)
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn note_activity(&mut self) {
        self.last_activity = Instant::now();
    }

    pub(crate) fn process(&mut self, number: ProcessNumber) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.number == number)
    }

    pub(crate) fn outside_text(&self) -> String {
        self.outside.as_ref().map(|outside| (outside.describe)()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the first numbers that a server draws, as many as a scenario needs.
    fn numbers(seed: u64) -> BTreeSet<u64> {
        let entropy = Entropy::seeded(seed);
        (0..1000).map(|_| entropy.below(u64::MAX)).collect()
    }

    #[test]
    fn a_schedule_does_not_repeat_the_random_numbers_of_its_template() {
        for seed in [0, 1, 7] {
            let of_template = numbers(seed);
            for start in 1..50_u64 {
                let of_schedule = numbers(seed ^ start.wrapping_mul(SEED_STRIDE));
                assert!(of_template.is_disjoint(&of_schedule), "seed {seed}, revision {start}");
            }
        }
    }
}
