//! A complete controller without the type of its objects: what was declared, and how it is connected to the caches, the queue
//! and the workers when the operator runs. Compiled once, whatever the kinds.

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
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cache::{Freshness, ObjectCache};
use crate::context::Memo;
use crate::controller_queue::ControllerQueue;
use crate::election::{LeaseMember, Relist};
use crate::engine::{Cleanup, ControllerRunner, Engine, ReconcileFunction};
use crate::kind::{KindInfo, Target};
use crate::panics::message_of;
use crate::predicate::ChangeTest;
use crate::queue::{Config, Urgency};
use crate::relations::{Options, Relation, RelationContext, main};
use crate::rule::{MainWrites, Rule};
use crate::shared::OperatorShared;
use crate::states::StateType;
use crate::takeover::Takeover;
use crate::watch::Scope;
use crate::worker::WorkerPool;
use crate::world::WorldHealthSource;

/// Reconciles at a time: enough to hide the latency of an API server, few enough not to flood it.
const CONCURRENCY: usize = 32;

/// The periodic pass nobody should need: it repairs what a lost event or a bug left behind.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// What a controller is to do, without the type of its objects.
pub(crate) struct ControllerDescription {
    pub(crate) info: &'static KindInfo,
    pub(crate) name: String,
    pub(crate) labels: Option<String>,
    pub(crate) predicate: Option<ChangeTest>,
    pub(crate) relations: Vec<Relation>,
    /// How the kinds of its relations are followed.
    pub(crate) options: Options,
    pub(crate) streams: Vec<TriggerStream>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) writes: MainWrites,
    /// The types of state that its code asks for.
    pub(crate) needed_states: Vec<StateType>,
    pub(crate) config: Config,
    pub(crate) concurrency: usize,
    pub(crate) cleanup: Option<Cleanup>,
    pub(crate) companions: Vec<Companion>,
    pub(crate) is_called_to_the_end: bool,
    pub(crate) dependent_condition: Option<&'static str>,
    /// Its objects are not reconciled: companions hear of their changes, and that is all.
    pub(crate) only_listens: bool,
}

/// A task that lives beside the workers and ends in its own time after the stop.
pub(crate) type Companion = Box<dyn FnOnce(Arc<Engine>, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// A stream of triggers from outside the cluster.
pub(crate) struct TriggerStream {
    pub(crate) name: Cow<'static, str>,
    pub(crate) targets: BoxStream<'static, Target>,
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
            only_listens: false,
        }
    }

    /// The object carries a finalizer or annotations of ours.
    pub(crate) fn write_metadata(&mut self) {
        self.writes.metadata = true;
    }

    pub(crate) fn allow(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(crate) fn relate(&mut self, relation: Relation) {
        self.relations.push(relation);
    }

    /// A task beside the workers.
    pub(crate) fn accompany(&mut self, companion: Companion) {
        self.companions.push(companion);
    }

    /// What to do before the object may go.
    pub(crate) fn clean_up(&mut self, cleanup: Cleanup) {
        self.cleanup = Some(cleanup);
        self.write_metadata();
    }

    /// Its objects need not be kept or reconciled, unless finalizers are put on or taken off.
    pub(crate) fn only_listen(&mut self) {
        self.only_listens = self.cleanup.is_none() && !self.writes.metadata;
    }

    /// Completes the controller with its reconcile function.
    pub(crate) fn complete(self, reconcile: ReconcileFunction) -> Control {
        let rules = [Rule::main(self.info, self.writes), self.rules.clone()].concat();
        Control(Box::new(DescribedController { controller: self, rules, reconcile }))
    }
}

/// A complete controller, ready for [`Operator::control`](crate::Operator::control).
#[must_use = "a controller does nothing until it is given to an operator"]
pub struct Control(pub(crate) Box<dyn CompleteController>);

/// A complete controller without its type.
pub(crate) trait CompleteController: Send {
    /// The controller's name.
    fn name(&self) -> &str;
    /// Refuses a controller that was put together wrongly, and says what to do.
    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
    fn rules(&self) -> &[Rule];
    /// The types of state that its code asks for.
    fn needed_states(&self) -> &[StateType] {
        &[]
    }
    /// Custom kinds it brings along.
    fn definitions(&self) -> &[Value] {
        &[]
    }
    fn assemble(self: Box<Self>, shared: &Arc<OperatorShared>, grace: Duration) -> Assembled;
}

