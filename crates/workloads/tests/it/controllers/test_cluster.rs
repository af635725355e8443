//! Provides a test cluster with the controllers and a fake kubelet.

use std::ops::Deref;
use std::time::Duration;

use homeostat::testing::{Cluster, RunningOperator};
use homeostat_runtime::Kind;
use homeostat_workloads::controllers;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Resource;
use kube::api::DeleteParams;
use kube::core::NamespaceResourceScope;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::kubelet;

pub(crate) struct TestCluster {
    cluster: Cluster,
    controllers: RunningOperator,
    kubelet: JoinSet<()>,
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl TestCluster {
    /// Starts a server with controllers and kubelet.
    pub(crate) async fn new() -> Self {
        let mut lab = Self::without_kubelet().await;
        lab.add_node(kubelet::NODE).await;
        lab.kubelet.spawn(kubelet::run(lab.client()));
        lab.rest().await;
        lab
    }

    /// Starts a server with controllers, where the status of Pods does not change.
    pub(crate) async fn without_kubelet() -> Self {
        let cluster = Cluster::start().await;
        let controllers = cluster.run(controllers::operator());
        let lab = Self { cluster, controllers, kubelet: JoinSet::new() };
        lab.rest().await;
        lab
    }

    pub(crate) async fn add_node(&self, name: &str) {
        self.create::<Node>(json!({"metadata": {"name": name, "labels": {"disk": "ssd"}}})).await;
    }

    pub(crate) async fn remove_node(&self, name: &str) {
        self.cluster.delete::<Node>(name).await;
        self.rest().await;
    }

    /// Stops the controllers and starts new ones, which remember nothing.
    pub(crate) async fn restart(&mut self) {
        self.controllers.stop().await.unwrap();
        self.controllers = self.run(controllers::operator());
        self.pass(60).await;
    }

    /// Waits until nothing more happens without advancing the clock.
    pub(crate) async fn rest(&self) {
        self.cluster.pass(Duration::ZERO).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.cluster.pass(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn create<K: Kind>(&self, object: Value) -> K {
        let created = self.create_json(object).await;
        self.rest().await;
        created
    }

    pub(crate) async fn patch<K: Kind>(&self, name: &str, patch: Value) -> K {
        let patched = self.cluster.patch(name, patch).await;
        self.rest().await;
        patched
    }

    pub(crate) async fn delete<K: Kind + Resource<Scope = NamespaceResourceScope>>(
        &self,
        name: &str,
        how: &DeleteParams,
    ) {
        self.api::<K>().delete(name, how).await.unwrap();
        self.rest().await;
    }

    /// Returns the object as JSON.
    pub(crate) async fn get<K: Kind>(&self, name: &str) -> Value {
        json!(self.cluster.get::<K>(name).await)
    }

    /// Returns every Pod as `image phase`, sorted.
    pub(crate) async fn pods(&self) -> Vec<String> {
        let mut pods: Vec<String> = self.list::<Pod>().await.iter().map(described).collect();
        pods.sort();
        pods
    }

    /// Returns a description of a Pod of the kubelet.
    pub(crate) async fn say(&self, pod: &str, status: Value) {
        kubelet::say(&self.api(), pod, status).await;
        self.rest().await;
    }

    /// Returns the events about this object as `reason: message`.
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

/// Returns the condition of this type as `status reason`.
#[track_caller]
pub(crate) fn condition(object: &Value, r#type: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == r#type);
    found.map_or("-".to_owned(), |condition| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        format!("{} {reason}", condition["status"].as_str().unwrap_or_default())
    })
}

/// Returns a Pod template with this label and image.
pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
           "spec": {"containers": [{"name": "main", "image": image}]}})
}
