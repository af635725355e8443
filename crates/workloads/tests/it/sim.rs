//! Tests every workload controller under the simulator, with a fake kubelet: whatever goes wrong, each kind reaches the
//! state that its spec requests, creates no excess Pods, and leaves nothing behind.

#![expect(clippy::needless_pass_by_value, reason = "rows should read as sentences")]

use homeostat::sim::actors::{PodBehaviour, kubelet};
use homeostat::sim::{Budget, Cluster, Simulation, Trace, edit};
use homeostat_runtime::{Action, Controller, Kind, Operator};
use homeostat_workloads::controllers;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, ReplicationController, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds. `HOMEOSTAT_SIM_SCHEDULES`
/// runs more.
const BUDGET: Budget = Budget { schedules: 12, seconds: 3600 };

fn simulation(behaviour: PodBehaviour) -> Simulation {
    Simulation::new(controllers::operator)
        .beside(move || kubelet(behaviour))
        .given(object::<Node>(json!({"metadata": {"name": "simulated"}})))
        .budget(BUDGET)
}

fn object<K: Kind>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Returns a workload of this kind with Pods labelled `app: web`.
fn workload<K: Kind>(spec: Value) -> K {
    let mut value = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
                     "spec": {"containers": [{"name": "main", "image": "one"}]}}}});
    for (field, given) in spec.as_object().unwrap() {
        value["spec"][field] = given.clone();
    }
    object(value)
}

/// Changes fields of the spec.
fn set<K: Kind>(object: &mut K, path: &str, field: Value) {
    let mut value = serde_json::to_value(&*object).unwrap();
    *value.pointer_mut(path).unwrap() = field;
    *object = serde_json::from_value(value).unwrap();
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// Returns the images of the Pods.
fn images(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list::<Pod>().into_iter();
    pods.flat_map(|pod| pod.spec.unwrap().containers).filter_map(|container| container.image).collect()
}

#[test]
fn a_deployment_rolls_out_whatever_goes_wrong() {
    simulation(PodBehaviour::Ready)
        .given(workload::<Deployment>(json!({"replicas": 2})))
        .then(edit::<Deployment>("web", |web| set(web, IMAGE, json!("two"))))
        .always(|cluster| cluster.count::<Pod>() <= 4)
        .eventually(|cluster| images(cluster) == ["two", "two"])
        .check();
}

#[test]
fn a_deployment_is_scaled_whatever_goes_wrong() {
    simulation(PodBehaviour::Ready)
        .given(workload::<Deployment>(json!({"replicas": 2})))
        .then(edit::<Deployment>("web", |web| set(web, "/spec/replicas", json!(1))))
        .then(edit::<Deployment>("web", |web| set(web, "/spec/replicas", json!(3))))
        .eventually(|cluster| cluster.count::<Pod>() == 3 && cluster.count::<ReplicaSet>() == 1)
        .check();
}

#[test]
fn a_replica_set_is_scaled_whatever_goes_wrong() {
    simulation(PodBehaviour::Ready)
        .given(workload::<ReplicaSet>(json!({"replicas": 2})))
        .then(edit::<ReplicaSet>("web", |web| set(web, "/spec/replicas", json!(1))))
        .eventually(|cluster| cluster.count::<Pod>() == 1)
        .check();
}

#[test]
fn a_replication_controller_is_scaled_whatever_goes_wrong() {
    let spec = json!({"replicas": 2, "selector": {"app": "web"}});
    simulation(PodBehaviour::Ready)
        .given(workload::<ReplicationController>(spec))
        .then(edit::<ReplicationController>("web", |web| set(web, "/spec/replicas", json!(1))))
        .eventually(|cluster| cluster.count::<Pod>() == 1)
        .check();
}

#[test]
fn a_stateful_set_rolls_out_whatever_goes_wrong() {
    simulation(PodBehaviour::Ready)
        .given(workload::<StatefulSet>(json!({"replicas": 2, "serviceName": "web"})))
        .then(edit::<StatefulSet>("web", |web| set(web, IMAGE, json!("two"))))
        .always(|cluster| cluster.count::<Pod>() <= 2)
        .eventually(|cluster| images(cluster) == ["two", "two"])
        .check();
}

#[test]
fn a_stateful_set_is_scaled_whatever_goes_wrong() {
    simulation(PodBehaviour::Ready)
        .given(workload::<StatefulSet>(json!({"replicas": 2, "serviceName": "web"})))
        .then(edit::<StatefulSet>("web", |web| set(web, "/spec/replicas", json!(1))))
        .eventually(|cluster| cluster.count::<Pod>() == 1)
        .check();
}

#[test]
fn a_daemon_set_rolls_out_whatever_goes_wrong() {
    simulation(PodBehaviour::Ready)
        .given(workload::<DaemonSet>(json!({})))
        .then(edit::<DaemonSet>("web", |web| set(web, IMAGE, json!("two"))))
        .eventually(|cluster| images(cluster) == ["two"])
        .check();
}

fn pod_that_ends() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "one"}]}})
}

