//! A plan equals what then happens: random changes of the examples and of the built-in workloads are planned, then
//! made, and the difference between the states before and after must equal the plan, field by field.
//!
//! `HOMEOSTAT_PLAN_CHANGES` sets the total number of changes (40 by default).

use std::time::Duration;

use homeostat::Operator;
use homeostat::embedded::AdmissionConfig;
use homeostat::plan::{Change, ComparedWindow, Plan, PlanError, PlanSettings, compare_states, plan};
use homeostat::testing::Cluster;
use homeostat_core::{Clock, Entropy, Key};
use homeostat_example_database::Settings;
use homeostat_example_shapes::{Mode, Options, operator_of};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cloud::{CloudWrite, RecordingCloud};
use super::random_changes::RandomChanges;

/// The number of changes in all four tests together.
const CHANGES: usize = 40;

/// The number of tests that share them.
const PARTS: usize = 4;

/// Longer than a plan takes to see that nothing changes any more.
const REST: Duration = Duration::from_secs(60);

/// A cluster with a running operator, and a way to create that operator again.
struct Reality {
    cluster: Cluster,
    make: Box<dyn Fn() -> Operator>,
    cloud: RecordingCloud,
    changes: RandomChanges,
}

/// The outcome of one change.
#[derive(Debug, Default)]
struct Tally {
    planned: usize,
    refused: usize,
    objects: usize,
    calls: usize,
}

impl Reality {
    async fn start(seed: u64, make: impl Fn() -> Operator + 'static, cloud: RecordingCloud) -> Self {
        let cluster = Cluster::builder().seed(seed).start().await;
        cluster.run(make());
        cluster.pass(REST).await;
        let changes = RandomChanges { entropy: Entropy::seeded(seed), clock: cluster.clock() };
        Self { cluster, make: Box::new(make), cloud, changes }
    }

    fn objects(&self) -> Vec<(Key, Value)> {
        self.cluster.snapshot().objects()
    }

    async fn plan(&self, change: Change) -> Result<Plan, PlanError> {
        let settings = PlanSettings {
            admission: AdmissionConfig::without_service_accounts(),
            start: Some(self.cluster.now()),
            ..PlanSettings::default()
        };
        plan(self.cluster.client(), (self.make)(), change, settings).await
    }

    /// Makes the change as kubectl does.
    async fn make_change(&self, objects: &[Value], is_delete: bool) -> Result<(), String> {
        for object in objects {
            let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
            let plural = match kind {
                "StatefulSet"
                | "Deployment"
                | "Job"
                | "CronJob"
                | "Service"
                | "Namespace"
                | "Pod"
                | "Secret"
                | "At"
                | "Database"
                | "Shape"
                | "PodDisruptionBudget" => format!("{}s", kind.to_lowercase()),
                other => panic!("what is the plural of {other}?"),
            };
            let root = if version.contains('/') { "/apis" } else { "/api" };
            let place = object["metadata"]["namespace"].as_str();
            let place = place.map(|name| format!("/namespaces/{name}")).unwrap_or_default();
            let path =
                format!("{root}/{version}{place}/{plural}/{}", object["metadata"]["name"].as_str().unwrap());
            let request = if is_delete {
                http::Request::delete(path)
                    .header("content-type", "application/json")
                    .body(json!({"propagationPolicy": "Background"}).to_string().into_bytes())
            } else {
                http::Request::patch(format!("{path}?fieldManager=kubectl&force=true&fieldValidation=Strict"))
                    .header("content-type", "application/apply-patch+yaml")
                    .body(object.to_string().into_bytes())
            };
            let answer = self.cluster.client().request::<Value>(request.unwrap()).await;
            answer.map_err(|error| match error {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            })?;
        }
        Ok(())
    }

