//! What a user writes: the operator, the steps of the scenario, and the conditions that must hold.

use std::fmt::{Debug, Write as _};
use std::path::Path;
use std::sync::Arc;

use homeostat_core::Clock;
use homeostat_runtime::{Kind, Operator};
use kube::CustomResourceExt;

use crate::cluster::Cluster;
use crate::engine::{Condition, MakeOperator, MakeOutside, Setup, boot};
use crate::explore::{Budget, Explorer, Found};
use crate::generate::{Variation, variations};
use crate::outside::{Outside, make_outside};
use crate::report::{self, Failure, Outcome};
use crate::rights::as_role;
use crate::shrink::{drop_steps, shrink};
use crate::step::{Step, StepAction, create, delete, edit_spec};
use crate::trace::{Deviation, Trace, test_name};

/// The variable that names a trace to replay instead of exploring.
const REPLAY: &str = "HOMEOSTAT_REPLAY";
/// The variables that set another number of schedules and another seed for a whole test run.
const SCHEDULES: &str = "HOMEOSTAT_SIM_SCHEDULES";
const SEED: &str = "HOMEOSTAT_SIM_SEED";

/// An operator, a scenario, and the conditions that must hold whatever goes wrong.
#[must_use = "a simulation does nothing until it is checked"]
pub struct Simulation {
    make: MakeOperator,
    outside: Option<MakeOutside>,
    givens: Vec<Step>,
    steps: Vec<Step>,
    always: Vec<Condition>,
    eventually: Vec<Condition>,
    replicas: u32,
    beside: Vec<MakeOperator>,
    seed: u64,
    budget: Budget,
    name: Option<String>,
}

impl Simulation {
    /// Creates a simulation of the operator that `make` returns. `make` is called at the start, and again after every
    /// simulated crash.
    pub fn new(make: impl Fn() -> Operator + Send + Sync + 'static) -> Self {
        Self::of(Arc::new(move |_| make()), None)
    }

