//! A control plane in this process, the operator on it, and a clock that moves when nothing else is left to do.

use std::time::Duration;

use homeostat::core::journal::Entry;
use homeostat::core::{Clock, Entropy, Key};
use homeostat::embedded::ControlPlane;
use homeostat::k8s_openapi::api::core::v1::{Event, Pod};
use homeostat::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use homeostat::kube::{Api, Client};
use homeostat::runtime::{CancellationToken, Journal};
use homeostat_example_at::{At, AtSpec, Phase, operator};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// When every test begins.
pub(crate) const START: &str = "2026-02-10T20:30:00Z";

/// What things have that depend on nothing but the machine: it is virtual, so generous costs nothing.
const MOMENT: Duration = Duration::from_secs(1);

pub(crate) struct Lab {
    pub(crate) client: Client,
    pub(crate) journal: Journal,
    clock: Clock,
    _plane: ControlPlane,
    _tasks: JoinSet<()>,
}

impl Lab {
    pub(crate) async fn start() -> Self {
        let clock = Clock::virtual_from(START.parse().unwrap());
        let plane = ControlPlane::builder().time_and_chance(clock, Entropy::seeded(1)).start().await.unwrap();
        let client = plane.client();
        let operator = operator().time_and_chance(clock, Entropy::seeded(2));
        let journal = operator.journal();
        let mut tasks = JoinSet::new();
        let running = operator.run_on(client.clone(), CancellationToken::new());
        tasks.spawn(async move { running.await.unwrap() });
        let lab = Self { client, journal, clock, _plane: plane, _tasks: tasks };
        lab.pass(MOMENT).await;
        lab
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Whatever follows from what was done has followed.
    pub(crate) async fn settle(&self) {
        self.pass(MOMENT).await;
    }

    /// The moment this long from now, as a schedule.
    pub(crate) fn after(&self, time: Duration) -> String {
        (self.clock.now() + time).to_string()
    }

    pub(crate) fn ats(&self) -> Api<At> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create(&self, name: &str, schedule: &str) {
        let spec = AtSpec { schedule: schedule.to_owned(), command: "echo Hello Kubernetes".to_owned() };
        self.ats().create(&PostParams::default(), &At::new(name, spec)).await.unwrap();
    }

    pub(crate) async fn edit(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.ats().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.ats().delete(name, &DeleteParams::background()).await.unwrap();
    }

    pub(crate) async fn phase(&self, name: &str) -> Option<Phase> {
        self.ats().get(name).await.unwrap().status?.phase
    }

    /// Status, reason and message of a condition.
    pub(crate) async fn condition(&self, name: &str, r#type: &str) -> Option<(String, String, String)> {
        let conditions = self.ats().get(name).await.unwrap().status?.base.conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == r#type)?;
        Some((found.status, found.reason, found.message))
    }

    /// The kubelet's part: says how the Pod is.
    pub(crate) async fn mark(&self, pod: &str, phase: &str, exit_code: Option<i32>) {
        let containers = exit_code.map(|code| {
            json!([{
                "name": "command", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            }])
        });
        let patch = Patch::Merge(json!({"status": {"phase": phase, "containerStatuses": containers}}));
        self.pods().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }

    /// The reasons of the events about Ats, in order.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.involved_object.kind.as_deref() == Some("At"));
        events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
        events.into_iter().filter_map(|event| event.reason).collect()
    }

    /// How often the At was reconciled so far.
    pub(crate) fn runs(&self, name: &str) -> usize {
        let key = Key::new("cnat.programming-kubernetes.info", "ats", "default", name);
        let records = self.journal.about(&key);
        records.iter().filter(|record| matches!(record.entry, Entry::Started { .. })).count()
    }
}
