//! What all schedules of a simulation have in common: how the operator is made, what the user does, and the server's
//! state from which every schedule starts.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use homeostat_apiserver::{ApiServer, BackgroundWorker};
use homeostat_core::{Clock, Entropy, Revision};
use homeostat_runtime::Operator;
use homeostat_store::{Limits, Memory, Snapshot, Store};
use http::Request;
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::Value;
use tower::Service;

use super::answer_memory::AnswerMemory;
use super::parking::{Parking, ProcessNumber};
use super::run::{RunExtent, RunOptions, run_to_end};
use super::wire::StartAnswers;
use crate::cluster::Cluster;
use crate::state::StartState;
use crate::step::{Step, StepAction};

/// The parts that a new process of the operator is given.
pub(crate) struct ProcessStart {
    pub(crate) process: ProcessNumber,
    pub(crate) parking: Arc<Parking>,
    pub(crate) outside: Option<Arc<dyn Any + Send + Sync>>,
}

/// The in-memory twin of the outside API in one schedule.
pub(crate) struct OutsideInstance {
    pub(crate) twin: Arc<dyn Any + Send + Sync>,
    pub(crate) describe: Arc<dyn Fn() -> String + Send + Sync>,
    /// Undoes this many changes.
    pub(crate) drift: Arc<dyn Fn(usize) + Send + Sync>,
}

pub(crate) type MakeOperator = Arc<dyn Fn(&ProcessStart) -> Operator + Send + Sync>;
pub(crate) type MakeOutside = Arc<dyn Fn() -> OutsideInstance + Send + Sync>;
pub(crate) type Condition = Arc<dyn Fn(&Cluster) -> bool + Send + Sync>;

/// The state from which schedules start.
pub(crate) struct Template {
    pub(crate) server: ApiServer,
    pub(crate) background: BackgroundWorker,
    pub(crate) snapshot: Snapshot,
    /// The revision up to which a new cluster writes its own objects.
    pub(crate) born: Revision,
    pub(crate) start_answers: Arc<StartAnswers>,
    pub(crate) answers: AnswerMemory,
}

impl Template {
    /// Returns the state with which other states are compared.
    pub(crate) fn start(&self) -> StartState<'_> {
        StartState { snapshot: &self.snapshot, born: self.born }
    }

    /// Returns the same state with additional RBAC objects.
    pub(crate) fn with_objects(&self, objects: &[(&str, Value)]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O needs nothing from the system");
        runtime.block_on(async {
            let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
            let store = Arc::new(Memory::holding(self.snapshot.clone(), clock, Limits::default()));
            let forked = self.server.fork(&self.background, store.clone(), clock, Entropy::seeded(7));
            let (mut server, background) = forked.expect("a copy begins with its own revision");
            for (plural, object) in objects {
                let request = Request::post(format!("/apis/rbac.authorization.k8s.io/v1/{plural}"))
                    .header("content-type", "application/json")
                    .body(Full::new(Bytes::from(object.to_string())))
                    .expect("a valid request");
                let Ok(response) = server.call(request).await;
                assert!(
                    response.status().is_success(),
                    "an administrator may grant everything: {}",
                    response.status()
                );
            }
            while background.step().await {}
            let snapshot = store.snapshot();
            Self {
                server,
                background,
                snapshot,
                born: self.born,
                start_answers: Arc::clone(&self.start_answers),
                answers: AnswerMemory::default(),
            }
        })
    }
}

/// What all schedules have in common.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) make: MakeOperator,
    pub(crate) outside: Option<MakeOutside>,
    pub(crate) givens: Vec<Step>,
    pub(crate) steps: Vec<Step>,
    pub(crate) always: Vec<Condition>,
    pub(crate) eventually: Vec<Condition>,
    pub(crate) replicas: u32,
    /// Operators that run beside the one under test, without faults.
    pub(crate) beside: Vec<MakeOperator>,
    pub(crate) seed: u64,
    pub(crate) template: Arc<Template>,
    /// The state with the given objects.
    pub(crate) with_givens: Arc<Template>,
}

impl Setup {
    /// Starts the operator once on a server that knows none of its kinds: every schedule starts with them.
    pub(crate) fn warmed_up(self) -> Self {
        match self.run_part(RunExtent::WarmUp) {
            Ok(template) => Self { template: Arc::new(template), ..self },
            Err(why) => panic!("the operator cannot start: {why}"),
        }
    }

    /// Creates the given objects, with which most schedules start.
    pub(crate) fn with_givens_made(self) -> Self {
        self.try_with_givens_made().unwrap_or_else(|why| panic!("a given object cannot be made: {why}"))
    }