    /// Sometimes acts as the node, which reports all Pods as running and ready; then lets time pass.
    async fn play_node(&self) {
        if self.changes.pick(&[false, false, true]) {
            let pods = Api::<Pod>::all(self.cluster.client());
            for pod in pods.list(&ListParams::default()).await.unwrap() {
                let (name, namespace) = (pod.metadata.name.unwrap(), pod.metadata.namespace.unwrap());
                let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:00:00Z"}]);
                let status =
                    json!({"status": {"phase": "Running", "conditions": conditions, "podIP": "10.1.0.1"}});
                let api = Api::<Pod>::namespaced(self.cluster.client(), &namespace);
                // A Pod that is gone needs no status.
                let _ = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }
        self.cluster.pass(REST).await;
    }

    /// Plans a change, makes it, and compares.
    async fn check(
        &self,
        number: usize,
        (change, objects, is_delete): (Change, Vec<Value>, bool),
        tally: &mut Tally,
    ) {
        let describe = || format!("change {number}, delete {is_delete}: {}", json!(objects));
        let planned = self.plan(change).await;
        let plan = match planned {
            Ok(plan) => plan,
            Err(PlanError::Refused { message, .. }) => {
                let refused = self.make_change(&objects, is_delete).await;
                assert_eq!(refused, Err(message), "{}", describe());
                tally.refused += 1;
                return;
            }
            Err(error) => panic!("{error}: {}", describe()),
        };
        let [rest, run] = plan.virtual_seconds.map(|seconds| Duration::from_secs(seconds + 1));
        self.cluster.pass(rest).await;
        assert_eq!(plan.without_change, [], "the cluster is at rest: {}", describe());
        self.cloud.take_writes();
        let (from, before) = (self.cluster.now(), self.objects());
        self.make_change(&objects, is_delete).await.unwrap();
        self.cluster.pass(run).await;
        let window = ComparedWindow { from, to: self.cluster.now() };
        let happened = compare_states(&before, &self.objects(), window);
        assert_eq!(json!(plan.changes), json!(happened), "{}", describe());
        let calls = plan.calls.iter().map(|call| (call.verb, call.name.clone(), call.diff.to_string()));
        let (mut calls, mut made) = (calls.collect::<Vec<CloudWrite>>(), self.cloud.take_writes());
        // Several workers call the external API concurrently: only the calls for one resource are ordered.
        calls.sort_by(|a, b| a.1.cmp(&b.1));
        made.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(calls, made, "{}", describe());
        tally.planned += 1;
        tally.objects += happened.len();
        tally.calls += calls.len();
    }

    async fn check_all(&self, next: impl Fn(&RandomChanges) -> (Change, Vec<Value>, bool)) {
        let changes = std::env::var("HOMEOSTAT_PLAN_CHANGES").ok().and_then(|text| text.parse().ok());
        let changes = changes.unwrap_or(CHANGES).div_ceil(PARTS);
        let mut tally = Tally::default();
        for number in 0..changes {
            self.check(number, next(&self.changes), &mut tally).await;
            self.play_node().await;
        }
        println!("{changes} changes: {tally:?}");
        assert!(tally.objects > 0, "something happened: {tally:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn plan_equals_what_happens_to_ats() {
    let reality = Reality::start(1, homeostat_example_at::operator, RecordingCloud::default()).await;
    reality.check_all(RandomChanges::of_ats).await;
}

#[tokio::test(start_paused = true)]
async fn plan_equals_what_happens_to_databases() {
    let operator = || {
        let settings = Settings {
            new_password: |_| "a password that nobody chose by chance".to_owned(),
            free_port: |attempt| Ok(7000 + attempt),
            ..Settings::in_folder("/nowhere")
        };
        homeostat_example_database::operator(settings)
    };
    let reality = Reality::start(2, operator, RecordingCloud::default()).await;
    reality.check_all(RandomChanges::of_databases).await;
}

#[tokio::test(start_paused = true)]
async fn plan_equals_what_happens_to_shapes() {
    let cloud = RecordingCloud::default();
    let sky = cloud.clone();
    let operator = move || operator_of(sky.clone(), &Options { ownership: Mode::Tags, ..Options::default() });
    let reality = Reality::start(3, operator, cloud).await;
    reality.check_all(RandomChanges::of_shapes).await;
}

#[tokio::test(start_paused = true)]
async fn plan_equals_what_happens_to_workloads() {
    let operator = homeostat_workloads::controllers::operator_without_nodes;
    let reality = Reality::start(4, operator, RecordingCloud::default()).await;
    reality.check_all(RandomChanges::of_workloads).await;
}

/// If a reconciler never stops writing, the plan ends with an explanation.
#[tokio::test(start_paused = true)]
async fn an_operator_that_never_rests_is_named() {
    use homeostat::prelude::*;
    let operator = || {
        let maps = Controller::<ConfigMap>::new().reconcile(|map, cx| async move {
            let count = map.data.as_ref().and_then(|data| data.get("n")?.parse().ok()).unwrap_or(0);
            if map.name_any() == "restless" {
                cx.patch(&*map, json!({"data": {"n": (count + 1).to_string()}})).await?;
            }
            Ok(Action::requeue(Duration::from_secs(5)))
        });
        Operator::new("restless.demo.dev").control(maps)
    };
    let cluster = Cluster::start().await;
    let restless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "restless"}});
    let settings = PlanSettings { start: Some(Clock::system().now()), ..PlanSettings::default() };
    let outcome = plan(cluster.client(), operator(), Change::apply(vec![restless]), settings).await;
    let Err(PlanError::NotAtRest(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("does not come to rest"), "{why}");
    assert!(why.contains("it keeps writing configmaps default/restless ("), "{why}");
}
