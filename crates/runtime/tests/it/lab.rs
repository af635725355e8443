//! A laboratory: an API server in this process or, over TLS, in another; a client that breaks on demand, one custom
//! kind, and a log of what was reconciled.
//!
//! Time is virtual either way. With a server in another process it moves in steps, and between them the laboratory
//! waits until nothing has passed on the wire for a number of answered questions: the slower the machine, the longer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_apiserver::ApiServer;
use homeostat_core::journal::Entry;
use homeostat_core::{Clock, Entropy, Key};
use homeostat_runtime::{Action, CancellationToken, Context, Controller, Operator, Result, StatusBase};
use homeostat_store::SharedStore;
use homeostat_store::memory::Memory;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::logged::Logged;
use crate::reference::Reference;
use crate::remote::Remote;
pub(crate) use crate::running::Running;
use crate::slow::{Lag, slow};
use crate::times::Times;
pub(crate) use crate::wire::Breakage;
use crate::wire::{Faults, Hold, Wire};

/// Questions a server in another process answers in a row without anything else passing, before it is called quiet. They
/// are reads of an object, so that a store behind the server is asked, too.
const QUIET_QUESTIONS: u32 = 24;

/// Steps in which a long time passes when the server is another process, and the shortest of them: below the 20
/// seconds after which a list that pauses counts as broken.
const STEPS_MAX: u64 = 60;

/// In a crowd of watchers the server lets events gather for a few milliseconds; this is longer than several of those, one
/// after the other, and shorter than anything the runtime waits for.
const MOMENT: Duration = Duration::from_millis(25);

/// Shorter than anything the runtime waits for.
const INSTANT: Duration = Duration::from_millis(1);

/// The kind under test.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "test.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(rename_all = "camelCase")]
pub(crate) struct WidgetSpec {
    #[serde(default)]
    pub(crate) size: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema, PartialEq)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    pub(crate) seen: i64,
    #[serde(flatten)]
    pub(crate) base: StatusBase,
}

/// The laboratory.
pub(crate) struct Lab {
    /// A client that never breaks.
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    clock: Clock,
    broken: Client,
    seed: u64,
    tasks: JoinSet<()>,
    server: Server,
    logged: Logged,
    /// Everything that passed on the wires and was written in journals.
    traffic: Arc<AtomicU64>,
}

/// Where the API is.
enum Server {
    Here { store: SharedStore },
    Remote { direct: Client, _process: Remote },
    Shared(Reference),
}

impl Server {
    /// A client past the wire, if the server is another process.
    fn direct(&self) -> Option<&Client> {
        match self {
            Self::Here { .. } => None,
            Self::Remote { direct, .. } => Some(direct),
            Self::Shared(reference) => Some(&reference.client),
        }
    }
}

