//! Tests the life of one object: created, read, changed under optimistic concurrency, deleted with preconditions and
//! finalizers.

use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{JSON_PATCH, MERGE, STRATEGIC, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"key": value}})
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_new_object_gets_its_identity_from_the_server() {
    let plane = TestServer::start().await;
    let sent = json!({"metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z",
        "resourceVersion": "", "generation": 7}, "data": {"key": "1"}});
    let made = plane.post(MAPS, sent).await.expect(201);
    let metadata = &made["metadata"];
    assert_eq!((&made["apiVersion"], &made["kind"]), (&json!("v1"), &json!("ConfigMap")));
    assert_eq!(metadata["namespace"], "default");
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert!(version(&made) > 0);
    assert_eq!(plane.get(&format!("{MAPS}/a")).await.expect(200), made);
    let again = plane.post(MAPS, map("a", "2")).await.expect(409);
    assert_eq!(again["reason"], "AlreadyExists");
    assert_eq!(again["message"], "configmaps \"a\" already exists");
}

#[tokio::test]
async fn generated_names_differ() {
    let plane = TestServer::start().await;
    let body = json!({"metadata": {"generateName": "x-"}});
    let one = plane.post(MAPS, body.clone()).await.expect(201);
    let two = plane.post(MAPS, body).await.expect(201);
    let (one, two) = (one["metadata"]["name"].clone(), two["metadata"]["name"].clone());
    assert_ne!(one, two);
    assert!(one.as_str().unwrap().starts_with("x-") && one.as_str().unwrap().len() == 7, "{one}");
}

#[tokio::test]
async fn a_stale_update_is_refused_and_changes_nothing() {
    let plane = TestServer::start().await;
    let first = plane.post(MAPS, map("a", "1")).await.expect(201);
    let path = format!("{MAPS}/a");
    let mut change = first.clone();
    change["data"]["key"] = json!("2");
    let second = plane.put(&path, change.clone()).await.expect(200);
    assert!(version(&second) > version(&first));
    let refused = plane.put(&path, change).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    assert!(refused["message"].as_str().unwrap().contains("the object has been modified"), "{refused}");
    assert_eq!(plane.get(&path).await.expect(200), second);
    // Without a version, the last writer wins.
    plane.put(&path, map("a", "3")).await.expect(200);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let plane = TestServer::start().await;
    let made = plane.post(MAPS, map("a", "1")).await.expect(201);
    let path = format!("{MAPS}/a");
    let same = plane.put(&path, made.clone()).await.expect(200);
    assert_eq!(version(&same), version(&made));
    let patched = plane.patch(&path, MERGE, json!({"data": {"key": "1"}})).await.expect(200);
    assert_eq!(version(&patched), version(&made));
}

