//! Provides a test cluster with one custom kind and a log of what was reconciled. The API server is in this process, or
//! in another one over TLS (`remote`, `reference`).

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat::testing::{Cluster, Faults, InjectedFault};
use homeostat_core::Key;
use homeostat_core::journal::Entry;
use homeostat_runtime::{Action, Context, Controller, Kind, Operator, Result, StandardStatus};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::logged::Logged;
use crate::reference::Reference;
use crate::remote::Remote;
pub(crate) use crate::running::Running;

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
    pub(crate) base: StandardStatus,
}

/// The test cluster.
pub(crate) struct TestCluster {
    cluster: Cluster,
    /// A client that never fails; only its watches may lag.
    pub(crate) client: Client,
    /// Faults for operators that do not use that client.
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    reliable: Faults,
    server: Server,
    logged: Logged,
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// Where the API server is.
enum Server {
    Here,
    Remote { _process: Remote },
    Shared(Reference),
}

/// The log lines of the reconcilers.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn say(&self, words: impl Into<String>) {
        self.0.lock().unwrap().push(words.into());
    }

    /// Returns the lines logged since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl TestCluster {
    /// Starts a server with the Widget kind.
    pub(crate) async fn new() -> Self {
        Self::serving(Widget::crd()).await
    }

    /// Starts a server with this kind.
    pub(crate) async fn serving(definition: CustomResourceDefinition) -> Self {
        let lab = Self::start(Some(&definition)).await;
        lab.serve(&definition).await;
        lab
    }

    /// Installs a definition, unless the server is shared and already has it.
    pub(crate) async fn serve(&self, definition: &CustomResourceDefinition) {
        if !matches!(self.server, Server::Shared(_)) {
            self.install(definition).await;
        }
    }

    /// Starts a server without custom kinds.
    pub(crate) async fn bare() -> Self {
        Self::start(None).await
    }

    /// Starts a second server with the Widget kind. It is always one of ours, even if the first is not.
    pub(crate) async fn second() -> Self {
        let lab = Self::on(None).await;
        lab.install(&Widget::crd()).await;
        lab
    }

    /// Starts a server; a shared one already has the definition.
    pub(crate) async fn start(definition: Option<&CustomResourceDefinition>) -> Self {
        let definitions = definition.map(|one| serde_json::to_value(one).unwrap());
        Self::on(Reference::take(definitions.as_slice()).await).await
    }

    /// Uses a shared server or a new one, in another process or in this one.
    async fn on(shared: Option<Reference>) -> Self {
        let builder = Cluster::builder();
        let (builder, server) = if let Some(reference) = shared {
            (builder.server(reference.noting_client()), Server::Shared(reference))
        } else if let Some(process) = Remote::start() {
            (builder.server(process.client().await), Server::Remote { _process: process })
        } else {
            (builder, Server::Here)
        };
        let (cluster, reliable) = (builder.start().await, Faults::default());
        let (client, faults) = (cluster.client_through(&reliable), cluster.faults().clone());
        Self { cluster, client, faults, log: Log::default(), reliable, server, logged: Logged::start() }
    }

    /// From now on, delays the watches of the reliable client by this much.
    pub(crate) fn lag(&mut self, by: Duration) -> Faults {
        self.reliable.delay_watches(by);
        self.reliable.clone()
    }

    pub(crate) async fn install(&self, definition: &CustomResourceDefinition) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), definition).await.expect("the definition is accepted");
        self.rest().await;
    }

    /// Runs an operator on the breakable client until the test cluster is dropped.
    pub(crate) fn run(&mut self, build: impl FnOnce(Operator) -> Operator) -> Running {
        self.run_on(true, build)
    }

    /// Runs an operator on the breakable or the reliable client.
    pub(crate) fn run_on(&mut self, breakable: bool, build: impl FnOnce(Operator) -> Operator) -> Running {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let admin = listener.local_addr().expect("it is bound");
        let operator = build(Operator::new("widgets.test.dev")).serve_on(listener);
        let faults = if breakable { &self.faults } else { &self.reliable };
        let operator = self.cluster.run_through(faults, operator);
        Running { journal: operator.journal().clone(), stop: operator.stop_token().clone(), operator, admin }
    }

    /// Returns an operator whose reconciler logs the names of its widgets.
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

    /// Returns an operator with this function as its reconciler.
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

    /// Waits until nothing more happens without advancing the clock.
    pub(crate) async fn rest(&self) {
        self.cluster.pass(Duration::ZERO).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.cluster.pass(Duration::from_secs(seconds)).await;
    }

    /// Reconnects the operator to the server, which has forgotten its history: only a list can close the gap.
    pub(crate) async fn return_without_history(&self) {
        match &self.server {
            Server::Here => {
                self.forget_history().await;
                self.faults.clear();
            }
            // Another process cannot be made to forget; the connection responds in its place until there has been a
            // list.
            Server::Remote { .. } | Server::Shared(_) => {
                let listed = Mutex::new(BTreeSet::new());
                self.faults.set(move |request| {
                    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                    let is_resumed = query.contains("watch=true") && !query.contains("sendInitialEvents");
                    // A list of one object only reads the newest revision.
                    let is_question = query.split('&').any(|part| part == "limit=1");
                    if request.method() == Method::GET && !is_resumed && !is_question {
                        listed.lock().unwrap().insert(path.to_owned());
                    }
                    let is_too_old = is_resumed && !listed.lock().unwrap().contains(path);
                    is_too_old.then_some(InjectedFault::Refuse(410, "too old resource version"))
                });
            }
        }
        self.pass(60).await;
        self.faults.clear();
    }

    /// With a kube-apiserver, after a definition was deleted: ends the operator's watches for its kind now, instead of
    /// after the minute or two of real time that a kube-apiserver keeps them open. Returns when the kind is served
    /// again.
    pub(crate) async fn end_watches_of_gone_widgets(&self) {
        let Server::Shared(reference) = &self.server else { return };
        reference.await_gone("widgets.test.dev").await;
        self.faults.cut();
        self.pass(60).await;
        self.await_widgets().await;
    }

    /// With a kube-apiserver, after an operator installed its kind.
    pub(crate) async fn await_widgets(&self) {
        self.await_served("/apis/test.dev/v1/widgets").await;
    }

    /// With a kube-apiserver, after a definition was created: its kind is served a little later in real time, and an
    /// operator sees it a little virtual time after that.
    pub(crate) async fn await_served(&self, collection: &str) {
        let Server::Shared(reference) = &self.server else { return };
        reference.await_served(collection).await;
        self.pass(10).await;
    }

    /// Returns whether this is a kube-apiserver on which no operator has stored records yet.
    pub(crate) async fn lacks_records(&self) -> bool {
        match &self.server {
            Server::Shared(reference) => !reference.has_records().await,
            _ => false,
        }
    }

    /// Returns whether these words were logged at level info or above.
    pub(crate) fn has_logged(&self, words: &str) -> bool {
        self.times_logged(words) > 0
    }

    /// Returns how often they were logged.
    pub(crate) fn times_logged(&self, words: &str) -> usize {
        self.logged.text().matches(words).count()
    }

    pub(crate) async fn create<K: Kind>(&self, object: &K) -> K {
        let created = self.cluster.create(object.clone()).await;
        self.rest().await;
        created
    }

    pub(crate) async fn widget(&self, name: &str) -> Widget {
        self.create(&Widget::new(name, WidgetSpec::default())).await
    }

    pub(crate) async fn patch<K: Kind>(&self, name: &str, patch: Value) -> K {
        let patched = self.cluster.patch(name, patch).await;
        self.rest().await;
        patched
    }

    pub(crate) async fn delete<K: Kind>(&self, name: &str) {
        self.cluster.delete::<K>(name).await;
        self.rest().await;
    }

    /// Returns the resourceVersion of an object: if it is the same before and after, nothing was written.
    pub(crate) async fn version<K: Kind>(&self, name: &str) -> String {
        self.get::<K>(name).await.meta().resource_version.clone().expect("it is stored")
    }
}

/// Returns a ConfigMap owned by these widgets.
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

/// Returns the journal entries about objects with this name, of any kind.
pub(crate) fn entries_of_any<T>(running: &Running, name: &str, pick: impl Fn(Entry) -> Option<T>) -> Vec<T> {
    let is_meant = |entry: &Entry| entry.object().is_some_and(|object| object.name() == name);
    let entries = running.journal.records().into_iter().map(|record| record.entry);
    entries.filter(is_meant).filter_map(pick).collect()
}

/// Returns the journal entries about a widget that `pick` selects.
pub(crate) fn entries<T>(running: &Running, name: &str, pick: impl Fn(Entry) -> Option<T>) -> Vec<T> {
    running.journal.about(&widget_key(name)).into_iter().filter_map(|record| pick(record.entry)).collect()
}

/// Returns type, status, reason and message of each condition of a widget.
pub(crate) fn conditions(widget: Widget) -> Vec<[String; 3]> {
    let all = widget.status.map(|status| status.base.conditions).unwrap_or_default();
    all.into_iter().map(|one| [one.type_, one.status, one.reason]).collect()
}
