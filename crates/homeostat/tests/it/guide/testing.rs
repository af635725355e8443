//! The Rust of the page on testing. These are tests and run as such.

use homeostat::prelude::*;
use homeostat::testing::{Cluster, Faults, InjectedFault, RequestVerb};
use serde_json::json;

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced)]
struct PageSpec {
    text: String,
}

fn page(name: &str, text: &str) -> Page {
    Page::new(name, PageSpec { text: text.to_owned() })
}

fn operator() -> Operator {
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(|page, cx| async move {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(page.name_any());
        map.data = Some([("text".to_owned(), page.spec.text.clone())].into());
        cx.apply(map).await?;
        Ok(Action::await_change())
    });
    Operator::new("pages.demo.dev").crd::<Page>().control(pages)
}

fn text(map: &ConfigMap) -> &str {
    &map.data.as_ref().unwrap()["text"]
}

#[tokio::test(start_paused = true)]
async fn a_page_gets_its_config_map() {
    let cluster = Cluster::start().await; // in memory, virtual time
    let operator = cluster.run(operator());
    cluster.settle().await; // until nothing has anything to do
    cluster.create(page("home", "hello")).await;
    cluster.settle().await;
    assert_eq!(text(&cluster.get("home").await), "hello");

    cluster.patch::<ConfigMap>("home", json!({"data": {"text": "spoilt"}})).await;
    cluster.settle().await;
    assert_eq!(text(&cluster.get("home").await), "hello", "put right");

    let mark = operator.mark();
    cluster.pass(Duration::from_secs(24 * 3600)).await; // takes no time
    operator.since(mark).expect_no_writes();

    cluster.delete::<Page>("home").await;
    cluster.settle().await;
    assert!(cluster.get_opt::<ConfigMap>("home").await.is_none(), "gone with its owner");
}

#[tokio::test(start_paused = true)]
async fn writes_that_fail_are_made_up_for() {
    let cluster = Cluster::start().await;
    let operator = cluster.run(operator());
    cluster.settle().await;
    let faults = cluster.faults();
    for fault in [
        InjectedFault::Refuse(500, "etcd is down"),
        InjectedFault::Refuse(409, "somebody was faster"),
        InjectedFault::Unreachable,
        InjectedFault::Lost, // done, and never answered
    ] {
        faults.fail_next::<ConfigMap>(RequestVerb::Patch, 1, fault);
    }
    cluster.create(page("home", "hello")).await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(faults.pending(), 0, "every fault has happened");
    assert_eq!(text(&cluster.get("home").await), "hello");
    let records = operator.records().about::<Page>("home");
    assert_eq!(records.failures().len(), 4, "{:#?}", records.failures());
    assert_eq!(records.writes(), ["apply configmaps/default/home"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_missed_while_the_watch_is_down() {
    let cluster = Cluster::start().await;
    cluster.run(operator());
    cluster.create(page("home", "hello")).await;
    cluster.settle().await;
    cluster.faults().set(|_| Some(InjectedFault::Unreachable));
    cluster.faults().cut(); // open watches break off
    cluster.patch::<Page>("home", json!({"spec": {"text": "changed"}})).await;
    cluster.forget_history().await; // only a list can close the gap
    cluster.pass(Duration::from_secs(60)).await;
    cluster.faults().clear();
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(text(&cluster.get("home").await), "changed");
}

#[tokio::test(start_paused = true)]
async fn a_second_replica_takes_over() {
    let cluster = Cluster::start().await;
    let alone = Faults::default();
    let first = cluster.run_through(&alone, operator().leader_election());
    cluster.pass(Duration::from_secs(60)).await;
    let second = cluster.run(operator().leader_election());
    cluster.create(page("home", "hello")).await;
    cluster.settle().await;
    assert_eq!(first.records().writes(), ["apply configmaps/default/home"]);
    second.records().expect_no_writes();
    let mark = first.mark();
    alone.set(|_| Some(InjectedFault::Unreachable)); // only the first is cut off
    cluster.pass(Duration::from_secs(60)).await;
    cluster.patch::<Page>("home", json!({"spec": {"text": "changed"}})).await;
    cluster.settle().await;
    assert_eq!(text(&cluster.get("home").await), "changed", "by the second");
    first.since(mark).expect_no_writes();
}

#[tokio::test(start_paused = true)]
async fn many_tests_begin_where_one_was() {
    let cluster = Cluster::start().await;
    cluster.run(operator());
    cluster.create(page("home", "hello")).await;
    cluster.settle().await;
    let snapshot = cluster.snapshot();
    let other = Cluster::builder().snapshot(&snapshot).start().await;
    other.delete::<ConfigMap>("home").await; // nobody runs here yet
    assert!(other.get_opt::<ConfigMap>("home").await.is_none());
    assert!(cluster.get_opt::<ConfigMap>("home").await.is_some());
    other.run(operator());
    other.settle().await;
    assert!(other.get_opt::<ConfigMap>("home").await.is_some());
}

#[test]
fn a_log_can_be_had() {
    let log = tracing_subscriber::fmt().with_env_filter("homeostat_runtime=debug,info");
    let _ = log.with_test_writer().try_init();
    let most = tracing_subscriber::filter::LevelFilter::current();
    assert_eq!(most, tracing_subscriber::filter::LevelFilter::DEBUG);
}