#[tokio::test]
async fn parallel_updates_of_one_version_have_one_winner() {
    let plane = TestServer::start().await;
    let made = plane.post(MAPS, map("a", "0")).await.expect(201);
    let path = format!("{MAPS}/a");
    let updates = (0..20).map(|at| {
        let mut change = made.clone();
        change["data"]["key"] = json!(format!("winner {at}"));
        plane.put(&path, change)
    });
    let answers = futures::future::join_all(updates).await;
    assert_eq!(answers.iter().filter(|answer| answer.code == 200).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.code == 409).count(), 19);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_updates_without_a_version_all_succeed() {
    let plane = TestServer::start().await;
    plane.post(MAPS, map("a", "0")).await.expect(201);
    let path = format!("{MAPS}/a");
    for round in 0..20 {
        let values: Vec<String> = (0..16).map(|at| format!("{round}-{at}")).collect();
        let puts = values.iter().map(|value| {
            let (plane, path, body) = (plane.clone(), path.clone(), map("a", value));
            tokio::spawn(async move { plane.put(&path, body).await.expect(200) })
        });
        let answers = futures::future::try_join_all(puts).await.unwrap();
        for (value, answer) in values.iter().zip(&answers) {
            assert_eq!(answer["data"]["key"], **value, "each answer shows its own write");
        }
        let last = answers.iter().max_by_key(|answer| version(answer)).unwrap();
        assert_eq!(plane.get(&path).await.expect(200), *last);
    }
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_only() {
    let plane = TestServer::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let body = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let made = plane.post(path, body).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["replicas"], 1, "defaults are filled in");
    let path = &format!("{path}/d");
    let labelled = plane.patch(path, MERGE, json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    let scaled = plane.patch(path, MERGE, json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!(scaled["metadata"]["generation"], 2);
    let status = json!({"status": {"replicas": 3}, "spec": {"replicas": 9}});
    let reported = plane.patch(&format!("{path}/status"), MERGE, status).await.expect(200);
    assert_eq!(reported["metadata"]["generation"], 2);
    assert_eq!((&reported["spec"]["replicas"], &reported["status"]["replicas"]), (&json!(3), &json!(3)));
    let ignored = plane.patch(path, MERGE, json!({"status": {"replicas": 7}})).await.expect(200);
    assert_eq!(ignored["status"]["replicas"], 3, "the main resource does not write status");
}

#[tokio::test]
async fn deletion_checks_its_preconditions() {
    let plane = TestServer::start().await;
    let made = plane.post(MAPS, map("a", "1")).await.expect(201);
    let path = format!("{MAPS}/a");
    let with = |field: &str, value: &Value| json!({"preconditions": {field: value}});
    plane.ask("DELETE", &path, with("uid", &json!("other"))).await.expect(409);
    plane.ask("DELETE", &path, with("resourceVersion", &json!("1"))).await.expect(409);
    let gone = plane.ask("DELETE", &path, with("uid", &made["metadata"]["uid"])).await.expect(200);
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(plane.get(&path).await.expect(404)["message"], "configmaps \"a\" not found");
}

#[tokio::test]
async fn a_finalizer_keeps_an_object_until_it_is_removed() {
    let plane = TestServer::start().await;
    let path = format!("{MAPS}/a");
    let body = json!({"metadata": {"name": "a", "finalizers": ["demo.dev/one", "demo.dev/two"]}});
    plane.post(MAPS, body).await.expect(201);
    let dying = plane.delete(&path).await.expect(200);
    assert!(dying["metadata"]["deletionTimestamp"].is_string(), "{dying}");
    let more = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "demo.dev/late"}]);
    let refused = plane.patch(&path, JSON_PATCH, more).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("no new finalizers can be added"), "{refused}");
    let fewer = json!({"metadata": {"finalizers": ["demo.dev/two"]}});
    plane.patch(&path, MERGE, fewer).await.expect(200);
    plane.get(&path).await.expect(200);
    plane.patch(&path, MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    plane.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_dry_run_answers_like_a_write_and_stores_nothing() {
    let plane = TestServer::start().await;
    let before = version(&plane.get(MAPS).await.expect(200));
    plane.post(&format!("{MAPS}?dryRun=All"), map("a", "1")).await.expect(201);
    plane.get(&format!("{MAPS}/a")).await.expect(404);
    plane.post(MAPS, map("a", "1")).await.expect(201);
    plane.delete(&format!("{MAPS}/a?dryRun=All")).await.expect(200);
    plane.patch(&format!("{MAPS}/a?dryRun=All"), MERGE, json!({"data": {"key": "2"}})).await.expect(200);
    let map = plane.get(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(map["data"]["key"], "1");
    assert_eq!(version(&map), before + 1);
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_of_or_ignored() {
    let plane = TestServer::start().await;
    let body = json!({"metadata": {"name": "a"}, "dta": {}});
    let strict = plane.post(&format!("{MAPS}?fieldValidation=Strict"), body.clone()).await.expect(400);
    assert!(strict["message"].as_str().unwrap().contains("unknown field \"dta\""), "{strict}");
    let warned = plane.post(&format!("{MAPS}?fieldValidation=Warn&dryRun=All"), body.clone()).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"dta\\\"\"");
    let refused = json!({"metadata": {"name": "BAD_"}, "dta": {}});
    let refused = plane.post(&format!("{MAPS}?fieldValidation=Warn"), refused).await;
    assert_eq!(refused.headers["warning"], warned.headers["warning"], "a refusal has the same warnings");
    refused.expect(422);
    let ignored = plane.post(&format!("{MAPS}?fieldValidation=Ignore"), body).await;
    assert!(ignored.headers.get("warning").is_none());
    assert!(ignored.expect(201).get("dta").is_none());
}

#[tokio::test]
async fn bodies_of_wrong_types_are_refused() {
    let plane = TestServer::start().await;
    plane.post(MAPS, map("a", "1")).await.expect(201);
    let refused =
        plane.ask("DELETE", &format!("{MAPS}/a"), json!({"gracePeriodSeconds": "x"})).await.expect(400);
    let expected =
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64";
    assert!(refused["message"].as_str().unwrap().ends_with(expected), "{refused}");
    for body in
        [json!({"kind": 1, "metadata": {"name": "b"}}), json!({"apiVersion": [], "metadata": {"name": "b"}})]
    {
        let refused = plane.post(MAPS, body).await.expect(400);
        assert!(refused["message"].as_str().unwrap().contains("couldn't get version/kind"), "{refused}");
    }
    let list = plane.get(MAPS).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "a and the root CA: nothing was lost or made");
}

#[tokio::test]
async fn a_writer_of_string_data_owns_the_resulting_data() {
    let plane = TestServer::start().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"user": "me"}});
    let made = plane.post(secrets, body.clone()).await.expect(201);
    assert_eq!(made["data"], json!({"user": "bWU="}));
    let fields = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(fields["f:data"], json!({".": {}, "f:user": {}}), "{fields}");
    assert!(fields.get("f:stringData").is_none());
    let path = format!("{secrets}/s?fieldManager=other");
    plane.raw("PATCH", &path, crate::test_server::APPLY, &body.to_string()).await.expect(200);
}

