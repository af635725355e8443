//! Exports metrics under the names that operators' dashboards already use (`controller_runtime_*`, `workqueue_*`), plus
//! our own.
//!
//! They are a fold over the journal: nothing else in the runtime keeps counters. Values that the journal does not
//! contain (waiting keys, cached objects) are read when metrics are requested.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use homeostat_core::journal::{
    Entry, FaultClass, HandlerOutcome, Record, RequestedNext, Source, WatchState, WriteOutcome,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::controller::world_health::WorldHealth;
use crate::kind::resource_name;

type Labels = Vec<(&'static str, String)>;

/// A metric with the label `controller`, or `name` for the queue family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    name: String,
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: String,
    result: &'static str,
}

/// One controller's counters, found once per record.
struct ControllerMetrics {
    success: Counter,
    requeue_after: Counter,
    requeue: Counter,
    error: Counter,
    errors: Counter,
    terminal: Counter,
    panics: Counter,
    retries: Counter,
    time: Histogram,
    active: Gauge,
    adds: Counter,
    queue_time: Histogram,
    work_time: Histogram,
    drift: Counter,
}

/// All metrics of an operator.
pub(crate) struct Metrics {
    registry: Registry,
    handles: RwLock<HashMap<Source, Arc<ControllerMetrics>>>,
    families: MetricFamilies,
}

#[derive(Default)]
struct MetricFamilies {
    total: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabel, Counter>,
    terminal: Family<ControllerLabel, Counter>,
    panics: Family<ControllerLabel, Counter>,
    time: Seconds<ControllerLabel>,
    active: Family<ControllerLabel, Gauge>,
    max: Family<ControllerLabel, Gauge>,
    depth: Family<QueueLabel, Gauge>,
    adds: Family<QueueLabel, Counter>,
    retries: Family<QueueLabel, Counter>,
    queue_time: Seconds<QueueLabel>,
    work_time: Seconds<QueueLabel>,
    drift: Family<ControllerLabel, Counter>,
    writes: Family<Labels, Counter>,
    handlers: Family<Labels, Counter>,
    watch_failures: Family<Labels, Counter>,
    quarantines: Family<Labels, Counter>,
    fresh: Family<Labels, Gauge>,
    objects: Family<Labels, Gauge>,
    quarantined: Family<Labels, Gauge>,
    leader: Family<Labels, Gauge>,
    world_things: Family<Labels, Gauge>,
    world_leaks: Family<Labels, Gauge>,
    world_passes: Family<Labels, Counter>,
    world_blocked: Family<Labels, Gauge>,
    world_age: Family<Labels, Gauge>,
}

/// The values that are read when metrics are requested.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricsReading {
    pub(crate) queues: Vec<QueueReading>,
    pub(crate) caches: Vec<CacheReading>,
    pub(crate) worlds: Vec<WorldHealth>,
}

/// The current state of one controller's queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueReading {
    pub(crate) controller: String,
    pub(crate) ready: usize,
    pub(crate) concurrency_max: usize,
}

/// The current state of one cache.
#[derive(Clone, Debug)]
pub(crate) struct CacheReading {
    pub(crate) resource: String,
    pub(crate) objects: usize,
    pub(crate) quarantined: usize,
    pub(crate) is_fresh: bool,
}

/// Times in seconds, from 0.1 ms (a cache hit) to 100 s (a call that hangs), each about three times the previous one.
/// They are written out, so that they are printed as people would write them.
const BUCKETS: [f64; 13] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

struct Seconds<S>(Family<S, Histogram, fn() -> Histogram>);

