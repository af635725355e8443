//! Builds worlds: turns a world and its configuration into an ordinary controller of its kind. The queue, the cache,
//! finalizers, status, journal and metrics are the same as for every controller, and two tasks are added: full passes
//! and the listener for pushed changes.

use std::sync::Arc;
use std::time::Duration;

use kube::Resource;

use super::drift_and_leak_scan::DriftAndLeakScan;
use super::outside_record::OutsideRecord;
use super::planned_world::PlannedWorld;
use super::pushed_changes::listen;
use super::reconcile_object::WorldRun;
use super::resource_outcomes::SYNCED;
use super::world_parts::WorldParts;
use super::world_policy::{ApiSharing, Drift, LeakDeletionLimits, Limits, Ownership, WorldPolicy};
use super::world_trait::World;
use crate::controller::Controller;
use crate::controller::assemble::{AssembledController, BuiltController, CompleteController};
use crate::kind::definition::{Definition, definition_of};
use crate::kind::info;
use crate::rights::required_rules::{KEEP, MainWrites, Rule};
use crate::shared::OperatorShared;

/// A world outside Kubernetes, with its configuration. [`control`](Self::control) completes it.
///
/// By default, ownership is by tag, the API is shared, drift is corrected, nothing is adopted, a full pass runs every
/// minute, and created resources may take half a minute to become visible.
#[must_use = "a world is left alone until it is completed with control and given to an operator"]
pub struct Outside<W: World> {
    world: W,
    name: String,
    policy: WorldPolicy<W::Have>,
}

impl<W: World> Outside<W> {
    /// Creates a configuration of this world with the defaults above.
    pub fn new(world: W) -> Self {
        Self { world, name: W::Kind::kind(&()).to_lowercase(), policy: WorldPolicy::default() }
    }

    /// Gives it a name other than the kind's, for a second world of the same kind. The name is part of the finalizer,
    /// of the inventory annotation and of metrics.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets how we know which resources are ours.
    pub fn ownership(mut self, ownership: Ownership) -> Self {
        self.policy.ownership = ownership;
        self
    }

    /// Sets who else uses the API.
    pub fn used(mut self, r#use: ApiSharing) -> Self {
        self.policy.r#use = r#use;
        self
    }

    /// Sets what to do about changes by others.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.policy.drift = drift;
        self
    }

    /// Sets which resources without an owner become ours when an object desires their name; the function gets the name
    /// and the resource. By default, none do if the API is shared, and all do if it is used exclusively.
    pub fn adopt(mut self, rule: impl Fn(&str, &W::Have) -> bool + Send + Sync + 'static) -> Self {
        self.policy.adoption = Some(Arc::new(rule));
        self
    }

    /// Sets when leaks are deleted.
    pub fn sweep(mut self, sweep: LeakDeletionLimits) -> Self {
        self.policy.sweep = sweep;
        self
    }

    /// Limits how often the API is called.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.policy.limits = limits;
        self
    }

    /// Sets the time between full passes (a minute by default).
    pub fn poll(mut self, period: Duration) -> Self {
        self.policy.poll = period;
        self
    }

    /// Sets how long the API may take to show a created resource (30 s by default); until then it is not created again.
    pub fn visible_within(mut self, time: Duration) -> Self {
        self.policy.visible_within = time;
        self
    }

    /// Sets our identity in marks and records (the operator's name by default). Operators in several clusters that use
    /// the same API must have different identities.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.policy.identity = Some(identity.into().replace('/', "."));
        self
    }

    /// Completes the controller.
    pub fn control(self) -> BuiltController {
        let writes = MainWrites { metadata: true, status: true, owns: false };
        let mut rules = Rule::for_main_kind(info::<W::Kind>(), writes);
        let mut definitions = Vec::new();
        if self.policy.ownership == Ownership::Records {
            rules.push(Rule::on::<OutsideRecord>("", KEEP));
            definitions.push(definition_of::<OutsideRecord>());
        }
        BuiltController(Box::new(CompleteWorld { outside: self, rules, definitions }))
    }
}

struct CompleteWorld<W: World> {
    outside: Outside<W>,
    rules: Vec<Rule>,
    definitions: Vec<Arc<Definition>>,
}

impl<W: World> CompleteController for CompleteWorld<W> {
    fn name(&self) -> &str {
        &self.outside.name
    }

    fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn definitions(&self) -> &[Arc<Definition>] {
        &self.definitions
    }

    fn assemble(self: Box<Self>, shared: &Arc<OperatorShared>, grace: Duration) -> AssembledController {
        let Outside { world, name, policy } = self.outside;
        match &shared.planned_calls {
            None => assemble_world(Outside { world, name, policy }, shared, grace),
            Some(calls) => {
                let world = PlannedWorld::new(world, calls.clone());
                assemble_world(Outside { world, name, policy: policy.planned() }, shared, grace)
            }
        }
    }
}

fn assemble_world<W: World>(
    Outside { world, name, policy }: Outside<W>,
    shared: &Arc<OperatorShared>,
    grace: Duration,
) -> AssembledController {
    let parts = Arc::new(WorldParts::new(world, policy, &name, shared));
    let (reconciler, cleaner) = (parts.clone(), parts.clone());
    let control = Controller::<W::Kind>::new()
        .named(name)
        .with_dependent_condition(SYNCED)
        .cleanup(move |object, cx| WorldRun::new(cleaner.clone(), object, cx).cleanup())
        .reconcile(move |object, cx| WorldRun::new(reconciler.clone(), object, cx).reconcile());
    let mut assembled = control.0.assemble(shared, grace);
    let (passes, freshness) = DriftAndLeakScan::new(parts.clone(), assembled.queue.clone());
    assembled.freshness.push(freshness);
    assembled.worlds.push(parts.clone());
    if let Some(records) = &parts.records {
        assembled.freshness.push(records.cache.watch_freshness());
    }
    assembled.streams.push(Box::pin(listen(parts.clone(), assembled.queue.clone())));
    assembled.streams.push(Box::pin(passes.run()));
    forget_gone(&parts);
    assembled
}

/// Forgets objects that vanish without a cleanup, because someone removed the finalizer.
fn forget_gone<W: World>(parts: &Arc<WorldParts<W>>) {
    let books = Arc::downgrade(parts);
    parts.cache.erased().subscribe(move |delta| {
        if delta.new.is_none()
            && let Some(parts) = books.upgrade()
        {
            parts.memory.forget(&delta.key);
        }
    });
}