#[tokio::test]
async fn a_scale_is_a_whole_number_or_refused() {
    let plane = TestServer::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let body = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    plane.post(path, body).await.expect(201);
    let scale = format!("{path}/d/scale");
    for wrong in [json!("x"), json!(1.5), json!([]), json!(3_000_000_000_u64)] {
        let change = json!({"spec": {"replicas": wrong}});
        let refused = plane.patch(&scale, MERGE, change.clone()).await;
        assert!(matches!(refused.code, 400 | 422), "{change}: {}", refused.body);
        let mut whole = plane.get(&scale).await.expect(200);
        whole["spec"] = change["spec"].clone();
        plane.put(&scale, whole).await.expect(400);
    }
    assert_eq!(plane.get(&scale).await.expect(200)["spec"]["replicas"], 3);
    plane.patch(&scale, MERGE, json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!(plane.get(&scale).await.expect(200)["spec"]["replicas"], 5);
}

#[tokio::test]
async fn a_binding_binds_the_pod_of_its_name() {
    let plane = TestServer::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    plane.post(pods, pod).await.expect(201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    plane.post("/api/v1/namespaces/default/bindings", binding).await.expect(201);
    assert_eq!(plane.get(&format!("{pods}/p")).await.expect(200)["spec"]["nodeName"], "n");
}

#[tokio::test]
async fn an_eviction_names_its_pod_or_none() {
    let plane = TestServer::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    plane.post(pods, pod).await.expect(201);
    let eviction = |name: &str| json!({"metadata": {"name": name}});
    let path = format!("{pods}/p/eviction");
    let refused = plane.post(&path, eviction("other")).await.expect(400);
    assert_eq!(refused["message"], "name in URL does not match name in Eviction object");
    plane.get(&format!("{pods}/p")).await.expect(200);
    plane.post(&path, eviction("p")).await.expect(201);
}

#[tokio::test]
async fn a_pod_is_resized_within_its_class_and_generation_counts_it() {
    let plane = TestServer::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let wish =
        |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    plane.post(pods, pod).await.expect(201);
    let resize = format!("{pods}/p/resize");
    let resized = plane.patch(&resize, STRATEGIC, wish("2")).await.expect(200);
    assert_eq!(resized["metadata"]["generation"], 2);
    let bare = json!({"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    plane.post(pods, bare).await.expect(201);
    let refused = plane.patch(&format!("{pods}/bare/resize"), STRATEGIC, wish("1")).await.expect(422);
    let said = refused["message"].as_str().unwrap();
    assert!(said.contains("Pod QOS Class may not change as a result of resizing"), "{said}");
}

#[tokio::test]
async fn a_collection_is_deleted_no_further_than_its_limit() {
    let plane = TestServer::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b", "c"] {
        plane.post(maps, json!({"metadata": {"name": name, "labels": {"of": "three"}}})).await.expect(201);
    }
    plane.delete(&format!("{maps}?labelSelector=of%3Dthree&limit=2")).await.expect(200);
    let left = plane.get(&format!("{maps}?labelSelector=of%3Dthree")).await.expect(200);
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn no_grace_period_overflows() {
    let plane = TestServer::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, grace: i64| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "c", "image": "i"}]}})
    };
    for (name, grace, asked) in
        [("own", i64::MAX, json!({})), ("asked", 30, json!({"gracePeriodSeconds": i64::MAX}))]
    {
        plane.post(pods, pod(name, grace)).await.expect(201);
        let path = format!("{pods}/{name}");
        let dying = plane.ask("DELETE", &path, asked).await.expect(200);
        assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], i64::MAX);
        assert_eq!(dying["metadata"]["deletionTimestamp"], "9999-12-30T22:00:00Z");
        let sooner = plane.delete(&format!("{path}?gracePeriodSeconds=5")).await.expect(200);
        assert!(sooner["metadata"]["deletionTimestamp"].as_str() < Some("2999"), "{sooner}");
        plane.delete(&format!("{path}?gracePeriodSeconds=0")).await.expect(200);
        plane.get(&path).await.expect(404);
    }
    plane.post(pods, pod("hurried", 30)).await.expect(201);
    let dying = plane.delete(&format!("{pods}/hurried?gracePeriodSeconds=-3")).await.expect(200);
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 1, "less than nothing is one second");
}

