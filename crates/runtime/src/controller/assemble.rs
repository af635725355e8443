//! Represents a complete controller without the type of its objects: its declarations, and how it is connected to the
//! caches, the queue and the workers when the operator runs. This code is compiled once for all kinds.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use homeostat_core::Key;
use homeostat_core::journal::{Cause, Source};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cleanup_finalizer::Cleanup;
use super::reconcile_once::{Engine, ReconcileFunction};
use super::wait_for_current_caches::AllCachesCatchUp;
use super::wait_for_current_object::ObjectCatchUp;
use super::world_health::WorldHealthSource;
use crate::cache::caches::Caches;
use crate::cache::{Freshness, ObjectCache};
use crate::election::{LeaseMember, Relist};
use crate::kind::definition::Definition;
use crate::kind::{KindInfo, ObjectName};
use crate::panics::message_of;
use crate::queue::{Config, Urgency};
use crate::relations::predicate::ChangeTest;
use crate::relations::{Options, Relation, RelationContext, main_object};
use crate::rights::required_rules::{MainWrites, Rule};
use crate::shared::user_values::StateType;
use crate::shared::{ControllerShared, LastApplied, OperatorShared};
use crate::watch::Scope;
use crate::workers::WorkerPool;
use crate::workers::controller_queue::ControllerQueue;

/// The default number of concurrent reconciles: enough to hide the latency of an API server, few enough not to flood
/// it.
const CONCURRENCY: usize = 32;

/// The period after which every object is reconciled without a cause. This should not be necessary: it only repairs the
/// consequences of a lost event or a bug.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// The description of a controller, without the type of its objects.
pub(crate) struct ControllerDescription {
    pub(crate) info: &'static KindInfo,
    pub(crate) name: String,
    pub(crate) labels: Option<String>,
    pub(crate) predicate: Option<ChangeTest>,
    pub(crate) relations: Vec<Relation>,
    /// How related kinds are followed.
    pub(crate) options: Options,
    pub(crate) streams: Vec<TriggerStream>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) writes: MainWrites,
    /// The types of state that its code requests.
    pub(crate) needed_states: Vec<StateType>,
    pub(crate) config: Config,
    pub(crate) concurrency: usize,
    pub(crate) cleanup: Option<Cleanup>,
    pub(crate) companions: Vec<Companion>,
    pub(crate) is_called_to_the_end: bool,
    pub(crate) dependent_condition: Option<&'static str>,
    /// Whether it acts only once its caches show the state that the server had when this process became leader.
    pub(crate) starts_fresh: bool,
    /// Whether its objects are not reconciled, and only companions are notified of their changes.
    pub(crate) only_listens: bool,
}