    /// Creates a simulation of an operator with an API outside the cluster, for which `twin` is an in-memory stand-in.
    /// Calls through [`Outside`] are scheduled, fail and lag like all others.
    pub fn with_outside<W: Clone + Debug + Send + Sync + 'static>(
        twin: W,
        make: impl Fn(Outside<W>) -> Operator + Send + Sync + 'static,
    ) -> Self {
        Self::of(Arc::new(move |start| make(Outside::of_process(start))), Some(make_outside(twin)))
    }

    fn of(make: MakeOperator, outside: Option<MakeOutside>) -> Self {
        Self {
            make,
            outside,
            givens: Vec::new(),
            steps: Vec::new(),
            always: Vec::new(),
            eventually: Vec::new(),
            replicas: 1,
            beside: Vec::new(),
            seed: 1,
            budget: Budget::default(),
            name: None,
        }
    }

    /// Adds an object that exists from the start.
    pub fn given<K: Kind>(mut self, object: K) -> Self {
        self.givens.push(create(object));
        self
    }

    /// Adds a step of the user. It happens when everything is at rest, in some schedules earlier.
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds steps that change every field of the spec of a given object and change it back, according to the schema of
    /// its definition. Values that the schema forbids are tried, too, and refused.
    #[track_caller]
    pub fn then_vary<K: Kind + CustomResourceExt>(mut self, name: &str) -> Self {
        let wanted = delete::<K>(name).object();
        let given = self.givens.iter().find(|given| given.object() == wanted);
        let Some(StepAction::Create(object)) = given.map(|given| &given.action) else {
            panic!("{wanted} cannot be varied: it is not given");
        };
        let definition = serde_json::to_value(K::crd()).expect("a definition is plain data");
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let version = versions.into_iter().find(|version| version["name"] == *K::version(&()));
        let schema = version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default();
        let good = object["spec"].clone();
        for Variation { text, spec } in variations(&schema, &good) {
            self.steps.push(edit_spec::<K>(name, &text, spec));
            self.steps.push(edit_spec::<K>(name, &format!("back from {text}"), good.clone()));
        }
        self
    }

    /// Adds a condition that must hold after every single change.
    pub fn always(mut self, condition: impl Fn(&Cluster) -> bool + Send + Sync + 'static) -> Self {
        self.always.push(Arc::new(condition));
        self
    }

    /// Adds a condition that must hold at rest after the last step.
    pub fn eventually(mut self, condition: impl Fn(&Cluster) -> bool + Send + Sync + 'static) -> Self {
        self.eventually.push(Arc::new(condition));
        self
    }

    /// Sets the number of replicas of the operator (default: one).
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas.max(1);
        self
    }

    /// Runs another operator beside the one under test, without faults: for the controllers of its environment, such as
    /// [`actors::kubelet`](crate::actors::kubelet).
    pub fn beside(mut self, make: impl Fn() -> Operator + Send + Sync + 'static) -> Self {
        self.beside.push(Arc::new(move |_| make()));
        self
    }

    /// Sets the budget (default: 10 000 schedules and ten seconds).
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the name in reports and traces (default: the name of the test).
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Explores; panics with the report of a failure.
    ///
    /// With `HOMEOSTAT_REPLAY=FILE` it replays the trace in that file instead, if the trace is one of this simulation.
    #[track_caller]
    pub fn check(self) -> Outcome {
        let outcome = match std::env::var_os(REPLAY) {
            Some(file) => match Trace::load(Path::new(&file)) {
                Ok(trace) if trace.simulation == self.name() => {
                    // `homeostat sim replay` looks for this line: a test that does not print it has explored instead.
                    eprintln!("replayed the trace of {}", trace.simulation);
                    self.replay(&trace)
                }
                Ok(_) => self.explore(),
                Err(error) => panic!("the trace {} cannot be replayed: {error}", Path::new(&file).display()),
            },
            None => self.explore(),
        };
        if let Some(failure) = &outcome.failure {
            panic!("{}", failure.report);
        }
        outcome
    }

    /// Explores; returns the outcome instead of panicking.
    pub fn explore(self) -> Outcome {
        let began = Clock::system().now();
        let (name, budget) = (self.name(), self.budget_in_force());
        let setup = self.set_up();
        let mut explorer = Explorer::new(&setup, budget);
        let found = explorer.explore();
        let schedules = explorer.schedules;
        let seconds = Clock::system().now().duration_since(began).as_secs_f64();
        let failure = found.map(|found| describe(&explorer, &name, found, seconds));
        Outcome {
            failure,
            schedules,
            seconds: Clock::system().now().duration_since(began).as_secs_f64(),
            states: explorer.seen.len(),
            hash: explorer.hash,
            role: as_role(&name, &explorer.rights),
        }
    }

    /// Runs the schedule of a trace; the outcome has a failure if it still fails.
    ///
    /// # Panics
    /// Panics if the operator no longer reaches the point of a fault.
    pub fn replay(self, trace: &Trace) -> Outcome {
        let began = Clock::system().now();
        let name = self.name();
        let setup = self.seed(trace.seed).set_up().without_all(&trace.skipped);
        let explorer = Explorer::new(&setup, Budget { schedules: 1, seconds: u64::MAX });
        let record = explorer.record_of(&trace.deviations, true);
        let deviations = trace.deviations.iter().enumerate();
        let missed: Vec<String> = deviations
            .filter(|(at, _)| !record.taken.contains(at))
            .map(|(_, deviation)| format!("{:?} ({})", deviation.at, deviation.fault.shown()))
            .collect();
        // `homeostat sim replay` recognizes this panic by its first words, which must be on one line.
        assert!(
            missed.is_empty(),
            "the trace no longer fits: these faults are not reached: {}",
            missed.join(", ")
        );
        let alarms = explorer.alarms_in(&trace.deviations, &record);
        let failure = alarms.into_iter().next().map(|alarm| {
            let trace =
                Trace { oracle: alarm.oracle.clone(), subject: alarm.subject.clone(), ..trace.clone() };
            let mut report = report::tell(&name, &trace, &alarm, &record, "replayed");
            report.push_str(&report::explain(&alarm, &record));
            Failure { oracle: alarm.oracle, text: alarm.text, trace, file: None, report }
        });
        let seconds = Clock::system().now().duration_since(began).as_secs_f64();
        let role = as_role(&name, &explorer.rights);
        Outcome { failure, schedules: 3, seconds, states: explorer.seen.len(), hash: record.hash, role }
    }

    /// Returns a hash of everything that happens in the schedule with these deviations: the same for the same seed, in
    /// every process.
    pub fn hash_of(self, deviations: &[Deviation]) -> u64 {
        let setup = self.set_up();
        let explorer = Explorer::new(&setup, Budget { schedules: 1, seconds: u64::MAX });
        explorer.record_of(deviations, true).hash
    }

    fn name(&self) -> String {
        self.name.clone().or_else(test_name).unwrap_or_else(|| "simulation".to_owned())
    }

    fn budget_in_force(&self) -> Budget {
        let schedules = number_of_environment(SCHEDULES).unwrap_or(self.budget.schedules);
        Budget { schedules, ..self.budget }
    }

    /// Boots a server and lets the operator install its definitions. Every schedule starts from that state.
    fn set_up(self) -> Setup {
        let seed = number_of_environment(SEED).unwrap_or(self.seed);
        let template = Arc::new(boot(seed));
        let setup = Setup {
            make: self.make,
            outside: self.outside,
            givens: self.givens,
            steps: self.steps,
            always: self.always,
            eventually: self.eventually,
            replicas: self.replicas,
            beside: self.beside,
            seed,
            with_givens: Arc::clone(&template),
            template,
        };
        setup.warmed_up().with_givens_made()
    }
}