impl<S: Clone + std::hash::Hash + Eq> Default for Seconds<S> {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

impl MetricFamilies {
    /// Registers every metric under its name, so that all exported metrics are listed in one place.
    // tidy-table: one row for each metric.
    fn register(&self, registry: &mut Registry) {
        registry.register("controller_runtime_reconcile", "Reconciles by result", self.total.clone());
        registry.register("controller_runtime_reconcile_errors", "Failed reconciles", self.errors.clone());
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Terminal failures",
            self.terminal.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Reconciles that panicked",
            self.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Time per reconcile",
            self.time.0.clone(),
        );
        registry.register("controller_runtime_active_workers", "Reconciles under way", self.active.clone());
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles",
            self.max.clone(),
        );
        registry.register("workqueue_depth", "Keys that are ready to run", self.depth.clone());
        registry.register("workqueue_adds", "Triggers", self.adds.clone());
        registry.register("workqueue_retries", "Retries after failures", self.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "Time a key waits from being due to being started",
            self.queue_time.0.clone(),
        );
        registry.register("workqueue_work_duration_seconds", "Time per key", self.work_time.0.clone());
        registry.register("homeostat_drift", "Changes by others that were found", self.drift.clone());
        registry.register("homeostat_writes", "Writes by verb and outcome", self.writes.clone());
        registry.register("homeostat_handlers", "Calls of handlers by outcome", self.handlers.clone());
        registry.register(
            "homeostat_watch_failures",
            "Times a watch was cut off",
            self.watch_failures.clone(),
        );
        registry.register(
            "homeostat_quarantines",
            "Times an object did not decode",
            self.quarantines.clone(),
        );
        registry.register(
            "homeostat_watch_fresh",
            "Whether the watch is up to date with the server",
            self.fresh.clone(),
        );
        registry.register("homeostat_cache_objects", "Objects in the cache", self.objects.clone());
        registry.register(
            "homeostat_quarantined_objects",
            "Objects that do not decode",
            self.quarantined.clone(),
        );
        registry.register("homeostat_leader", "Whether this replica holds the lease", self.leader.clone());
        registry.register(
            "homeostat_world_things",
            "External resources, by owner",
            self.world_things.clone(),
        );
        registry.register(
            "homeostat_world_leaks",
            "External resources of ours that no object desires",
            self.world_leaks.clone(),
        );
        registry.register(
            "homeostat_world_passes",
            "Full passes over a world, by whether leaks were swept",
            self.world_passes.clone(),
        );
        registry.register(
            "homeostat_world_breaker_open",
            "Whether the circuit breaker is open, so that only probes are sent",
            self.world_blocked.clone(),
        );
        registry.register(
            "homeostat_world_pass_age_seconds",
            "Time since the last full pass",
            self.world_age.clone(),
        );
    }

    fn note_survey(&self, world: &str, [things, owned, leaks]: [u64; 3], is_withheld: bool) {
        let with = |name, value: &str| vec![("world", world.to_owned()), (name, value.to_owned())];
        let set = |gauge: &Family<Labels, Gauge>, labels, value: u64| {
            gauge.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.world_things, with("owner", "us"), owned);
        set(&self.world_things, with("owner", "others"), things.saturating_sub(owned));
        set(&self.world_leaks, vec![("world", world.to_owned())], leaks);
        let sweep = if is_withheld { "withheld" } else { "done" };
        self.world_passes.get_or_create(&with("sweep", sweep)).inc();
    }

    fn handles(&self, source: &Source) -> ControllerMetrics {
        let controller = || ControllerLabel { controller: source.to_string() };
        let queue = || QueueLabel { name: source.to_string(), controller: source.to_string() };
        let result =
            |result| self.total.get_or_create_owned(&ResultLabels { controller: source.to_string(), result });
        ControllerMetrics {
            success: result("success"),
            requeue_after: result("requeue_after"),
            requeue: result("requeue"),
            error: result("error"),
            errors: self.errors.get_or_create_owned(&controller()),
            terminal: self.terminal.get_or_create_owned(&controller()),
            panics: self.panics.get_or_create_owned(&controller()),
            retries: self.retries.get_or_create_owned(&queue()),
            time: self.time.0.get_or_create_owned(&controller()),
            active: self.active.get_or_create_owned(&controller()),
            adds: self.adds.get_or_create_owned(&queue()),
            queue_time: self.queue_time.0.get_or_create_owned(&queue()),
            work_time: self.work_time.0.get_or_create_owned(&queue()),
            drift: self.drift.get_or_create_owned(&controller()),
        }
    }
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let families = MetricFamilies::default();
        let mut registry = Registry::default();
        families.register(&mut registry);
        Arc::new(Self { registry, handles: RwLock::default(), families })
    }

    /// Counts one record.
    pub(crate) fn fold(&self, record: &Record) {
        match &record.entry {
            Entry::Queued { .. } => self.update_source(&record.source, |of| {
                of.adds.inc();
            }),
            Entry::Started { waited, .. } => self.update_source(&record.source, |of| {
                of.active.inc();
                of.queue_time.observe(waited.as_secs_f64());
            }),
            Entry::Settled { next, took, .. } => {
                self.update_source(&record.source, |of| of.settled(*next, *took));
            }
            Entry::Failed { fault, took, .. } => {
                self.update_source(&record.source, |of| of.failed(*fault, *took));
            }
            Entry::Cancelled { took, .. } => self.update_source(&record.source, |of| of.ended(*took)),
            Entry::Drifted { .. } => self.update_source(&record.source, |of| {
                of.drift.inc();
            }),
            Entry::Wrote { verb, outcome, .. } => {
                let labels = vec![
                    ("controller", record.source.to_string()),
                    ("verb", format!("{verb:?}").to_lowercase()),
                    ("outcome", outcome_name(outcome).to_owned()),
                ];
                self.families.writes.get_or_create(&labels).inc();
            }
            Entry::Handled { handler, outcome, .. } => {
                let labels = vec![
                    ("controller", record.source.to_string()),
                    ("handler", kind_of_handler(handler).to_owned()),
                    ("outcome", handled_name(outcome).to_owned()),
                ];
                self.families.handlers.get_or_create(&labels).inc();
            }
            Entry::Watched { resource, state: WatchState::Failing { .. } } => {
                self.families.watch_failures.get_or_create(&vec![("resource", resource.clone())]).inc();
            }
            Entry::Quarantined { object, .. } => {
                let resource = resource_name(object.group(), object.resource());
                self.families.quarantines.get_or_create(&vec![("resource", resource)]).inc();
            }
            Entry::Led { lease, is_leader } => {
                self.families.leader.get_or_create(&vec![("name", lease.clone())]).set(i64::from(*is_leader));
            }
            Entry::Surveyed { world, things, owned, leaks, withheld, .. } => {
                self.families.note_survey(world, [*things, *owned, *leaks], withheld.is_some());
            }
            Entry::ControllerStarted { .. }
            | Entry::Observed { .. }
            | Entry::Panicked { .. }
            | Entry::Read { .. }
            | Entry::Watched { .. }
            | Entry::SurveyFailed { .. } => {}
        }
    }

    /// Returns the text that Prometheus reads.
    pub(crate) fn text(&self, reading: &MetricsReading) -> String {
        for QueueReading { controller: name, ready, concurrency_max } in &reading.queues {
            let queue = QueueLabel { name: name.clone(), controller: name.clone() };
            self.families.depth.get_or_create(&queue).set(as_gauge(*ready));
            let controller = ControllerLabel { controller: name.clone() };
            self.families.max.get_or_create(&controller).set(as_gauge(*concurrency_max));
        }
        for cache in &reading.caches {
            let labels = vec![("resource", cache.resource.clone())];
            self.families.objects.get_or_create(&labels).set(as_gauge(cache.objects));
            self.families.quarantined.get_or_create(&labels).set(as_gauge(cache.quarantined));
            self.families.fresh.get_or_create(&labels).set(i64::from(cache.is_fresh));
        }
        for health in &reading.worlds {
            let labels = vec![("world", health.world.to_owned())];
            self.families.world_blocked.get_or_create(&labels).set(i64::from(health.is_blocked));
            let age = i64::try_from(health.age.as_secs()).unwrap_or(i64::MAX);
            self.families.world_age.get_or_create(&labels).set(age);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a string cannot fail");
        text
    }

    fn update_source(&self, source: &Source, update: impl FnOnce(&ControllerMetrics)) {
        if let Some(handles) = self.handles.read().unwrap_or_else(PoisonError::into_inner).get(source) {
            update(handles);
            return;
        }
        let mut all = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        update(all.entry(source.clone()).or_insert_with(|| Arc::new(self.families.handles(source))));
    }
}