#[tokio::test]
async fn no_number_a_client_can_write_stops_the_server() {
    let plane = TestServer::start().await;
    let events = plane.watch(&format!("{MAPS}?watch=1&timeoutSeconds={}", i64::MAX)).await;
    drop(events);
    let huge = json!({"metadata": {"name": "g", "generation": i64::MAX, "finalizers": ["demo.dev/x"]}});
    plane.post(MAPS, huge).await.expect(201);
    plane.delete(&format!("{MAPS}/g")).await.expect(200);
    let set = json!({"metadata": {"name": "d",
        "annotations": {"deprecated.daemonset.template.generation": i64::MAX.to_string()}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1e2147483647"}}}]}}}});
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    plane.post(sets, set).await.expect(201);
    let other = json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}});
    plane.patch(&format!("{sets}/d"), MERGE, other).await.expect(200);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    plane.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    let log = format!("/api/v1/namespaces/default/pods/p/log?sinceSeconds={}", i64::MAX);
    assert!(plane.get(&log).await.code < 500);
}

#[tokio::test]
async fn a_connection_into_a_pod_names_a_container_of_it() {
    let plane = TestServer::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let container = |name: &str| json!({"name": name, "image": "i"});
    let pod = |name: &str, containers: Value| json!({"metadata": {"name": name}, "spec": {"initContainers": [container("before")], "containers": containers}});
    plane.post(pods, pod("one", json!([container("main")]))).await.expect(201);
    plane.post(pods, pod("two", json!([container("a"), container("b")]))).await.expect(201);
    let check = async |path: &str, expected: &str| {
        let refused = plane.get(&format!("{pods}/{path}")).await.expect(400);
        assert_eq!(refused["message"], expected, "{path}");
    };
    let choose = "a container name must be specified for pod two, choose one of: [before a b]";
    check("two/log", choose).await;
    check("two/exec?command=ls", choose).await;
    check("one/log?container=c", "container c is not valid for pod one").await;
    check("one/attach?container=c", "container c is not valid for pod one").await;
    check("one/exec?command=ls", "pod one does not have a host assigned").await;
    check("two/portforward", "pod two does not have a host assigned").await;
    plane.get(&format!("{pods}/one/log")).await.expect(200);
    plane.get(&format!("{pods}/none/exec")).await.expect(404);
}