fn number_of_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Shrinks a failure, writes its report, and saves its trace.
fn describe(explorer: &Explorer<'_>, name: &str, found: Found, seconds: f64) -> Failure {
    let before = found.deviations.len();
    let deviations = shrink(explorer, found.deviations, &found.alarm);
    let shorter = drop_steps(explorer.setup, deviations, &found.alarm);
    let (setup, schedules) = (&shorter.setup, explorer.schedules);
    let again;
    let (explorer, deviations) = if shorter.skipped.is_empty() {
        (explorer, shorter.deviations)
    } else {
        // Fewer steps may need fewer faults.
        again = if shorter.deviations.is_empty() {
            Explorer::new(setup, Budget { schedules: 1, seconds: u64::MAX })
        } else {
            Explorer::for_one_schedule(setup)
        };
        (&again, shrink(&again, shorter.deviations, &found.alarm))
    };
    let record = explorer.record_of(&deviations, true);
    let alarms = explorer.alarms_in(&deviations, &record);
    let alarm = alarms.into_iter().find(|alarm| alarm.is_like(&found.alarm)).unwrap_or(found.alarm);
    let given = setup.givens.iter().map(|step| format!("given: {}", step.shown()));
    let steps = given.chain(setup.steps.iter().map(Step::shown)).collect();
    let mut trace = Trace {
        oracle: alarm.oracle.clone(),
        subject: alarm.subject.clone(),
        skipped: shorter.skipped,
        ..Trace::new(name, setup.seed, steps, deviations)
    };
    let how = format!(
        "found after {schedules} schedules and {seconds:.2}s; {} fault(s) are enough, of {before}",
        trace.deviations.len(),
    );
    let mut story = report::tell(name, &trace, &alarm, &record, &how);
    story.push_str(&report::explain(&alarm, &record));
    trace.report.clone_from(&story);
    trace.run = report::recorded_run(&record);
    let file = trace.save().ok();
    if let Some(file) = &file {
        // Writing to a String cannot fail.
        let _ = writeln!(story, "\nReplay: {}", report::replay_command(&trace, file));
    }
    Failure { oracle: alarm.oracle, text: alarm.text, trace, file, report: story }
}