impl ControllerMetrics {
    fn ended(&self, took: Duration) {
        self.active.dec();
        self.time.observe(took.as_secs_f64());
        self.work_time.observe(took.as_secs_f64());
    }

    fn settled(&self, next: RequestedNext, took: Duration) {
        self.ended(took);
        match next {
            RequestedNext::AwaitChange | RequestedNext::Gone => self.success.inc(),
            RequestedNext::Requeue { after: Duration::ZERO } => self.requeue.inc(),
            RequestedNext::Requeue { .. } => self.requeue_after.inc(),
        };
    }

    fn failed(&self, fault: FaultClass, took: Duration) {
        self.ended(took);
        self.error.inc();
        self.errors.inc();
        match fault {
            FaultClass::Retry { .. } => self.retries.inc(),
            FaultClass::Terminal => self.terminal.inc(),
            FaultClass::Panic { .. } => {
                self.retries.inc();
                self.panics.inc()
            }
        };
    }
}

/// Returns the handler that registered a sub-handler. Sub-handlers are named after data, which must not become labels.
fn kind_of_handler(id: &str) -> &str {
    id.split_once('/').map_or(id, |(parent, _)| parent)
}

fn handled_name(outcome: &HandlerOutcome) -> &'static str {
    match outcome {
        HandlerOutcome::Done => "done",
        HandlerOutcome::Retry { .. } => "retry",
        HandlerOutcome::GaveUp { .. } => "gave_up",
    }
}

fn outcome_name(outcome: &WriteOutcome) -> &'static str {
    match outcome {
        WriteOutcome::Skipped => "skipped",
        WriteOutcome::Done { .. } => "done",
        WriteOutcome::Fenced => "fenced",
        WriteOutcome::Failed { .. } => "failed",
    }
}

fn as_gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