#[tokio::test]
async fn duplicate_owners_are_merged() {
    let plane = TestServer::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "u-1"});
    let mut body = map("a", "1");
    body["metadata"]["ownerReferences"] = json!([owner, other, owner]);
    let path = format!("{MAPS}/a?dryRun=All");
    let made = plane.ask("POST", &format!("{MAPS}?dryRun=All"), body.clone()).await;
    let warning = made.headers["warning"].to_str().unwrap().to_owned();
    assert!(
        warning.contains("duplicate entries; API server") && warning.ends_with("observed: u-1\""),
        "{warning}"
    );
    assert_eq!(made.expect(201)["metadata"]["ownerReferences"], json!([owner, other]));
    plane.post(MAPS, map("a", "1")).await.expect(201);
    let put = plane.put(&path, body.clone()).await.expect(200);
    assert_eq!(put["metadata"]["ownerReferences"], json!([owner, other]));
    let change = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]}]);
    let patched = plane.patch(&path, JSON_PATCH, change).await;
    assert!(patched.headers["warning"].to_str().unwrap().contains("after mutating admission"));
    assert_eq!(patched.expect(200)["metadata"]["ownerReferences"], json!([owner]));
}

#[tokio::test]
async fn a_timeout_must_be_a_duration() {
    let plane = TestServer::start().await;
    plane.get(&format!("{MAPS}?timeout=1s")).await.expect(200);
    let refused = plane.get(&format!("{MAPS}?timeout=soon")).await.expect(400);
    assert_eq!(
        refused["message"],
        "invalid timeout specified in the request URL - time: invalid duration \"soon\""
    );
}

#[tokio::test]
async fn an_object_cannot_be_watched_by_its_own_path() {
    let plane = TestServer::start().await;
    plane.post(MAPS, map("a", "1")).await.expect(201);
    assert_eq!(plane.get(&format!("{MAPS}/a?watch=1")).await.expect(200)["kind"], "ConfigMap");
    let mut events = plane.watch("/api/v1/watch/namespaces/default/configmaps/a").await;
    assert_eq!(events.next().await.unwrap()["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn orphan_dependents_false_reports_that_the_object_is_kept() {
    let plane = TestServer::start().await;
    let mut body = map("a", "1");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    plane.post(MAPS, body).await.expect(201);
    let path = format!("{MAPS}/a");
    plane.ask("DELETE", &path, json!({"orphanDependents": false})).await.expect(202);
    plane.delete(&path).await.expect(200);
}

/// The work per mistake must not grow with their number: a request contains at most 3 MB of them.
#[tokio::test]
async fn a_hundred_thousand_mistakes_are_reported_in_time() {
    let plane = TestServer::start().await;
    let mut unknown = map("a", "1");
    for at in 0..100_000 {
        unknown[format!("f{at}")] = json!(1);
    }
    let began = ProcessorTime::start();
    let made = plane.ask("POST", &format!("{MAPS}?dryRun=All"), unknown).await;
    let warning_bytes: usize = made.headers.get_all("warning").iter().map(http::HeaderValue::len).sum();
    assert!((1000..8 * 1024).contains(&warning_bytes), "{warning_bytes} bytes of warnings");
    made.expect(201);
    let labels: serde_json::Map<String, Value> =
        (0..100_000).map(|at| (format!("bad label {at}"), json!("x"))).collect();
    let refused = plane.post(MAPS, json!({"metadata": {"name": "a", "labels": labels}})).await.expect(422);
    let causes = refused["details"]["causes"].as_array().unwrap().len();
    assert!(causes <= 1001, "{causes} causes");
    assert!(refused["message"].as_str().unwrap().contains("more"), "omitted mistakes are counted");
    // This takes some seconds in a debug build on a busy machine; if the work grew quadratically, it would take hours.
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}