/// A task that runs alongside the workers and may finish later than they do after a stop.
pub(crate) type Companion =
    Box<dyn FnOnce(Arc<ControllerShared>, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// A stream of triggers from outside the cluster.
pub(crate) struct TriggerStream {
    pub(crate) name: Cow<'static, str>,
    pub(crate) targets: BoxStream<'static, ObjectName>,
}

impl ControllerDescription {
    pub(crate) fn new(info: &'static KindInfo) -> Self {
        Self {
            info,
            name: info.kind.to_lowercase(),
            labels: None,
            predicate: None,
            relations: Vec::new(),
            options: Options::default(),
            streams: Vec::new(),
            rules: Vec::new(),
            needed_states: Vec::new(),
            writes: MainWrites { status: info.is_custom, ..MainWrites::default() },
            config: Config { resync: Some(RESYNC), ..Config::default() },
            concurrency: CONCURRENCY,
            cleanup: None,
            companions: Vec::new(),
            is_called_to_the_end: false,
            dependent_condition: None,
            starts_fresh: false,
            only_listens: false,
        }
    }

    /// Declares that the object carries our finalizer or annotations.
    pub(crate) fn write_metadata(&mut self) {
        self.writes.metadata = true;
    }

    pub(crate) fn allow(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(crate) fn relate(&mut self, relation: Relation) {
        self.relations.push(relation);
    }

    /// Adds a task that runs alongside the workers.
    pub(crate) fn accompany(&mut self, companion: Companion) {
        self.companions.push(companion);
    }

    /// Sets the cleanup that runs before the object is removed.
    pub(crate) fn clean_up(&mut self, cleanup: Cleanup) {
        self.cleanup = Some(cleanup);
        self.write_metadata();
    }

    /// Declares that its objects need not be kept or reconciled, unless finalizers are added or removed.
    pub(crate) fn only_listen(&mut self) {
        self.only_listens = self.cleanup.is_none() && !self.writes.metadata;
    }

    /// Completes the controller with its reconcile function.
    pub(crate) fn complete(self, reconcile: ReconcileFunction) -> BuiltController {
        let rules = [Rule::for_main_kind(self.info, self.writes), self.rules.clone()].concat();
        BuiltController(Box::new(DescribedController { controller: self, rules, reconcile }))
    }
}

/// A complete controller, ready for [`Operator::control`](crate::Operator::control).
#[must_use = "a controller does nothing until it is given to an operator"]
pub struct BuiltController(pub(crate) Box<dyn CompleteController>);

/// A complete controller without its type.
pub(crate) trait CompleteController: Send {
    /// Returns the controller's name.
    fn name(&self) -> &str;
    /// Refuses a controller with contradictory declarations, and says how to correct them.
    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
    fn rules(&self) -> &[Rule];
    /// Returns the types of state that its code requests.
    fn needed_states(&self) -> &[StateType] {
        &[]
    }
    /// Returns the definitions of custom kinds that it installs.
    fn definitions(&self) -> &[Arc<Definition>] {
        &[]
    }
    fn assemble(self: Box<Self>, shared: &Arc<OperatorShared>, grace: Duration) -> AssembledController;
}

/// A controller connected to the caches and ready to be started.
pub(crate) struct AssembledController {
    pub(crate) name: Source,
    pub(crate) queue: ControllerQueue,
    pub(crate) pump: WorkerPool,
    /// The main kind's comes first, then those of the others.
    pub(crate) freshness: Vec<watch::Receiver<Freshness>>,
    pub(crate) streams: Vec<BoxFuture<'static, ()>>,
    pub(crate) companions: Vec<Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>>,
    /// Queues the objects of the main kind that are in these shards.
    pub(crate) relist: Relist,
    /// Its worlds.
    pub(crate) worlds: Vec<Arc<dyn WorldHealthSource>>,
}

impl AssembledController {
    /// Returns the controller as the election sees it.
    pub(crate) fn lease_member(&self) -> LeaseMember {
        LeaseMember { queue: self.queue.clone(), relist: self.relist.clone() }
    }
}

struct DescribedController {
    controller: ControllerDescription,
    rules: Vec<Rule>,
    reconcile: ReconcileFunction,
}

impl CompleteController for DescribedController {
    fn name(&self) -> &str {
        &self.controller.name
    }

    fn verify(&self) -> Result<(), String> {
        self.controller.options.verify(self.controller.info, &self.controller.relations)
    }

    fn needed_states(&self) -> &[StateType] {
        &self.controller.needed_states
    }

    fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn assemble(self: Box<Self>, shared: &Arc<OperatorShared>, grace: Duration) -> AssembledController {
        let Self { controller, reconcile, .. } = *self;
        let (info, source) = (controller.info, Source::from(controller.name.as_str()));
        let scope = Scope { labels: controller.labels, ..shared.scope.clone() };
        let cache = declare_cache(&shared.caches, info, &scope, controller.only_listens);
        let (journal, fence) = (shared.journal.clone(), shared.fence.clone());
        let queue =
            ControllerQueue::new(controller.config, &shared.entropy, journal, source.clone(), fence.clone());
        if !controller.only_listens {
            main_object::follow_main_kind(&cache, &queue, controller.predicate);
        }
        let mut freshness = vec![cache.watch_freshness()];
        let last_applied = Arc::<LastApplied>::default();
        let wire = RelationContext {
            caches: &shared.caches,
            scope: &shared.scope,
            main: &cache,
            queue: &queue,
            last_applied: &last_applied,
        };
        let options = controller.options;
        let related = related_types(&controller.relations);
        freshness.extend(controller.relations.into_iter().map(|Relation { other, connect }| {
            connect(&wire, options.followed(other.map_or(info, |other| other.info)))
        }));
        let home = shared.home_namespace();
        let queue_stream = |outside| queue_targets(info, outside, queue.clone(), home.clone());
        let streams = controller.streams.into_iter().map(queue_stream).collect();
        let controller_shared = Arc::new(ControllerShared {
            finalizer: format!("{}/{}", shared.name, controller.name),
            source: source.clone(),
            operator: shared.clone(),
            scope,
            cache: cache.clone(),
            dependent_condition: controller.dependent_condition,
            last_applied: last_applied.clone(),
        });
        forget_gone(&cache, last_applied);
        let fresh_start = controller.starts_fresh.then(|| fresh_start_of(&controller_shared, related));
        let relist: Relist = if controller.only_listens {
            Arc::new(|_| {})
        } else {
            relist_function(&controller_shared, &queue)
        };
        let accompanied = |companion: Companion| -> Box<dyn FnOnce(_) -> _ + Send> {
            let shared = controller_shared.clone();
            Box::new(move |stop| companion(shared, stop))
        };
        let companions = controller.companions.into_iter().map(accompanied).collect();
        let runner = Arc::new(Engine {
            takeover: ObjectCatchUp::new(&cache, &fence),
            fresh_start,
            controller: controller_shared,
            reconcile,
            cleanup: controller.cleanup,
            is_called_to_the_end: controller.is_called_to_the_end,
        });
        let pump = WorkerPool {
            queue: queue.clone(),
            runner,
            fence,
            freshness: cache.watch_freshness(),
            concurrency: controller.concurrency,
            grace,
        };
        let name = source;
        AssembledController { name, queue, pump, freshness, streams, companions, relist, worlds: vec![] }
    }
}

/// Returns the types of the other kinds; for some, only the metadata is followed.
fn related_types(relations: &[Relation]) -> BTreeSet<TypeId> {
    let infos = relations.iter().filter_map(|relation| Some(relation.other.as_ref()?.info));
    infos.flat_map(|info| [info.type_id, info.metadata_type_id]).collect()
}

fn fresh_start_of(controller: &ControllerShared, related: BTreeSet<TypeId>) -> AllCachesCatchUp {
    let (caches, scope) = (&controller.operator.caches, &controller.operator.scope);
    let others = related.into_iter().filter_map(|other| caches.find(other, scope));
    let others = others.map(|cache| (scope.clone(), cache));
    let main = (controller.scope.clone(), controller.cache.clone());
    AllCachesCatchUp::new([main].into_iter().chain(others).collect())
}

/// Declares the cache of the main kind; a controller that only listens to events keeps no objects.
fn declare_cache(caches: &Caches, info: &'static KindInfo, scope: &Scope, only_listens: bool) -> ObjectCache {
    if only_listens { caches.declare_events(info, scope) } else { caches.declare(info, scope) }
}

fn forget_gone(cache: &ObjectCache, last_applied: Arc<LastApplied>) {
    cache.subscribe(move |delta| {
        if delta.new.is_none() {
            last_applied.forget(&delta.key);
        }
    });
}

fn relist_function(controller: &ControllerShared, queue: &ControllerQueue) -> Relist {
    let (cache, queue, fence) = (controller.cache.clone(), queue.clone(), controller.operator.fence.clone());
    Arc::new(move |shards| {
        let is_in_them = |key: &Key| fence.shard_of(key).is_some_and(|shard| shards.contains(&shard));
        // The keys are sorted, so that test runs do not differ.
        let keys: BTreeSet<Key> =
            cache.entries().into_iter().map(|(key, _)| key).filter(is_in_them).collect();
        for key in keys {
            queue.add(&key, Cause::Listed, Urgency::Background);
        }
    })
}

/// Queues the objects that the stream names; a name without a namespace is in `home`.
fn queue_targets(
    info: &'static KindInfo,
    mut outside: TriggerStream,
    queue: ControllerQueue,
    home: String,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let source = &outside.name;
        loop {
            // A stream that panicked cannot be polled again; other streams and the watches continue.
            let next = AssertUnwindSafe(outside.targets.next()).catch_unwind().await;
            let target = match next.map_err(|panic| message_of(&*panic)) {
                Ok(Some(target)) => target,
                Ok(None) => return,
                Err(message) => {
                    tracing::error!(%source, message, "a stream of triggers panicked; it triggers nothing more");
                    return;
                }
            };
            let cause = Cause::Outside { source: outside.name.clone() };
            queue.add(&info.target_key(&target, &home), cause, Urgency::Event);
        }
    })
}