/// A controller connected to the caches and ready to be started.
pub(crate) struct Assembled {
    pub(crate) name: Source,
    pub(crate) queue: ControllerQueue,
    pub(crate) pump: WorkerPool,
    /// The main kind first, then the others.
    pub(crate) freshness: Vec<watch::Receiver<Freshness>>,
    pub(crate) streams: Vec<BoxFuture<'static, ()>>,
    pub(crate) companions: Vec<Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>>,
    /// Queues the objects of the main kind that are in these shards.
    pub(crate) relist: Relist,
    /// The worlds it keeps.
    pub(crate) worlds: Vec<Arc<dyn WorldHealthSource>>,
}

impl Assembled {
    /// The controller as the election sees it.
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

    fn assemble(self: Box<Self>, shared: &Arc<OperatorShared>, grace: Duration) -> Assembled {
        let Self { controller, reconcile, .. } = *self;
        let (info, source) = (controller.info, Source::from(controller.name.as_str()));
        let scope = Scope { labels: controller.labels, ..shared.scope.clone() };
        let cache = if controller.only_listens {
            shared.caches.declare_events(info, &scope)
        } else {
            shared.caches.declare(info, &scope)
        };
        let (journal, fence) = (shared.journal.clone(), shared.fence.clone());
        let queue =
            ControllerQueue::new(controller.config, &shared.entropy, journal, source.clone(), fence.clone());
        if !controller.only_listens {
            main::follow_main_kind(&cache, &queue, controller.predicate);
        }
        let mut freshness = vec![cache.watch_freshness()];
        let memo = Arc::<Memo>::default();
        let wire = RelationContext {
            caches: &shared.caches,
            scope: &shared.scope,
            main: &cache,
            queue: &queue,
            memo: &memo,
        };
        let options = controller.options;
        freshness.extend(controller.relations.into_iter().map(|Relation { other, connect }| {
            connect(&wire, options.followed(other.map_or(info, |other| other.info)))
        }));
        let home = shared.home_namespace();
        let listen = |outside| listen(info, outside, queue.clone(), home.clone());
        let streams = controller.streams.into_iter().map(listen).collect();
        let engine = Arc::new(Engine {
            finalizer: format!("{}/{}", shared.name, controller.name),
            source: source.clone(),
            shared: shared.clone(),
            scope,
            cache: cache.clone(),
            reconcile,
            cleanup: controller.cleanup,
            is_called_to_the_end: controller.is_called_to_the_end,
            dependent_condition: controller.dependent_condition,
            memo: memo.clone(),
            takeover: Takeover::new(&cache, &fence),
        });
        forget_gone(&cache, memo);
        let relist: Relist = if controller.only_listens { Arc::new(|_| {}) } else { relist(&engine, &queue) };
        let accompanied = |companion: Companion| -> Box<dyn FnOnce(_) -> _ + Send> {
            let engine = engine.clone();
            Box::new(move |stop| companion(engine, stop))
        };
        let companions = controller.companions.into_iter().map(accompanied).collect();
        let runner = Arc::new(ControllerRunner(engine));
        let pump = WorkerPool {
            queue: queue.clone(),
            runner,
            fence,
            freshness: cache.watch_freshness(),
            concurrency: controller.concurrency,
            grace,
        };
        Assembled { name: source, queue, pump, freshness, streams, companions, relist, worlds: vec![] }
    }
}

fn forget_gone(cache: &ObjectCache, memo: Arc<Memo>) {
    cache.subscribe(move |delta| {
        if delta.new.is_none() {
            memo.forget(&delta.key);
        }
    });
}

fn relist(engine: &Arc<Engine>, queue: &ControllerQueue) -> Relist {
    let (cache, queue, fence) = (engine.cache.clone(), queue.clone(), engine.shared.fence.clone());
    Arc::new(move |shards| {
        let is_in_them = |key: &Key| fence.shard_of(key).is_some_and(|shard| shards.contains(&shard));
        // In order, so that runs of a test do not differ.
        let keys: BTreeSet<Key> =
            cache.entries().into_iter().map(|(key, _)| key).filter(is_in_them).collect();
        for key in keys {
            queue.add(&key, Cause::Listed, Urgency::Background);
        }
    })
}

/// Queues what the stream names; a name without a namespace is one of `home`.
fn listen(
    info: &'static KindInfo,
    mut outside: TriggerStream,
    queue: ControllerQueue,
    home: String,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let source = &outside.name;
        loop {
            // A stream that panicked cannot be asked again; the others and the watches go on.
            let next = AssertUnwindSafe(outside.targets.next()).catch_unwind().await;
            let target = match next.map_err(|panic| message_of(&*panic)) {
                Ok(Some(target)) => target,
                Ok(None) => return,
                Err(message) => {
                    tracing::error!(%source, message, "a stream of triggers panicked; nothing more comes from it");
                    return;
                }
            };
            let cause = Cause::Outside { source: outside.name.clone() };
            queue.add(&info.target_key(&target, &home), cause, Urgency::Event);
        }
    })
}