    /// Creates the given objects; returns the reason if the server refuses one.
    pub(crate) fn try_with_givens_made(self) -> Result<Self, String> {
        let with_givens = Arc::new(self.run_part(RunExtent::Givens)?);
        Ok(Self { with_givens, ..self })
    }

    fn run_part(&self, extent: RunExtent) -> Result<Template, String> {
        let options = RunOptions {
            plan: &[],
            seed: self.seed,
            acceptance: None,
            is_told: false,
            rest: Duration::ZERO,
            operations_max: 20_000,
            has_fingerprints: false,
            extent,
            identity: None,
        };
        let (record, template) = run_to_end(self, &self.template, &options);
        record.alarms.first().map_or(Ok(template), |alarm| Err(alarm.text.clone()))
    }

    /// Returns the scenario without steps: the user's objects are created as they are after the last step. Returns
    /// `None` if no step edits anything.
    pub(crate) fn direct(&self) -> Option<Self> {
        let is_edit = |step: &Step| matches!(step.action, StepAction::Edit(_));
        if !self.steps.iter().any(is_edit) {
            return None;
        }
        let mut finals: Vec<Step> = Vec::new();
        for step in self.givens.iter().chain(&self.steps) {
            let known = finals.iter().position(|one| one.object() == step.object());
            match (&step.action, known) {
                (StepAction::Create(_), _) => finals.push(step.clone()),
                (StepAction::Delete, Some(at)) => {
                    finals.remove(at);
                }
                (StepAction::Edit(change), Some(at)) => {
                    if let StepAction::Create(object) = &finals[at].action {
                        finals[at].action = StepAction::Create(Arc::new(change(Value::clone(object)).ok()?));
                    }
                }
                (StepAction::Delete | StepAction::Edit(_), None) => {}
            }
        }
        Some(Self { givens: finals, steps: Vec::new(), ..self.clone() })
    }

    /// Returns the scenario without one given object or step, by its position among both. Returns `None` if the rest
    /// makes no sense: nothing is given, or a later step needs the object.
    pub(crate) fn without(&self, at: usize) -> Option<Self> {
        let mut shorter = self.clone();
        if at < self.givens.len() {
            let given = shorter.givens.remove(at);
            let is_used = |step: &Step| step.object() == given.object();
            if shorter.givens.is_empty() || shorter.steps.iter().any(is_used) {
                return None;
            }
            return shorter.try_with_givens_made().ok();
        }
        let step = shorter.steps.remove(at - self.givens.len());
        let needs_it = |later: &Step| {
            later.object() == step.object()
                && matches!(later.action, StepAction::Edit(_) | StepAction::Create(_))
        };
        let is_needed = !matches!(step.action, StepAction::Edit(_))
            && shorter.steps[at - self.givens.len()..].iter().any(needs_it);
        if is_needed { None } else { Some(shorter) }
    }

    /// Returns the scenario without these given objects and steps, by number, counted from 1.
    pub(crate) fn without_all(self, skipped: &[usize]) -> Self {
        if skipped.is_empty() {
            return self;
        }
        let is_kept = |number: &usize| !skipped.contains(number);
        let givens = self.givens.len();
        let pick = |steps: &[Step], before: usize| {
            let kept =
                (1..).zip(steps).filter(|(at, _)| is_kept(&(at + before))).map(|(_, step)| step.clone());
            kept.collect::<Vec<_>>()
        };
        let shorter =
            Self { givens: pick(&self.givens, 0), steps: pick(&self.steps, givens), ..self.clone() };
        shorter.with_givens_made()
    }

    /// Returns the step after this many others; the steps of the clean-up follow the user's own.
    pub(crate) fn step(&self, done: usize) -> Option<Step> {
        let own = self.steps.get(done).cloned();
        own.or_else(|| self.cleanup().get(done.checked_sub(self.steps.len())?).cloned())
    }

    /// Returns the number of steps, including the clean-up.
    pub(crate) fn all_steps(&self) -> usize {
        self.steps.len() + self.cleanup().len()
    }

    /// Returns the steps that delete whatever the user created and did not delete, the last first.
    pub(crate) fn cleanup(&self) -> Vec<Step> {
        let mut roots: Vec<Step> = Vec::new();
        for step in self.givens.iter().chain(&self.steps) {
            roots.retain(|root| root.object() != step.object());
            if !step.is_delete() {
                roots.push(step.undoing());
            }
        }
        roots.reverse();
        roots
    }
}
