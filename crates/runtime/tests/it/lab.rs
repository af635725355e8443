//! A laboratory: an API server in this process, a client that breaks on demand, one custom kind, and a log of what was
//! reconciled.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::StreamExt;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::body::Body as ServerBody;
use homeostat_core::journal::Entry;
use homeostat_core::{Clock, Entropy, Key};
use homeostat_runtime::{
    Action, CancellationToken, Context, Controller, Journal, Operator, Result, StatusBase,
};
use homeostat_store::SharedStore;
use homeostat_store::memory::Memory;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

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

/// What a broken client answers instead of asking the server.
#[derive(Clone)]
pub(crate) enum Breakage {
    /// This status code and message.
    Refuse(u16, &'static str),
    /// No answer: the connection fails.
    Unreachable,
    /// Never served and never answered.
    Hang,
    /// Served, and never answered.
    Lost,
}

type Rule = Box<dyn Fn(&Request<Body>) -> Option<Breakage> + Send>;

/// Faults between the operator and the server.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<FaultState>>);

#[derive(Default)]
struct FaultState {
    rule: Option<Rule>,
    cut: CancellationToken,
}

impl Faults {
    /// From now on requests that the rule names break.
    pub(crate) fn set(&self, rule: impl Fn(&Request<Body>) -> Option<Breakage> + Send + 'static) {
        self.0.lock().unwrap().rule = Some(Box::new(rule));
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().rule = None;
    }

    /// Ends every open answer: the watches break off.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut self.0.lock().unwrap().cut).cancel();
    }
}

#[derive(Clone)]
struct Wire {
    server: ApiServer,
    faults: Faults,
}

type WireBody = StreamBody<
    Pin<
        Box<
            dyn futures::Stream<Item = std::result::Result<Frame<bytes::Bytes>, std::convert::Infallible>>
                + Send,
        >,
    >,
>;

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<WireBody>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (breakage, cut) = {
            let state = self.faults.0.lock().unwrap();
            (state.rule.as_ref().and_then(|rule| rule(&request)), state.cut.clone())
        };
        let mut server = self.server.clone();
        Box::pin(async move {
            match breakage {
                Some(Breakage::Unreachable) => return Err(std::io::Error::other("connection refused")),
                Some(Breakage::Refuse(code, message)) => return Ok(refusal(code, message)),
                Some(Breakage::Hang) => std::future::pending().await,
                Some(Breakage::Lost) | None => {}
            }
            let response =
                tower::Service::call(&mut server, request).await.expect("the server always answers");
            if matches!(breakage, Some(Breakage::Lost)) {
                std::future::pending::<()>().await;
            }
            Ok(response.map(|body| cuttable(body, cut)))
        })
    }
}

fn cuttable(body: ServerBody, cut: CancellationToken) -> WireBody {
    StreamBody::new(Box::pin(BodyStream::new(body).take_until(cut.cancelled_owned())))
}

fn refusal(code: u16, message: &str) -> Response<WireBody> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
                        "reason": "Testing", "code": code});
    let body = cuttable(ServerBody::from(status.to_string()), CancellationToken::new());
    Response::builder().status(code).body(body).expect("a valid response")
}

/// The laboratory.
pub(crate) struct Lab {
    /// A client that never breaks.
    pub(crate) client: Client,
    pub(crate) store: SharedStore,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    clock: Clock,
    broken: Client,
    seed: u64,
    tasks: JoinSet<()>,
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

/// A running operator.
pub(crate) struct Running {
    pub(crate) journal: Journal,
    pub(crate) stop: CancellationToken,
    task: tokio::task::AbortHandle,
}

impl Running {
    /// Ends the operator where it stands, as `kill -9` does.
    pub(crate) fn kill(&self) {
        self.task.abort();
    }
}

impl Lab {
    /// A server with the Widget kind.
    pub(crate) async fn new() -> Self {
        let lab = Self::bare().await;
        lab.install_widgets().await;
        lab
    }

    /// A server without it.
    pub(crate) async fn bare() -> Self {
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
        let store: SharedStore = Arc::new(Memory::with(clock, homeostat_store::Limits::default()));
        let builder = ApiServer::builder(store.clone()).clock(clock).entropy(Entropy::seeded(7));
        let (server, keeper) = builder.build().await.expect("the store takes the first objects");
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run(CancellationToken::new()));
        let faults = Faults::default();
        let broken = Client::new(Wire { server: server.clone(), faults: faults.clone() }, "default");
        let client = Client::new(Wire { server, faults: Faults::default() }, "default");
        Self { client, store, faults, log: Log::default(), clock, broken, seed: 10, tasks }
    }

    pub(crate) async fn install_widgets(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), &Widget::crd()).await.expect("the definition is accepted");
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
        let operator = build(operator);
        let (journal, stop) = (operator.journal(), CancellationToken::new());
        let client = if breakable { &self.broken } else { &self.client };
        let (client, token) = (client.clone(), stop.clone());
        let task = self.tasks.spawn(async move {
            operator.run_on(client, token).await.expect("the operator ends well");
        });
        Running { journal, stop, task }
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
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.rest().await;
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

/// The entries of the journal about a widget that `pick` picks.
pub(crate) fn entries<T>(running: &Running, name: &str, pick: impl Fn(Entry) -> Option<T>) -> Vec<T> {
    running.journal.about(&widget_key(name)).into_iter().filter_map(|record| pick(record.entry)).collect()
}
