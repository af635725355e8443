//! The building blocks of tests: they repeat exactly, report what went wrong and where, and inject exactly the faults
//! that they claim.

use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat::kube::api::{ListParams, PostParams};
use homeostat::kube::{self, Api};
use homeostat::prelude::*;
use homeostat::testing::{Cluster, Faults, InjectedFault, RequestVerb};
use serde_json::json;

/// Far beyond every timeout of a client.
const LONG: Duration = Duration::from_secs(3600);

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// Every ConfigMap without `copy-` in its name gets a copy with a random name; the first attempt fails.
fn copier() -> Operator {
    let maps = Controller::<ConfigMap>::new().labels("copy").reconcile(|map, cx| async move {
        let mut copy = ConfigMap::default();
        copy.metadata.name = Some(format!("copy-{}", map.name_any()));
        copy.data.clone_from(&map.data);
        cx.apply(copy).await?;
        Ok(Action::requeue(Duration::from_secs(60)))
    });
    Operator::new("copies.demo.dev").control(maps)
}

/// A run with retries, requeues and random names.
async fn run(seed: u64) -> (Vec<String>, Vec<ConfigMap>) {
    let cluster = Cluster::builder().seed(seed).start().await;
    let operator = cluster.run(copier());
    cluster.faults().fail_next::<ConfigMap>(RequestVerb::Patch, 4, InjectedFault::Refuse(503, "not yet"));
    for _ in 0..3 {
        let object = json!({"metadata": {"generateName": "x-", "labels": {"copy": "yes"}}});
        cluster.create_json::<ConfigMap>(object).await;
    }
    cluster.pass(LONG).await;
    assert_eq!(cluster.faults().pending(), 0);
    let records = operator.records().iter().map(|record| format!("{record:?}")).collect();
    (records, cluster.list().await)
}

/// Runs it in its own runtime, like a separate test.
fn run_alone(seed: u64) -> (Vec<String>, Vec<ConfigMap>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(run(seed))
}

#[test]
fn a_run_repeats_exactly() {
    let first = run_alone(1);
    assert!(first.0.len() > 100, "the run is long enough: {}", first.0.len());
    for _ in 0..5 {
        assert_eq!(run_alone(1), first);
    }
    assert_ne!(run_alone(2).1, first.1, "another seed gives other names");
}

#[tokio::test]
#[should_panic(expected = "write #[tokio::test(start_paused = true)]")]
async fn real_time_is_refused() {
    Cluster::start().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "it/testing.rs:")]
async fn a_refused_request_is_reported_with_the_line_of_the_caller() {
    let cluster = Cluster::start().await;
    cluster.get::<ConfigMap>("nothing").await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the cluster does not settle")]
async fn an_operator_that_never_rests_is_reported() {
    let cluster = Cluster::start().await;
    let writes = AtomicUsize::new(0);
    let restless = Controller::<ConfigMap>::new().labels("copy").reconcile(move |map, cx| {
        let number = writes.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut copy = ConfigMap::default();
            copy.metadata.name = Some(format!("copy-{}", map.name_any()));
            copy.data = Some([("number".to_owned(), number.to_string())].into());
            cx.apply(copy).await?;
            Ok(Action::requeue(Duration::from_millis(100)))
        }
    });
    cluster.run(Operator::new("restless.demo.dev").control(restless));
    cluster.create_json::<ConfigMap>(json!({"metadata": {"name": "a", "labels": {"copy": ""}}})).await;
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "an operator has ended by itself")]
async fn an_operator_that_ends_is_reported() {
    let cluster = Cluster::start().await;
    let twice = Operator::new("twice.demo.dev")
        .control(Controller::<ConfigMap>::new().reconcile(|_, _| async { Ok(Action::await_change()) }));
    let twice =
        twice.control(Controller::<ConfigMap>::new().reconcile(|_, _| async { Ok(Action::await_change()) }));
    cluster.run(twice);
    cluster.settle().await;
}

/// Creates a ConfigMap through a fault. Returns the response to the client (`None` if there was none) and whether it
/// was created.
async fn create_through(fault: InjectedFault) -> (Option<kube::Result<ConfigMap>>, bool) {
    let cluster = Cluster::start().await;
    let faults = Faults::default();
    faults.fail_next::<ConfigMap>(RequestVerb::Create, 1, fault);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client_through(&faults));
    let (params, object) = (PostParams::default(), map("a"));
    let heard = tokio::time::timeout(LONG, maps.create(&params, &object)).await.ok();
    assert_eq!(faults.pending(), 0);
    (heard, cluster.get_opt::<ConfigMap>("a").await.is_some())
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_what_it_claims() {
    let (heard, is_made) = create_through(InjectedFault::Refuse(409, "taken")).await;
    let Some(Err(kube::Error::Api(status))) = heard else { panic!("{heard:?}") };
    assert_eq!((status.code, &*status.reason, &*status.message, is_made), (409, "Conflict", "taken", false));
    let (heard, is_made) = create_through(InjectedFault::Unreachable).await;
    assert!(matches!(heard, Some(Err(kube::Error::Service(_)))) && !is_made, "{heard:?}");
    let answer = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lie"}}"#;
    let (heard, is_made) = create_through(InjectedFault::Answer(answer)).await;
    assert!(heard.unwrap().unwrap().name_any() == "lie" && !is_made);
    let (heard, is_made) = create_through(InjectedFault::Late).await;
    assert!(heard.unwrap().is_ok() && is_made);
    for fault in [InjectedFault::Stall(201), InjectedFault::Hang] {
        let (heard, is_made) = create_through(fault).await;
        assert!(heard.is_none() && !is_made, "{fault:?}: {heard:?}");
    }
    let (heard, is_made) = create_through(InjectedFault::Lost).await;
    assert!(heard.is_none() && is_made, "carried out and never answered: {heard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_operator_ends_cleanly_and_a_killed_one_does_not() {
    let cluster = Cluster::start().await;
    let (stopped, killed) = (cluster.run(copier()), cluster.run(copier()));
    cluster.settle().await;
    assert_eq!(stopped.stop().await, Ok(()));
    assert!(stopped.has_ended() && !killed.has_ended());
    killed.kill();
    assert_eq!(killed.stop().await, Err("the operator was killed, or panicked".to_owned()));
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
async fn names_are_in_the_default_namespace_unless_another_is_named() {
    use homeostat::k8s_openapi::api::core::v1::Namespace;
    let cluster = Cluster::start().await;
    cluster.create_json::<Namespace>(json!({"metadata": {"name": "shop"}})).await;
    let mut there = map("a");
    there.metadata.namespace = Some("shop".to_owned());
    cluster.create(there).await;
    assert!(cluster.get_opt::<ConfigMap>("a").await.is_none());
    cluster.patch::<ConfigMap>(("shop", "a"), json!({"data": {"k": "v"}})).await;
    assert_eq!(cluster.get::<ConfigMap>(("shop", "a")).await.data.unwrap()["k"], "v");
    let all = Api::<ConfigMap>::all(cluster.client()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(cluster.list::<ConfigMap>().await, all);
    cluster.delete::<ConfigMap>(("shop", "a")).await;
    assert!(cluster.get_opt::<ConfigMap>(("shop", "a")).await.is_none());
}