fn is_complete(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Complete" && one.status == "True"))
}

#[test]
fn a_job_completes_whatever_goes_wrong() {
    simulation(PodBehaviour::Succeed)
        .given(object::<Job>(json!({"metadata": {"name": "sum"}, "spec": {
            "completions": 2, "parallelism": 2, "template": pod_that_ends()}})))
        .always(|cluster| cluster.count::<Pod>() <= 2)
        .eventually(|cluster| cluster.list::<Job>().iter().all(is_complete) && cluster.count::<Pod>() == 2)
        .check();
}

/// Suspends a CronJob after its first run, so that there is a final state to compare.
fn suspender() -> Operator {
    let crons = Controller::<CronJob>::new().reconcile(|cron, cx| async move {
        let has_run = cron.status.as_ref().is_some_and(|status| status.last_schedule_time.is_some());
        let is_suspended = cron.spec.suspend == Some(true);
        if has_run && !is_suspended {
            let api: Api<CronJob> = Api::namespaced(cx.client().clone(), cx.key().namespace());
            let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
            api.patch(&cron.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(Action::await_change())
    });
    Operator::new("suspender.sim.homeostat.dev").control(crons)
}

fn cron_job() -> Simulation {
    simulation(PodBehaviour::Succeed)
        .beside(suspender)
        .given(object::<CronJob>(json!({"metadata": {"name": "tick"}, "spec": {
            "schedule": "*/10 * * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"template": pod_that_ends()}}}})))
        .always(|cluster| cluster.count::<Job>() <= 1)
        .eventually(|cluster| cluster.count::<Job>() == 1 && cluster.list::<Job>().iter().all(is_complete))
}

#[test]
fn a_cron_job_runs_on_time_whatever_goes_wrong() {
    cron_job().check();
}

/// Controllers that started with an old cache once ran a completed Job again.
#[test]
fn a_complete_job_is_not_run_again_on_an_old_state() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/traces/cron_job_on_an_old_state.json");
    let outcome = cron_job().replay(&Trace::load(file.as_ref()).unwrap());
    assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap().report);
}

#[test]
fn endpoints_follow_their_pods_whatever_goes_wrong() {
    let endpoints = |cluster: &Cluster| {
        let slices = cluster.list::<EndpointSlice>().into_iter();
        slices.map(|slice| slice.endpoints.unwrap_or_default().len()).sum::<usize>()
    };
    simulation(PodBehaviour::Ready)
        .given(workload::<ReplicaSet>(json!({"replicas": 1})))
        .given(object::<Service>(json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})))
        .then(edit::<Service>("web", |web| set(web, "/spec/ports/0/targetPort", json!(8081))))
        .eventually(move |cluster| endpoints(cluster) == 1)
        .check();
}

#[test]
fn slices_mirror_endpoints_whatever_goes_wrong() {
    let addresses = |cluster: &Cluster| {
        let slices =
            cluster.list::<EndpointSlice>().into_iter().filter(|slice| slice.name_any() != "kubernetes");
        let endpoints = slices.flat_map(|slice| slice.endpoints.unwrap_or_default());
        endpoints.flat_map(|endpoint| endpoint.addresses).collect::<Vec<_>>()
    };
    simulation(PodBehaviour::Ready)
        .given(object::<Service>(json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}})))
        .given(object::<Endpoints>(json!({"metadata": {"name": "db"},
            "subsets": [{"ports": [{"port": 80}], "addresses": [{"ip": "10.1.2.3"}]}]})))
        .then(edit::<Endpoints>("db", |db| set(db, "/subsets/0/addresses/0/ip", json!("10.2.3.4"))))
        .eventually(move |cluster| addresses(cluster) == ["10.2.3.4"])
        .check();
}