/// What the reconcilers said.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn say(&self, words: impl Into<String>) {
        self.0.lock().unwrap().push(words.into());
    }

    /// Takes what was said since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Lab {
    /// A server with the Widget kind.
    pub(crate) async fn new() -> Self {
        Self::serving(Widget::crd()).await
    }

    /// A server with this kind.
    pub(crate) async fn serving(definition: CustomResourceDefinition) -> Self {
        let lab = Self::start(Some(&definition)).await;
        lab.serve(&definition).await;
        lab
    }

    /// Installs a definition, unless the server is shared: there it came with the server.
    pub(crate) async fn serve(&self, definition: &CustomResourceDefinition) {
        if !matches!(self.server, Server::Shared(_)) {
            self.install(definition).await;
        }
    }

    /// A server without any.
    pub(crate) async fn bare() -> Self {
        Self::start(None).await
    }

    /// A second server with the Widget kind, beside the first. It is one of ours even if that is not.
    pub(crate) async fn second() -> Self {
        let lab = Self::on(None).await;
        lab.install(&Widget::crd()).await;
        lab
    }

    /// A server; one that is shared has the definition already.
    pub(crate) async fn start(definition: Option<&CustomResourceDefinition>) -> Self {
        let definitions = definition.map(|one| serde_json::to_value(one).unwrap());
        Self::on(Reference::take(definitions.as_slice()).await).await
    }

    /// On a shared server, or one of its own.
    async fn on(shared: Option<Reference>) -> Self {
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
        let mut tasks = JoinSet::new();
        let (direct, server) = match shared {
            Some(reference) => (reference.client.clone(), Server::Shared(reference)),
            None => serve(clock, &mut tasks).await,
        };
        let (faults, traffic) = (Faults::default(), Arc::<AtomicU64>::default());
        let times = server.direct().map(|_| Times::new(clock));
        let notes = match &server {
            Server::Shared(reference) => Some(reference.notes.clone()),
            _ => None,
        };
        let client = |faults| {
            let (server, traffic, watched) = (direct.clone(), traffic.clone(), Arc::default());
            let (times, notes) = (times.clone(), notes.clone());
            Client::new(Wire { server, faults, times, notes, traffic, watched }, "default")
        };
        let (broken, client) = (client(faults.clone()), client(Faults::default()));
        Self {
            client,
            faults,
            log: Log::default(),
            clock,
            broken,
            seed: 10,
            tasks,
            server,
            logged: Logged::start(),
            traffic,
        }
    }

    /// From now on the reliable client hears its watches this much later than they speak.
    pub(crate) fn lag(&mut self, by: Duration) -> Lag {
        let lag = Lag::default();
        lag.set(by);
        self.client = slow(&self.client, &lag);
        lag
    }

    pub(crate) async fn install(&self, definition: &CustomResourceDefinition) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), definition).await.expect("the definition is accepted");
        self.rest().await;
    }

    /// Runs an operator on the breakable client until the laboratory goes.
    pub(crate) fn run(&mut self, build: impl FnOnce(Operator) -> Operator) -> Running {
        self.run_on(true, build)
    }

    /// Runs an operator on the breakable or the reliable client.
    pub(crate) fn run_on(&mut self, breakable: bool, build: impl FnOnce(Operator) -> Operator) -> Running {
        self.seed += 1;
        let operator =
            Operator::new("widgets.test.dev").time_and_chance(self.clock, Entropy::seeded(self.seed));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let admin = listener.local_addr().expect("it is bound");
        let operator = build(operator).serve_on(listener);
        let traffic = self.traffic.clone();
        operator.journal().fold(move |_| {
            traffic.fetch_add(1, Ordering::Relaxed);
        });
        let (journal, stop) = (operator.journal(), CancellationToken::new());
        let client = if breakable { &self.broken } else { &self.client };
        let (client, token) = (client.clone(), stop.clone());
        let task = self.tasks.spawn(async move {
            operator.run_on(client, token).await.expect("the operator ends well");
        });
        Running { journal, stop, task, admin }
    }

    /// An operator whose reconciler logs the names of the widgets it is called with.
    pub(crate) async fn run_logging(
        &mut self,
        build: impl FnOnce(Controller<Widget>) -> Controller<Widget>,
    ) -> Running {
        let log = self.log.clone();
        let control = build(Controller::new()).reconcile(move |widget, _| {
            log.say(widget.metadata.name.clone().unwrap_or_default());
            async { Ok(Action::await_change()) }
        });
        let running = self.run(|operator| operator.control(control));
        self.rest().await;
        running
    }

    /// An operator whose reconciler is this function.
    pub(crate) async fn run_with<F, Fut>(&mut self, reconcile: F) -> Running
    where
        F: Fn(Arc<Widget>, Context<Widget>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        let control = Controller::<Widget>::new().owns::<ConfigMap>().reconcile(reconcile);
        let running = self.run(|operator| operator.control(control));
        self.rest().await;
        running
    }

    /// Waits until nothing moves without the clock: virtual time only passes when every task waits.
    pub(crate) async fn rest(&self) {
        self.quiet().await;
        tokio::time::sleep(MOMENT).await;
        self.quiet().await;
    }

    /// With a server in another process: waits until nothing has passed for a while.
    async fn quiet(&self) {
        let Some(direct) = self.server.direct() else { return };
        let _hold = Hold::new();
        let namespaces: Api<Namespace> = Api::all(direct.clone());
        let (mut before, mut questions) = (0, 0);
        while questions < QUIET_QUESTIONS {
            namespaces.get_metadata("default").await.expect("the server answers");
            let passed = self.traffic.load(Ordering::Relaxed);
            questions = if passed == before { questions + 1 } else { 0 };
            before = passed;
        }
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        if self.server.direct().is_some() {
            self.pass_in_steps(seconds).await;
        } else {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        self.rest().await;
    }

    /// With a server in another process: as much time as nothing happens in, and quiet whenever something did.
    async fn pass_in_steps(&self, seconds: u64) {
        // What was written before is on its way, and must not take until the time has passed.
        self.quiet().await;
        let steps = seconds.clamp(1, STEPS_MAX);
        for _ in 0..steps {
            let before = self.traffic.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(seconds) / u32::try_from(steps).unwrap()).await;
            // What is due at the same moment begins before we look.
            tokio::time::sleep(INSTANT).await;
            if self.traffic.load(Ordering::Relaxed) != before {
                self.quiet().await;
            }
        }
    }

    /// Lets the operator reach the server again, which has forgotten its history: only a list can close the gap.
    pub(crate) async fn return_without_history(&self) {
        match &self.server {
            Server::Here { store } => {
                store.compact(store.snapshot().revision()).await.expect("history can be dropped");
                self.faults.clear();
            }
            // A process cannot be told to forget; the wire answers in its place, until there was a list.
            Server::Remote { .. } | Server::Shared(_) => {
                let listed = Mutex::new(BTreeSet::new());
                self.faults.set(move |request| {
                    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                    let is_resumed = query.contains("watch=true") && !query.contains("sendInitialEvents");
                    // A list of one object only asks for the newest revision.
                    let is_question = query.split('&').any(|part| part == "limit=1");
                    if request.method() == Method::GET && !is_resumed && !is_question {
                        listed.lock().unwrap().insert(path.to_owned());
                    }
                    let is_too_old = is_resumed && !listed.lock().unwrap().contains(path);
                    is_too_old.then_some(Breakage::Refuse(410, "too old resource version"))
                });
            }
        }
        self.pass(60).await;
        self.faults.clear();
    }

    /// With a kube-apiserver, after a definition was deleted: the operator's watches of its kind end now, and not after
    /// the minute or two of real time that a kube-apiserver leaves them open. Returns when the kind is served again.
    pub(crate) async fn end_watches_of_gone_widgets(&self) {
        let Server::Shared(reference) = &self.server else { return };
        reference.await_gone("widgets.test.dev").await;
        self.faults.cut();
        self.pass(60).await;
        self.await_widgets().await;
    }

    /// With a kube-apiserver, after an operator brought its kind along.
    pub(crate) async fn await_widgets(&self) {
        self.await_served("/apis/test.dev/v1/widgets").await;
    }

    /// With a kube-apiserver, after a definition was made: its kind is served some real time later, and an operator sees
    /// it a little virtual time after that.
    pub(crate) async fn await_served(&self, collection: &str) {
        let Server::Shared(reference) = &self.server else { return };
        reference.await_served(collection).await;
        self.pass(10).await;
    }

    /// Is it a kube-apiserver on which no operator has kept records yet?
    pub(crate) async fn lacks_records(&self) -> bool {
        match &self.server {
            Server::Shared(reference) => !reference.has_records().await,
            _ => false,
        }
    }

    /// Did these words go to the log, as information or worse?
    pub(crate) fn has_logged(&self, words: &str) -> bool {
        self.times_logged(words) > 0
    }

    /// How often.
    pub(crate) fn times_logged(&self, words: &str) -> usize {
        self.logged.text().matches(words).count()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K>(&self, object: &K) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Serialize
            + std::fmt::Debug,
    {
        let created = self.api::<K>().create(&PostParams::default(), object).await.expect("it is created");
        self.rest().await;
        created
    }

    pub(crate) async fn widget(&self, name: &str) -> Widget {
        self.create(&Widget::new(name, WidgetSpec::default())).await
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        self.rest().await;
        patched.expect("it is patched")
    }

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.expect("it is deleted");
        self.rest().await;
    }

    pub(crate) async fn names<K>(&self) -> Vec<String>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let list = self.api::<K>().list(&ListParams::default()).await.expect("it is listed");
        list.items.into_iter().filter_map(|object| object.meta().name.clone()).collect()
    }

    /// The resourceVersion of an object: the same before and after means that nothing was written.
    pub(crate) async fn version<K>(&self, name: &str) -> String
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.api::<K>()
            .get(name)
            .await
            .expect("it is there")
            .meta()
            .resource_version
            .clone()
            .expect("it is stored")
    }
}

