//! A control plane in this process, the operator on it, and hands to play the kubelet with.

use std::time::Duration;

use homeostat::core::{Clock, Entropy};
use homeostat::embedded::ControlPlane;
use homeostat::k8s_openapi::NamespaceResourceScope;
use homeostat::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use homeostat::kube::{Api, Client, Resource};
use homeostat::prelude::*;
use homeostat::runtime::CancellationToken;
use homeostat_example_database::{Database, DatabaseStatus, Settings, operator};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) struct Lab {
    pub(crate) client: Client,
    clock: Clock,
    _plane: ControlPlane,
    tasks: JoinSet<()>,
}

impl Lab {
    pub(crate) async fn start() -> Self {
        let clock = Clock::virtual_from("2026-02-10T20:30:00Z".parse().unwrap());
        let builder = ControlPlane::builder().time_and_chance(clock, Entropy::seeded(1)).workloads(true);
        let plane = builder.start().await.unwrap();
        let mut lab = Self { client: plane.client(), clock, _plane: plane, tasks: JoinSet::new() };
        lab.restart().await;
        lab
    }

    /// The operator ends and another begins, knowing nothing.
    pub(crate) async fn restart(&mut self) {
        self.tasks.shutdown().await;
        let settings = Settings { folder: "/data".into(), entropy: Entropy::system() };
        let operator = operator(settings).time_and_chance(self.clock, Entropy::seeded(2));
        let running = operator.run_on(self.client.clone(), CancellationToken::new());
        self.tasks.spawn(async move { running.await.unwrap() });
        self.settle().await;
    }

    /// Whatever follows from what was done has followed. The time is virtual.
    pub(crate) async fn settle(&self) {
        self.pass(Duration::from_secs(3)).await;
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) {
        let database: Database = serde_json::from_value(json!({
            "apiVersion": "database.example.com/v1", "kind": "Database",
            "metadata": {"name": name}, "spec": spec,
        }))
        .unwrap();
        self.api::<Database>().create(&PostParams::default(), &database).await.unwrap();
        self.settle().await;
    }

    pub(crate) async fn edit<K>(&self, name: &str, patch: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.settle().await;
    }

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.api::<K>().delete(name, &DeleteParams::background()).await.unwrap();
        self.settle().await;
    }

    pub(crate) async fn status(&self, name: &str) -> DatabaseStatus {
        self.api::<Database>().get(name).await.unwrap().status.unwrap()
    }

    /// The reason of the condition `Ready`.
    pub(crate) async fn reason(&self, name: &str) -> String {
        self.condition(name, "Ready").await.0
    }

    /// Reason and message of a condition.
    pub(crate) async fn condition(&self, name: &str, r#type: &str) -> (String, String) {
        let conditions = self.status(name).await.base.conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == r#type).unwrap();
        (found.reason, found.message)
    }

    pub(crate) async fn secret(&self, name: &str, key: &str) -> String {
        let secret = self.api::<Secret>().get(name).await.unwrap();
        String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
    }

    /// The words PostgreSQL is started with.
    pub(crate) async fn arguments(&self, name: &str) -> Vec<String> {
        let set = self.api::<StatefulSet>().get(name).await.unwrap();
        set.spec.unwrap().template.spec.unwrap().containers.remove(0).args.unwrap()
    }

    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }

    /// The kubelet's part: PostgreSQL answers.
    pub(crate) async fn serve(&self, pod: &str) {
        let serving = container("postgres", true, &json!({"running": {"startedAt": "2026-02-10T20:30:00Z"}}));
        let status = json!({
            "phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [serving],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        self.mark(pod, status).await;
    }

    /// The kubelet's part: says how the Pod is.
    pub(crate) async fn mark(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
        self.settle().await;
    }
}

pub(crate) fn container(name: &str, ready: bool, state: &Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "restartCount": 0, "ready": ready, "state": state})
}
