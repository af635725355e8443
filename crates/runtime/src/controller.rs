//! The description of one controller: what it reconciles, what else concerns it, how it behaves. Nothing happens
//! until the operator runs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream};
use futures::{FutureExt, StreamExt};
use homeostat_core::Key;
use homeostat_core::journal::{Cause, Source};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::action::Action;
use crate::cache::{Cache, Freshness};
use crate::context::{Context, Memo};
use crate::election::{Constituent, Relist};
use crate::engine::{Bench, Cleanup, Engine, Handler};
use crate::fault::Result;
use crate::ground::Ground;
use crate::handlers::Handlers;
use crate::inbox::Inbox;
use crate::kind::{Kind, Metadata, Target, is_custom};
use crate::panics::message_of;
use crate::predicate::Predicate;
use crate::queue::{Backoff, Config, Urgency};
use crate::relations::{Relation, Selector, Wire, indexes, main, owns, reads, references, selects, watches};
use crate::rule::{GET, MainWrites, PATCH, READ, Rule, WRITE, WRITE_ONLY};
use crate::takeover::Takeover;
use crate::watch::Scope;
use crate::worker::Pump;
use crate::world::Vital;

/// Reconciles at a time: enough to hide the latency of an API server, few enough not to flood it.
const CONCURRENCY: usize = 32;

/// The periodic pass nobody should need: it repairs what a lost event or a bug left behind.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// A controller of `K` in the making. [`reconcile`](Self::reconcile) completes it.
#[must_use = "a controller does nothing until it is completed with reconcile and given to an operator"]
pub struct Controller<K: Kind> {
    name: String,
    labels: Option<String>,
    predicate: Option<Predicate<K>>,
    relations: Vec<Relation<K>>,
    streams: Vec<Outside>,
    rules: Vec<Rule>,
    writes: MainWrites,
    config: Config,
    concurrency: usize,
    cleanup: Option<Cleanup<K>>,
    companions: Vec<Companion<K>>,
    is_called_to_the_end: bool,
    vouches: Option<&'static str>,
    /// Its objects are not reconciled: companions hear of their changes, and that is all.
    only_listens: bool,
}