/// A server of the test's own: in another process, or in this.
async fn serve(clock: Clock, tasks: &mut JoinSet<()>) -> (Client, Server) {
    if let Some(process) = Remote::start() {
        let direct = process.client().await;
        return (direct.clone(), Server::Remote { direct, _process: process });
    }
    let store: SharedStore = Arc::new(Memory::with(clock, homeostat_store::Limits::default()));
    let builder = ApiServer::builder(store.clone()).clock(clock).entropy(Entropy::seeded(7));
    let (server, keeper) = builder.build().await.expect("the store takes the first objects");
    tasks.spawn(keeper.run(CancellationToken::new()));
    (Client::new(server, "default"), Server::Here { store })
}

/// A ConfigMap, owned by these widgets.
pub(crate) fn config(name: &str, owners: &[&Widget]) -> ConfigMap {
    let references =
        owners.iter().map(|owner| owner.owner_ref(&()).expect("a stored widget has a uid")).collect();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("default".into()),
            owner_references: Some(references),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

pub(crate) fn widget_key(name: &str) -> Key {
    Key::new("test.dev", "widgets", "default", name)
}

/// What the journal says about objects of this name, of any kind.
pub(crate) fn entries_of_any<T>(running: &Running, name: &str, pick: impl Fn(Entry) -> Option<T>) -> Vec<T> {
    let is_meant = |entry: &Entry| entry.object().is_some_and(|object| object.name() == name);
    let entries = running.journal.records().into_iter().map(|record| record.entry);
    entries.filter(is_meant).filter_map(pick).collect()
}

/// The entries of the journal about a widget that `pick` picks.
pub(crate) fn entries<T>(running: &Running, name: &str, pick: impl Fn(Entry) -> Option<T>) -> Vec<T> {
    running.journal.about(&widget_key(name)).into_iter().filter_map(|record| pick(record.entry)).collect()
}

/// Type, status, reason and message of each condition of a widget.
pub(crate) fn conditions(widget: Widget) -> Vec<[String; 3]> {
    let all = widget.status.map(|status| status.base.conditions).unwrap_or_default();
    all.into_iter().map(|one| [one.type_, one.status, one.reason]).collect()
}
