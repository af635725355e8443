//! Tests ResourceQuota: a namespace contains no more than its quotas allow, and their status is correct.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{PODS, message, pod, start_without};
use crate::test_server::TestServer;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn start(hard: &Value, more: &Value) -> TestServer {
    let plane = start_without(&["ServiceAccount"]).await;
    let mut quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    for (field, value) in more.as_object().unwrap() {
        quota["spec"][field] = value.clone();
    }
    plane.post(QUOTAS, quota).await.expect(201);
    plane.until(&format!("{QUOTAS}/q"), |answer| answer.body["status"]["hard"] == *hard).await;
    plane
}

async fn used(plane: &TestServer) -> Value {
    plane.get(&format!("{QUOTAS}/q")).await.expect(200)["status"]["used"].clone()
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_creates_at_once_only_those_that_fit_pass() {
    // Every namespace has the ConfigMap with the certificate authority.
    let plane = start(&json!({"configmaps": "6"}), &json!({})).await;
    let creates = (0..20).map(|at| {
        let plane = plane.clone();
        tokio::spawn(async move { plane.post(CONFIG_MAPS, config_map(&format!("c{at}"))).await.code })
    });
    let codes = join_all(creates).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let count = |code: u16| codes.iter().filter(|one| **one == code).count();
    assert_eq!((count(201), count(403)), (5, 15), "{codes:?}");
    assert_eq!(used(&plane).await, json!({"configmaps": "6"}));
    let made = plane.get(CONFIG_MAPS).await.expect(200)["items"].as_array().unwrap().len();
    assert_eq!(made, 6);
}

#[tokio::test]
async fn a_refusal_says_what_is_used_and_a_deletion_frees_it() {
    let plane = start(&json!({"count/configmaps": "2"}), &json!({})).await;
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    plane.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("b")).await.expect(403);
    assert_eq!(
        message(plane.post(CONFIG_MAPS, config_map("b")).await, 403),
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, \
         limited: count/configmaps=2"
    );
    plane.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    let is_freed = |quota: &Value| quota["status"]["used"]["count/configmaps"] == "1";
    plane.until(&format!("{QUOTAS}/q"), |answer| is_freed(&answer.body)).await;
    plane.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("b")).await.expect(201);
    assert_eq!(used(&plane).await, json!({"count/configmaps": "1"}), "a dry run costs nothing");
    plane.post(CONFIG_MAPS, config_map("b")).await.expect(201);
}

#[tokio::test]
async fn pods_are_charged_for_what_they_request_and_must_say_it() {
    let plane = start(&json!({"requests.cpu": "1", "pods": "5"}), &json!({})).await;
    assert_eq!(
        message(plane.post(PODS, pod("a", &json!({}))).await, 403),
        "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    let asking = |cpu: &str| json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
    plane.post(PODS, pod("a", &asking("600m"))).await.expect(201);
    assert_eq!(used(&plane).await, json!({"pods": "1", "requests.cpu": "600m"}));
    assert_eq!(
        message(plane.post(PODS, pod("b", &asking("0.5"))).await, 403),
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, \
         limited: requests.cpu=1"
    );
    let ended = json!({"status": {"phase": "Succeeded"}});
    plane.patch(&format!("{PODS}/a/status"), crate::test_server::MERGE, ended).await.expect(200);
    let is_freed = |quota: &Value| quota["status"]["used"]["pods"] == "0";
    plane.until(&format!("{QUOTAS}/q"), |answer| is_freed(&answer.body)).await;
}

#[tokio::test]
async fn scopes_limit_what_a_quota_is_about() {
    let plane = start(&json!({"pods": "0"}), &json!({"scopes": ["BestEffort"]})).await;
    plane.post(PODS, pod("idle", &json!({}))).await.expect(403);
    let busy = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]});
    plane.post(PODS, pod("busy", &busy)).await.expect(201);
}

#[tokio::test]
async fn services_are_charged_for_their_node_ports_when_they_change() {
    let plane = start(&json!({"services.nodeports": "1"}), &json!({})).await;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
    plane.post(services, service).await.expect(201);
    let change = json!({"spec": {"type": "NodePort"}});
    let refused = plane.patch(&format!("{services}/s"), crate::test_server::MERGE, change).await;
    assert_eq!(
        message(refused, 403),
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
         limited: services.nodeports=1"
    );
}

#[tokio::test]
async fn a_status_that_somebody_writes_is_corrected() {
    let plane = start(&json!({"count/configmaps": "5"}), &json!({})).await;
    let before = used(&plane).await;
    let wrong = json!({"status": {"used": {"count/configmaps": "4"}}});
    plane.patch(&format!("{QUOTAS}/q/status"), crate::test_server::MERGE, wrong).await.expect(200);
    plane.until(&format!("{QUOTAS}/q"), |answer| answer.body["status"]["used"] == before).await;
}

/// Every write is checked against every quota, and changes those that it is charged to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_namespace_has_few_and_small_quotas() {
    let plane = start_without(&["ServiceAccount"]).await;
    let quota = |name: String, hard: Value| json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    let large: Value =
        (0..20_000).map(|at| (format!("requests.example.com/resource-{at}"), json!("1"))).collect();
    let refused = message(plane.post(QUOTAS, quota("large".to_owned(), large)).await, 403);
    assert!(refused.ends_with("the quotas of a namespace may have at most 512 KiB together"), "{refused}");
    let creates = (0..100).map(|at| {
        let (plane, quota) = (plane.clone(), quota(format!("q{at}"), json!({"configmaps": "9"})));
        tokio::spawn(async move { plane.post(QUOTAS, quota).await })
    });
    let answers = join_all(creates).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(answers.iter().filter(|answer| answer.code == 201).count(), 64);
    let refused = message(answers.into_iter().find(|answer| answer.code != 201).unwrap(), 403);
    assert!(refused.ends_with("a namespace may have at most 64 quotas"), "{refused}");
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let all = plane.get(QUOTAS).await.expect(200);
    let is_charged = |quota: &Value| quota["status"]["used"]["configmaps"] == "2";
    assert!(all["items"].as_array().unwrap().iter().all(is_charged), "{all}");
}

/// A count parses all Pods in the namespace. The administrator's namespace must not wait for it.
#[tokio::test]
async fn a_long_count_does_not_delay_other_background_work() {
    let plane = start(&json!({"pods": "1k", "requests.cpu": "1k"}), &json!({})).await;
    let env = json!([{"name": "A", "value": "x".repeat(300_000)}]);
    let large = json!({"containers": [{"name": "c", "image": "i", "env": env, "resources": {"requests": {"cpu": "1"}}}]});
    for at in 0..40 {
        plane.post(PODS, pod(&format!("p{at}"), &large)).await.expect(201);
    }
    let wrong = json!({"status": {"used": {"pods": "7"}}});
    let media = "application/merge-patch+json";
    plane.patch(&format!("{QUOTAS}/q/status"), media, wrong).await.expect(200);
    let mut accounts = plane.watch("/api/v1/namespaces/other/serviceaccounts?watch=1").await;
    plane.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.expect(201);
    assert_eq!(accounts.names(1).await, ["ADDED default"]);
    assert_eq!(used(&plane).await["pods"], "7", "the count goes on");
    plane.until(&format!("{QUOTAS}/q"), |answer| answer.body["status"]["used"]["pods"] == "40").await;
}