/// A task that lives beside the workers and ends in its own time after the stop.
pub(crate) type Companion<K> =
    Box<dyn FnOnce(Arc<Engine<K>>, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// A stream of triggers from outside the cluster.
struct Outside {
    name: Cow<'static, str>,
    targets: BoxStream<'static, Target>,
}

impl<K: Kind> Controller<K> {
    /// A controller named after its kind.
    #[expect(
        clippy::new_without_default,
        reason = "a controller that nothing was asked of is not a useful default"
    )]
    pub fn new() -> Self {
        Self {
            name: K::kind(&()).to_lowercase(),
            labels: None,
            predicate: None,
            relations: Vec::new(),
            streams: Vec::new(),
            rules: Vec::new(),
            writes: MainWrites { status: is_custom::<K>(), ..MainWrites::default() },
            config: Config { resync: Some(RESYNC), ..Config::default() },
            concurrency: CONCURRENCY,
            cleanup: None,
            companions: Vec::new(),
            is_called_to_the_end: false,
            vouches: None,
            only_listens: false,
        }
    }

    /// Another name, for a second controller of the same kind. It is part of the finalizer and of metrics.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Only objects that match this label selector; others are not even loaded.
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self { labels: Some(selector.into()), ..self }
    }

    /// Only these changes of the object itself matter. First sight and deletion always do.
    pub fn when(self, predicate: Predicate<K>) -> Self {
        Self { predicate: Some(predicate), ..self }
    }

    /// Objects of kind `T` that our object owns: their changes trigger it, old and new owner alike.
    pub fn owns<T: Kind>(self) -> Self {
        self.owning().relate(owns::owns::<K, T>(None)).allow(Rule::on::<T>("", WRITE))
    }

    /// Like [`owns`](Self::owns), but only these changes of a child matter; that it comes, goes or changes owners always does.
    pub fn owns_when<T: Kind>(self, predicate: Predicate<T>) -> Self {
        self.owning().relate(owns::owns::<K, T>(Some(predicate))).allow(Rule::on::<T>("", WRITE))
    }

    /// Like [`owns`](Self::owns), keeping only metadata in memory: for kinds the reconciler writes but never reads.
    pub fn owns_metadata<T: Kind>(self) -> Self
    where
        Metadata<T>: Kind,
    {
        self.owning().relate(owns::owns::<K, Metadata<T>>(None)).allow(Rule::on::<T>("", WRITE))
    }

    /// Objects of kind `T` that `map` relates to ours; it is asked about the old and the new state of each.
    pub fn watches<T: Kind, I>(self, map: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item: Into<Target>>,
    {
        self.relate(watches::watches::<K, T, I>(None, map)).allow(Rule::on::<T>("", READ))
    }

    /// Like [`watches`](Self::watches), but only these changes matter; that one comes or goes always does.
    pub fn watches_when<T: Kind, I>(
        self,
        predicate: Predicate<T>,
        map: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item: Into<Target>>,
    {
        self.relate(watches::watches::<K, T, I>(Some(predicate), map)).allow(Rule::on::<T>("", READ))
    }

    /// Objects of kind `T` that ours names: when one appears, changes or goes, ours is reconciled.
    pub fn references<T: Kind, I>(self, names: impl Fn(&K) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item: Into<Target>>,
    {
        self.relate(references::references::<K, T, I>(names)).allow(Rule::on::<T>("", READ))
    }

    /// Objects of kind `T` that our label selector matches, owned or not: in our namespace, if both kinds live in one.
    /// The selector is k8s-openapi's or `homeostat_core`'s: `.selects::<Pod, _>(|set| Some(set.spec.selector.clone()))`.
    pub fn selects<T: Kind, S: Selector>(
        self,
        selector: impl Fn(&K) -> Option<S> + Clone + Send + Sync + 'static,
    ) -> Self {
        let selector = move |object: &K| selector(object).map(Selector::into_selector);
        self.relate(selects::selects::<K, T>(selector)).allow(Rule::on::<T>("", READ))
    }

    /// Objects of kind `T` that the reconciler reads but that trigger nothing.
    pub fn reads<T: Kind>(self) -> Self {
        self.relate(reads::<K, T>()).allow(Rule::on::<T>("", READ))
    }

    /// Objects of kind `T` that the reconciler writes but does not read: only rights, no watch.
    pub fn writes<T: Kind>(self) -> Self {
        self.owning().allow(Rule::on::<T>("", WRITE_ONLY))
    }

    /// The status of objects of kind `T` that the reconciler writes ([`Context::patch_status`]). That of
    /// the main kind needs no word if it is one of your own; of Kubernetes' own kinds not even a terminal fault is written
    /// there without it.
    pub fn writes_status<T: Kind>(self) -> Self {
        self.allow(Rule::on::<T>("/status", PATCH))
    }

    /// Our objects report into the status of parents of kind `P` ([`Context::report`]).
    pub fn reports_to<P: Kind>(self) -> Self {
        self.allow(Rule::on::<P>("/status", PATCH)).allow(Rule::on::<P>("", GET))
    }

    /// A former version had a cleanup and this one has none: its finalizer is taken off the objects that still carry it,
    /// which takes the right to patch them.
    pub fn releases_finalizer(self) -> Self {
        self.writing_metadata()
    }

    /// An index of the objects of kind `T` by the values found in each, read with
    /// [`Context::indexed`]. The type of the value names the index, so give each its own.
    pub fn index<T: Kind, V, I>(self, values: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        V: std::hash::Hash + Eq + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.relate(indexes::<K, T, V, I>(values)).allow(Rule::on::<T>("", READ))
    }

    /// Triggers from outside the cluster: each item names an object to reconcile. A name without a namespace means the
    /// operator's own: the one it is bound to ([`Operator::namespace`](crate::Operator::namespace)), otherwise that of its
    /// kubeconfig or Pod. `name` appears in explanations.
    pub fn on(
        mut self,
        name: impl Into<Cow<'static, str>>,
        stream: impl Stream<Item: Into<Target>> + Send + 'static,
    ) -> Self {
        self.streams.push(Outside { name: name.into(), targets: stream.map(Into::into).boxed() });
        self
    }

    /// Reconciles at a time (32 unless told).
    pub fn concurrency(self, limit: usize) -> Self {
        Self { concurrency: limit.max(1), ..self }
    }

    /// Reconciles at a time in one namespace (unlimited unless told).
    pub fn per_namespace(mut self, limit: u32) -> Self {
        self.config.per_namespace = Some(limit.max(1));
        self
    }

    /// The retry schedule of failed reconciles (1 s, 2 s, 4 s … 5 min unless told).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// The period after which an object is reconciled without any cause (10 h unless told); none switches it off.
    pub fn resync(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.config.resync = period.into();
        self
    }

    /// What to do before the object may go. With it every object carries our finalizer; `await_change` means done.
    pub fn cleanup<F, Fut>(self, cleanup: F) -> Self
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        self.cleanup_if(|_| true, cleanup)
    }

    /// Like [`cleanup`](Self::cleanup), for the objects that need it; the others carry no finalizer.
    pub fn cleanup_if<F, Fut>(
        self,
        is_needed: impl Fn(&K) -> bool + Send + Sync + 'static,
        cleanup: F,
    ) -> Self
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        let cleanup = Cleanup { call: handler(cleanup), is_needed: Arc::new(is_needed) };
        Self { cleanup: Some(cleanup), ..self }.writing_metadata()
    }

    /// Completes the controller with handlers instead of a reconcile function. Their `on_delete` takes the place of a
    /// cleanup.
    pub fn handlers<L>(self, handlers: Handlers<K, L>) -> Control {
        handlers.complete(self)
    }

    /// Also reconciles objects that are being deleted, without a finalizer of ours: for kinds whose end is the
    /// controller's own work, as the end of a Pod is its node's.
    pub fn to_the_end(self) -> Self {
        Self { is_called_to_the_end: true, ..self }
    }

    /// Its reconcile keeps this condition, which must not go on saying that all is well when the object does not decode.
    pub(crate) fn vouching(self, condition: &'static str) -> Self {
        Self { vouches: Some(condition), ..self }
    }

    /// Its objects need not be kept or reconciled, unless finalizers are put on or taken off.
    pub(crate) fn listening(self) -> Self {
        let only_listens = self.cleanup.is_none() && !self.writes.metadata;
        Self { only_listens, ..self }
    }

    /// A task beside the workers.
    pub(crate) fn accompany(mut self, companion: Companion<K>) -> Self {
        self.companions.push(companion);
        self
    }

    /// Completes the controller with its reconcile function.
    pub fn reconcile<F, Fut>(self, reconcile: F) -> Control
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        let rules = [Rule::main::<K>(self.writes), self.rules.clone()].concat();
        Control(Box::new(Complete { controller: self, rules, reconcile: handler(reconcile) }))
    }

    /// The object is made the owner of others.
    fn owning(mut self) -> Self {
        self.writes.owns = true;
        self
    }

    /// The object carries a finalizer or annotations of ours.
    pub(crate) fn writing_metadata(mut self) -> Self {
        self.writes.metadata = true;
        self
    }

    pub(crate) fn allow(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    pub(crate) fn relate(mut self, relation: Relation<K>) -> Self {
        self.relations.push(relation);
        self
    }
}

