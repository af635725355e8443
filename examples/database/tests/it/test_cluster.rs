//! The operator and the workload controllers on a test cluster, with functions that play the kubelet.

use std::ops::Deref;

use homeostat::embedded::workload_controllers;
use homeostat::prelude::*;
use homeostat::runtime::Kind;
use homeostat::testing::{Cluster, RunningOperator};
use homeostat_example_database::{Database, DatabaseStatus, Settings, operator};
use serde_json::{Value, json};

pub(crate) struct TestCluster {
    cluster: Cluster,
    operator: RunningOperator,
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl TestCluster {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::start().await;
        cluster.run(workload_controllers());
        let operator = run(&cluster);
        cluster.settle().await;
        Self { cluster, operator }
    }

    /// Ends the operator and starts another one, which remembers nothing.
    pub(crate) async fn restart(&mut self) {
        self.operator.kill();
        self.operator = run(&self.cluster);
        self.settle().await;
    }

    /// Creates a Database and waits for what follows.
    pub(crate) async fn make(&self, name: &str, spec: Value) {
        self.create_json::<Database>(json!({"metadata": {"name": name}, "spec": spec})).await;
        self.settle().await;
    }

    pub(crate) async fn edit<K: Kind>(&self, name: &str, patch: Value) {
        self.patch::<K>(name, patch).await;
        self.settle().await;
    }

    pub(crate) async fn remove<K: Kind>(&self, name: &str) {
        self.delete::<K>(name).await;
        self.settle().await;
    }

    pub(crate) async fn status(&self, name: &str) -> DatabaseStatus {
        self.get::<Database>(name).await.status.unwrap()
    }

    /// Returns the reason of the condition `Ready`.
    pub(crate) async fn reason(&self, name: &str) -> String {
        self.condition(name, "Ready").await.0
    }

    /// Returns reason and message of a condition.
    pub(crate) async fn condition(&self, name: &str, r#type: &str) -> (String, String) {
        let conditions = self.status(name).await.base.conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == r#type).unwrap();
        (found.reason, found.message)
    }

    pub(crate) async fn secret(&self, name: &str, key: &str) -> String {
        let secret = self.get::<Secret>(name).await;
        String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
    }

    /// Returns PostgreSQL's command line.
    pub(crate) async fn arguments(&self, name: &str) -> Vec<String> {
        let set = self.get::<StatefulSet>(name).await;
        set.spec.unwrap().template.spec.unwrap().containers.remove(0).args.unwrap()
    }

    /// Plays the kubelet: PostgreSQL answers.
    pub(crate) async fn serve(&self, pod: &str) {
        let serving = container("postgres", true, &json!({"running": {"startedAt": "2026-02-10T20:30:00Z"}}));
        let status = json!({
            "phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [serving],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        self.mark(pod, status).await;
    }

    /// Plays the kubelet: sets the status of the Pod.
    pub(crate) async fn mark(&self, pod: &str, status: Value) {
        self.patch_status::<Pod>(pod, status).await;
        self.settle().await;
    }
}

fn run(cluster: &Cluster) -> RunningOperator {
    cluster.run(operator(Settings::in_folder("/data")))
}

pub(crate) fn container(name: &str, ready: bool, state: &Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "restartCount": 0, "ready": ready, "state": state})
}
