//! A laboratory: an API server in this process, the controllers, and the pretended kubelet.

use std::sync::Arc;
use std::time::Duration;

use homeostat_apiserver::ApiServer;
use homeostat_core::{Clock, Entropy};
use homeostat_runtime::CancellationToken;
use homeostat_store::{Limits, Memory, SharedStore};
use homeostat_workloads::controllers;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::kubelet;

/// The laboratory's first moment: 2027-01-15T08:00:00Z, a Friday.
const START: i64 = 1_800_000_000;

pub(crate) trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + DeserializeOwned
    + Serialize
    + std::fmt::Debug
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug
{
}

pub(crate) struct Lab {
    pub(crate) client: Client,
    clock: Clock,
    /// Ends the controllers that run.
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Lab {
    /// A server with controllers and kubelet.
    pub(crate) async fn new() -> Self {
        let mut lab = Self::without_kubelet().await;
        lab.add_node(kubelet::NODE).await;
        let client = lab.client.clone();
        lab.tasks.spawn(kubelet::run(client));
        lab.rest().await;
        lab
    }

    /// A server with controllers, where Pods stay what they are.
    pub(crate) async fn without_kubelet() -> Self {
        let clock = Clock::virtual_from(Timestamp::from_second(START).unwrap());
        let store: SharedStore = Arc::new(Memory::with(clock, Limits::default()));
        let builder = ApiServer::builder(store).clock(clock).entropy(Entropy::seeded(7));
        let (server, background) = builder.build().await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(background.run(CancellationToken::new()));
        let client = Client::new(server, "default");
        let mut lab = Self { client, clock, stop: CancellationToken::new(), tasks };
        lab.run_controllers(8);
        lab.rest().await;
        lab
    }

    pub(crate) async fn add_node(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "labels": {"disk": "ssd"}}});
        let node = serde_json::from_value(node).unwrap();
        Api::<Node>::all(self.client.clone()).create(&PostParams::default(), &node).await.unwrap();
        self.rest().await;
    }

    pub(crate) async fn remove_node(&self, name: &str) {
        Api::<Node>::all(self.client.clone()).delete(name, &DeleteParams::default()).await.unwrap();
        self.rest().await;
    }

    fn run_controllers(&mut self, seed: u64) {
        let operator = controllers::operator().time_and_chance(self.clock, Entropy::seeded(seed));
        let (client, stop) = (self.client.clone(), self.stop.clone());
        self.tasks.spawn(async move { operator.run_on(client, stop).await.unwrap() });
    }

    /// Stops the controllers and starts them anew, with nothing remembered.
    pub(crate) async fn restart(&mut self) {
        std::mem::take(&mut self.stop).cancel();
        self.rest().await;
        self.run_controllers(9);
        self.pass(60).await;
    }

    /// Waits until nothing moves without the clock.
    pub(crate) async fn rest(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.rest().await;
    }

    pub(crate) fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K: Namespaced>(&self, object: Value) -> K {
        let object = serde_json::from_value(object).unwrap();
        let created = self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
        self.rest().await;
        created
    }

    pub(crate) async fn patch<K: Namespaced>(&self, name: &str, patch: Value) -> K {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        self.rest().await;
        patched.unwrap()
    }

    pub(crate) async fn delete<K: Namespaced>(&self, name: &str, how: &DeleteParams) {
        self.api::<K>().delete(name, how).await.unwrap();
        self.rest().await;
    }

    /// The object as JSON.
    pub(crate) async fn get<K: Namespaced>(&self, name: &str) -> Value {
        json!(self.api::<K>().get(name).await.unwrap())
    }

    pub(crate) async fn list<K: Namespaced>(&self) -> Vec<K> {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn names<K: Namespaced>(&self) -> Vec<String> {
        self.list::<K>().await.into_iter().filter_map(|object| object.meta().name.clone()).collect()
    }

    /// `image phase` of every Pod, sorted.
    pub(crate) async fn pods(&self) -> Vec<String> {
        let mut pods: Vec<String> = self.list::<Pod>().await.iter().map(described).collect();
        pods.sort();
        pods
    }

    /// What a Pod of the kubelet's says.
    pub(crate) async fn say(&self, pod: &str, status: Value) {
        kubelet::say(&self.api(), pod, status).await;
        self.rest().await;
    }

    /// `reason: message` of the events about this object.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let events = self.list::<Event>().await.into_iter();
        let about = events.filter(|event| event.involved_object.name.as_deref() == Some(name));
        let mut said: Vec<(Option<_>, String)> = about
            .map(|event| {
                let text =
                    format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default());
                (event.first_timestamp, text)
            })
            .collect();
        said.sort();
        said.into_iter().map(|(_, text)| text).collect()
    }
}

fn described(pod: &Pod) -> String {
    let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap_or_default();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    format!("{image} {phase}")
}

/// The condition of this type as `status reason`.
#[track_caller]
pub(crate) fn condition(object: &Value, r#type: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == r#type);
    found.map_or("-".to_owned(), |condition| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        format!("{} {reason}", condition["status"].as_str().unwrap_or_default())
    })
}

/// A Pod template with this label and image.
pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
           "spec": {"containers": [{"name": "main", "image": image}]}})
}
