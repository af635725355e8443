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
use crate::controller_queue::Inbox;
use crate::election::{Constituent, Relist};
use crate::engine::{Bench, Cleanup, Engine, Handler};
use crate::kind::{KindInfo, Target};
use crate::panics::message_of;
use crate::predicate::ChangeTest;
use crate::queue::{Config, Urgency};
use crate::relations::{Options, Relation, Wire, main};
use crate::rule::{MainWrites, Rule};
use crate::shared::Ground;
use crate::states::StateType;
use crate::takeover::Takeover;
use crate::watch::Scope;
use crate::worker::Pump;
use crate::world::Vital;

/// Reconciles at a time: enough to hide the latency of an API server, few enough not to flood it.
const CONCURRENCY: usize = 32;

/// The periodic pass nobody should need: it repairs what a lost event or a bug left behind.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// What a controller is to do, without the type of its objects.
pub(crate) struct Description {
    pub(crate) info: &'static KindInfo,
    pub(crate) name: String,
    pub(crate) labels: Option<String>,
    pub(crate) predicate: Option<ChangeTest>,
    pub(crate) relations: Vec<Relation>,
    /// How the kinds of its relations are followed.
    pub(crate) options: Options,
    pub(crate) streams: Vec<Outside>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) writes: MainWrites,
    /// The types of state that its code asks for.
    pub(crate) needed_states: Vec<StateType>,
    pub(crate) config: Config,
    pub(crate) concurrency: usize,
    pub(crate) cleanup: Option<Cleanup>,
    pub(crate) companions: Vec<Companion>,
    pub(crate) is_called_to_the_end: bool,
    pub(crate) vouches: Option<&'static str>,
    /// Its objects are not reconciled: companions hear of their changes, and that is all.
    pub(crate) only_listens: bool,
}

/// A task that lives beside the workers and ends in its own time after the stop.
pub(crate) type Companion = Box<dyn FnOnce(Arc<Engine>, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// A stream of triggers from outside the cluster.
pub(crate) struct Outside {
    pub(crate) name: Cow<'static, str>,
    pub(crate) targets: BoxStream<'static, Target>,
}

impl Description {
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
            vouches: None,
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
    pub(crate) fn complete(self, reconcile: Handler) -> Control {
        let rules = [Rule::main(self.info, self.writes), self.rules.clone()].concat();
        Control(Box::new(Complete { controller: self, rules, reconcile }))
    }
}

/// A complete controller, ready for [`Operator::control`](crate::Operator::control).
#[must_use = "a controller does nothing until it is given to an operator"]
pub struct Control(pub(crate) Box<dyn Part>);

/// A complete controller without its type.
pub(crate) trait Part: Send {
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
    fn assemble(self: Box<Self>, ground: &Arc<Ground>, grace: Duration) -> Assembled;
}

/// A controller connected to the caches and ready to be started.
pub(crate) struct Assembled {
    pub(crate) name: Source,
    pub(crate) inbox: Inbox,
    pub(crate) pump: Pump,
    /// The main kind first, then the others.
    pub(crate) freshness: Vec<watch::Receiver<Freshness>>,
    pub(crate) streams: Vec<BoxFuture<'static, ()>>,
    pub(crate) companions: Vec<Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>>,
    /// Queues the objects of the main kind that are in these shards.
    pub(crate) relist: Relist,
    /// The worlds it keeps.
    pub(crate) worlds: Vec<Arc<dyn Vital>>,
}

impl Assembled {
    /// The controller as the election sees it.
    pub(crate) fn constituent(&self) -> Constituent {
        Constituent { inbox: self.inbox.clone(), relist: self.relist.clone() }
    }
}

struct Complete {
    controller: Description,
    rules: Vec<Rule>,
    reconcile: Handler,
}

impl Part for Complete {
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

    fn assemble(self: Box<Self>, ground: &Arc<Ground>, grace: Duration) -> Assembled {
        let Self { controller, reconcile, .. } = *self;
        let (info, source) = (controller.info, Source::from(controller.name.as_str()));
        let scope = Scope { labels: controller.labels, ..ground.scope.clone() };
        let cache = if controller.only_listens {
            ground.caches.declare_events(info, &scope)
        } else {
            ground.caches.declare(info, &scope)
        };
        let (journal, fence) = (ground.journal.clone(), ground.fence.clone());
        let inbox = Inbox::new(controller.config, &ground.entropy, journal, source.clone(), fence.clone());
        if !controller.only_listens {
            main::follow(&cache, &inbox, controller.predicate);
        }
        let mut freshness = vec![cache.watch_freshness()];
        let memo = Arc::<Memo>::default();
        let wire =
            Wire { caches: &ground.caches, scope: &ground.scope, main: &cache, inbox: &inbox, memo: &memo };
        let options = controller.options;
        freshness.extend(controller.relations.into_iter().map(|Relation { other, connect }| {
            connect(&wire, options.followed(other.map_or(info, |other| other.info)))
        }));
        let home = ground.home_namespace();
        let listen = |outside| listen(info, outside, inbox.clone(), home.clone());
        let streams = controller.streams.into_iter().map(listen).collect();
        let engine = Arc::new(Engine {
            finalizer: format!("{}/{}", ground.name, controller.name),
            source: source.clone(),
            ground: ground.clone(),
            scope,
            cache: cache.clone(),
            reconcile,
            cleanup: controller.cleanup,
            is_called_to_the_end: controller.is_called_to_the_end,
            vouches: controller.vouches,
            memo: memo.clone(),
            takeover: Takeover::new(&cache, &fence),
        });
        forget_gone(&cache, memo);
        let relist: Relist = if controller.only_listens { Arc::new(|_| {}) } else { relist(&engine, &inbox) };
        let accompanied = |companion: Companion| -> Box<dyn FnOnce(_) -> _ + Send> {
            let engine = engine.clone();
            Box::new(move |stop| companion(engine, stop))
        };
        let companions = controller.companions.into_iter().map(accompanied).collect();
        let runner = Arc::new(Bench(engine));
        let pump = Pump {
            inbox: inbox.clone(),
            runner,
            fence,
            freshness: cache.watch_freshness(),
            concurrency: controller.concurrency,
            grace,
        };
        Assembled { name: source, inbox, pump, freshness, streams, companions, relist, worlds: vec![] }
    }
}

fn forget_gone(cache: &ObjectCache, memo: Arc<Memo>) {
    cache.subscribe(move |delta| {
        if delta.new.is_none() {
            memo.forget(&delta.key);
        }
    });
}

fn relist(engine: &Arc<Engine>, inbox: &Inbox) -> Relist {
    let (cache, inbox, fence) = (engine.cache.clone(), inbox.clone(), engine.ground.fence.clone());
    Arc::new(move |shards| {
        let is_in_them = |key: &Key| fence.shard_of(key).is_some_and(|shard| shards.contains(&shard));
        // In order, so that runs of a test do not differ.
        let keys: BTreeSet<Key> =
            cache.entries().into_iter().map(|(key, _)| key).filter(is_in_them).collect();
        for key in keys {
            inbox.add(&key, Cause::Listed, Urgency::Background);
        }
    })
}

/// Queues what the stream names; a name without a namespace is one of `home`.
fn listen(
    info: &'static KindInfo,
    mut outside: Outside,
    inbox: Inbox,
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
            inbox.add(&info.target_key(&target, &home), cause, Urgency::Event);
        }
    })
}
