//! The operator on a test cluster, and the actions of these tests.

use std::ops::Deref;
use std::time::Duration;

use homeostat::k8s_openapi::api::core::v1::{Event, Pod};
use homeostat::testing::{Cluster, RunningOperator};
use homeostat_example_at::{At, AtSpec, Phase, operator};
use serde_json::{Value, json};

/// The time at which every test starts.
pub(crate) const START: &str = "2026-02-10T20:30:00Z";

pub(crate) struct TestCluster {
    cluster: Cluster,
    pub(crate) operator: RunningOperator,
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl TestCluster {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::builder().start_at(START.parse().unwrap()).start().await;
        let operator = cluster.run(operator());
        cluster.settle().await;
        Self { cluster, operator }
    }

    /// Returns the time this long from now, as a schedule.
    pub(crate) fn after(&self, time: Duration) -> String {
        (self.now() + time).to_string()
    }

    pub(crate) async fn create_at(&self, name: &str, schedule: &str) {
        let spec = AtSpec { schedule: schedule.to_owned(), command: "echo Hello Kubernetes".to_owned() };
        self.create(At::new(name, spec)).await;
    }

    pub(crate) async fn edit(&self, name: &str, spec: Value) {
        self.patch::<At>(name, json!({ "spec": spec })).await;
    }

    pub(crate) async fn phase(&self, name: &str) -> Option<Phase> {
        self.get::<At>(name).await.status?.phase
    }

    /// Returns the resourceVersion of an At: if it is the same before and after, nothing was written.
    pub(crate) async fn version(&self, name: &str) -> Option<String> {
        self.get::<At>(name).await.metadata.resource_version
    }

    /// Returns status, reason and message of a condition.
    pub(crate) async fn condition(&self, name: &str, r#type: &str) -> Option<(String, String, String)> {
        let conditions = self.get::<At>(name).await.status?.base.conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == r#type)?;
        Some((found.status, found.reason, found.message))
    }

    /// Plays the kubelet: sets the status of the Pod.
    pub(crate) async fn mark(&self, pod: &str, phase: &str, exit_code: Option<i32>) {
        let containers = exit_code.map(|code| {
            json!([{
                "name": "command", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            }])
        });
        self.patch_status::<Pod>(pod, json!({"phase": phase, "containerStatuses": containers})).await;
    }

    /// Returns the reasons of the events about Ats, in order.
    pub(crate) async fn events(&self) -> Vec<String> {
        let mut events = self.list::<Event>().await;
        events.retain(|event| event.involved_object.kind.as_deref() == Some("At"));
        events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
        events.into_iter().filter_map(|event| event.reason).collect()
    }

    /// Returns how often the At has been reconciled so far.
    pub(crate) fn runs(&self, name: &str) -> usize {
        self.operator.records().about::<At>(name).reconciles()
    }
}