fn handler<K, F, Fut>(function: F) -> Handler<K>
where
    K: Kind,
    F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send + 'static,
{
    Arc::new(move |object, context| Box::pin(function(object, context)))
}

/// A complete controller, ready for [`Operator::control`](crate::Operator::control).
#[must_use = "a controller does nothing until it is given to an operator"]
pub struct Control(pub(crate) Box<dyn Part>);

/// A complete controller without its type.
pub(crate) trait Part: Send {
    fn rules(&self) -> &[Rule];
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

struct Complete<K: Kind> {
    controller: Controller<K>,
    rules: Vec<Rule>,
    reconcile: Handler<K>,
}

impl<K: Kind> Part for Complete<K> {
    fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn assemble(self: Box<Self>, ground: &Arc<Ground>, grace: Duration) -> Assembled {
        let Self { controller, reconcile, .. } = *self;
        let source = Source::from(controller.name.as_str());
        let scope = Scope { labels: controller.labels, ..ground.scope.clone() };
        let cache = if controller.only_listens {
            ground.caches.declare_events::<K>(&scope)
        } else {
            ground.caches.declare::<K>(&scope)
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
        freshness.extend(controller.relations.into_iter().map(|relation| relation(&wire)));
        let home = ground.home_namespace();
        let listen = |outside| listen::<K>(outside, inbox.clone(), home.clone());
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
            is_custom: is_custom::<K>(),
            vouches: controller.vouches,
            memo: memo.clone(),
            takeover: Takeover::new(&cache, &fence),
        });
        forget_gone(&cache, memo);
        let relist: Relist = if controller.only_listens { Arc::new(|_| {}) } else { relist(&engine, &inbox) };
        let accompanied = |companion: Companion<K>| -> Box<dyn FnOnce(_) -> _ + Send> {
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

fn forget_gone<K: Kind>(cache: &Cache<K>, memo: Arc<Memo>) {
    cache.subscribe(move |delta| {
        if delta.new.is_none() {
            memo.forget(&delta.key);
        }
    });
}

fn relist<K: Kind>(engine: &Arc<Engine<K>>, inbox: &Inbox) -> Relist {
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
fn listen<K: Kind>(mut outside: Outside, inbox: Inbox, home: String) -> BoxFuture<'static, ()> {
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
            inbox.add(&target.key::<K>(&home), cause, Urgency::Event);
        }
    })
}
