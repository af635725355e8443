//! Tests lists and watches: selectors, pages of one snapshot, resource versions, and streams without gaps.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::body::Body;
use homeostat_core::Clock;
use homeostat_store::{Limits, Memory};
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

const MAPS: &str = "/api/v1/namespaces/lists/configmaps";

/// Starts a server with `count` objects `m00`, `m01`, …, every second one labelled `even`.
async fn filled(count: usize) -> TestServer {
    let plane = TestServer::start().await;
    plane.post("/api/v1/namespaces", json!({"metadata": {"name": "lists"}})).await.expect(201);
    plane.until(&format!("{MAPS}/kube-root-ca.crt"), |answer| answer.code == 200).await;
    for at in 0..count {
        let parity = if at % 2 == 0 { "even" } else { "odd" };
        let labels = json!({"parity": parity});
        let body = json!({"metadata": {"name": format!("m{at:02}"), "labels": labels}});
        plane.post(MAPS, body).await.expect(201);
    }
    plane
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .filter(|name| name.starts_with('m'))
        .collect()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn an_unread_list_knows_its_outdated_bytes_and_large_objects_arrive_complete() {
    const LARGE: usize = 300_000;
    let plane = filled(3).await;
    let object =
        |name: &str, letter: &str| json!({"metadata": {"name": name}, "data": {"a": letter.repeat(LARGE)}});
    for name in ["large-a", "large-b"] {
        plane.post(MAPS, object(name, "a")).await.expect(201);
    }
    let Body::List(mut pieces, kept) = plane.unread(MAPS).await else {
        panic!("it is made while it is sent")
    };
    assert_eq!(kept.outdated_bytes(), 0, "all it keeps is stored");
    plane.ask("PUT", &format!("{MAPS}/large-a"), object("large-a", "b")).await.expect(200);
    plane.ask("DELETE", &format!("{MAPS}/large-b"), Value::Null).await.expect(200);
    assert!((2 * LARGE..2 * LARGE + 5000).contains(&kept.outdated_bytes()), "{}", kept.outdated_bytes());
    let mut read = Vec::new();
    while let Some(piece) = pieces.next().await {
        assert!(piece.len() < LARGE, "a piece of {} bytes", piece.len());
        read.extend_from_slice(&piece);
    }
    assert_eq!(kept.outdated_bytes(), 0);
    let list: Value = serde_json::from_slice(&read).unwrap();
    assert_eq!(names(&list), ["m00", "m01", "m02"]);
    let large =
        list["items"].as_array().unwrap().iter().filter(|item| item["data"]["a"] == "a".repeat(LARGE));
    assert_eq!(large.count(), 2, "both as they were");
}

#[tokio::test]
async fn selectors_select_objects() {
    let plane = filled(4).await;
    let check = async |query: &str, expected: &[&str]| {
        let list = plane.get(&format!("{MAPS}?{query}")).await.expect(200);
        assert_eq!(names(&list), expected, "{query}");
    };
    check("", &["m00", "m01", "m02", "m03"]).await;
    check("labelSelector=parity%3Deven", &["m00", "m02"]).await;
    check("labelSelector=parity%20notin%20(even)", &["m01", "m03"]).await;
    check("labelSelector=!parity", &[]).await;
    check("fieldSelector=metadata.name%3Dm03", &["m03"]).await;
    check("fieldSelector=metadata.name!%3Dm03,metadata.namespace%3Dlists", &["m00", "m01", "m02"]).await;
    let refused = plane.get(&format!("{MAPS}?labelSelector=a%20in%20b")).await.expect(400);
    assert_eq!(refused["reason"], "BadRequest");
    plane.get(&format!("{MAPS}?fieldSelector=data.x%3D1")).await.expect(400);
}

#[tokio::test]
async fn pages_come_from_one_snapshot() {
    let plane = filled(5).await;
    let first = plane.get(&format!("{MAPS}?limit=2&labelSelector=parity")).await.expect(200);
    assert_eq!(names(&first), ["m00", "m01"]);
    plane.delete(&format!("{MAPS}/m02")).await.expect(200);
    plane.post(MAPS, json!({"metadata": {"name": "m99", "labels": {"parity": "odd"}}})).await.expect(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let next = format!("{MAPS}?limit=2&labelSelector=parity&continue={token}");
    let second = plane.get(&next).await.expect(200);
    assert_eq!(names(&second), ["m02", "m03"], "as it was when the first page was taken");
    assert_eq!(version(&second), version(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = plane.get(&format!("{MAPS}?limit=2&labelSelector=parity&continue={token}")).await.expect(200);
    assert_eq!(names(&third), ["m04"]);
    assert!(third["metadata"].get("continue").is_none());
    plane.get(&format!("{MAPS}?limit=2&continue=tampered")).await.expect(400);
}

/// Names without a namespace, some with a colon: the server once refused the continue token that it had issued.
#[tokio::test]
async fn pages_of_objects_without_a_namespace_follow_each_other() {
    let plane = TestServer::start().await;
    for path in ["/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/namespaces"] {
        let whole = plane.get(path).await.expect(200);
        let whole = whole["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone());
        let (mut paged, mut token) = (Vec::new(), String::new());
        loop {
            let page = plane.get(&format!("{path}?limit=3&continue={token}")).await.expect(200);
            let items = page["items"].as_array().unwrap();
            paged.extend(items.iter().map(|item| item["metadata"]["name"].clone()));
            match page["metadata"]["continue"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(paged, whole.collect::<Vec<_>>());
        assert!(paged.len() > 3);
    }
}

#[tokio::test]
async fn resource_versions_match_exactly_or_at_least() {
    let plane = filled(1).await;
    let old = plane.get(MAPS).await.expect(200);
    plane.delete(&format!("{MAPS}/m00")).await.expect(200);
    let at = version(&old);
    let exact = format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact");
    assert_eq!(names(&plane.get(&exact).await.expect(200)), ["m00"]);
    let newer = format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&plane.get(&newer).await.expect(200)), [""; 0]);
    plane.get(&format!("{MAPS}?resourceVersionMatch=Exact")).await.expect(422);
}

#[tokio::test]
async fn a_watch_sends_every_event_after_its_version_in_order() {
    let plane = filled(1).await;
    let from = plane.get(MAPS).await.expect(200);
    plane.post(MAPS, json!({"metadata": {"name": "m10"}})).await.expect(201);
    plane.patch(&format!("{MAPS}/m00"), MERGE, json!({"data": {"a": "b"}})).await.expect(200);
    let mut events = plane.watch(&format!("{MAPS}?watch=1&resourceVersion={}", version(&from))).await;
    plane.delete(&format!("{MAPS}/m10")).await.expect(200);
    assert_eq!(events.names(3).await, ["ADDED m10", "MODIFIED m00", "DELETED m10"]);
}

/// With many watchers, events accumulate for a moment; none must be lost, duplicated or reordered by that.
#[tokio::test]
async fn many_watches_get_every_event_in_order() {
    const WATCHES: usize = 40;
    let plane = filled(0).await;
    let from = plane.get(MAPS).await.expect(200);
    let path = format!("{MAPS}?watch=1&resourceVersion={}", version(&from));
    let mut crowd = Vec::new();
    for _ in 0..WATCHES {
        crowd.push(plane.watch(&path).await);
    }
    let first = &mut crowd[0];
    let mut told = Vec::new();
    for at in 0..20 {
        plane.post(MAPS, json!({"metadata": {"name": format!("m{at:02}")}})).await.expect(201);
        // One watch reads immediately, so pieces of all sizes are sent.
        told.extend(first.names(1).await);
    }
    let expected = (0..20).map(|at| format!("ADDED m{at:02}")).collect::<Vec<_>>();
    assert_eq!(told, expected);
    for events in &mut crowd[1..] {
        assert_eq!(events.names(20).await, expected);
    }
}

#[tokio::test]
async fn a_watch_with_a_selector_sees_objects_come_and_go() {
    let plane = filled(2).await;
    let from = plane.get(MAPS).await.expect(200);
    let path = format!("{MAPS}?watch=1&labelSelector=parity%3Deven&resourceVersion={}", version(&from));
    let mut events = plane.watch(&path).await;
    let label = |parity: &str| json!({"metadata": {"labels": {"parity": parity}}});
    plane.patch(&format!("{MAPS}/m01"), MERGE, label("even")).await.expect(200);
    plane.patch(&format!("{MAPS}/m01"), MERGE, json!({"data": {"a": "b"}})).await.expect(200);
    plane.patch(&format!("{MAPS}/m01"), MERGE, label("odd")).await.expect(200);
    plane.patch(&format!("{MAPS}/m01"), MERGE, json!({"data": {"a": "c"}})).await.expect(200);
    plane.delete(&format!("{MAPS}/m00")).await.expect(200);
    let expected = ["ADDED m01", "MODIFIED m01", "DELETED m01", "DELETED m00"];
    assert_eq!(events.names(4).await, expected);
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_bookmark() {
    let plane = filled(2).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
        &labelSelector=parity";
    let mut events = plane.watch(&format!("{MAPS}?{query}")).await;
    assert_eq!(events.names(2).await, ["ADDED m00", "ADDED m01"]);
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let annotations = &bookmark["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn a_future_revision_is_refused() {
    let plane = filled(1).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let refused = plane.get(&format!("{MAPS}?watch=1&{query}&resourceVersion=99999")).await.expect(504);
    assert_eq!(refused["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    plane.get(&format!("{MAPS}?resourceVersion=99999")).await.expect(504);
}

/// There are no writes, so the page's snapshot is still the newest one; the token is old nevertheless.
#[tokio::test(start_paused = true)]
async fn a_token_older_than_history_expires_on_an_idle_server_and_offers_another() {
    let clock = Clock::virtual_from("2024-01-01T00:00:00Z".parse().unwrap());
    let store = Arc::new(Memory::with(clock, Limits::default()));
    let plane = TestServer::start_with(ApiServer::builder(store).clock(clock)).await;
    for at in 0..5 {
        plane.post("/api/v1/nodes", json!({"metadata": {"name": format!("m{at:02}")}})).await.expect(201);
    }
    let first = plane.get("/api/v1/nodes?limit=2").await.expect(200);
    let page = async |token: &Value| {
        plane.get(&format!("/api/v1/nodes?limit=2&continue={}", token.as_str().unwrap())).await
    };
    let token = &first["metadata"]["continue"];
    // Requesting the page repeatedly does not keep the token valid.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(version(&page(token).await.expect(200)), version(&first));
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    let refused = page(token).await.expect(410);
    assert_eq!((&refused["reason"], &refused["code"]), (&json!("Expired"), &json!(410)));
    let second = page(&refused["metadata"]["continue"]).await.expect(200);
    assert_eq!(names(&second), ["m02", "m03"]);
    assert_ne!(version(&second), version(&first), "the rest shows a later moment");
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let third = page(&second["metadata"]["continue"]).await.expect(200);
    assert_eq!((names(&third), version(&third)), (vec!["m04"], version(&second)));
}

#[tokio::test]
async fn a_watch_from_before_history_must_list() {
    let plane = filled(1).await;
    for path in [MAPS, "/api/v1/nodes", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] {
        let mut events = plane.watch(&format!("{path}?watch=1&resourceVersion=1")).await;
        let refused = events.next().await.unwrap();
        assert_eq!((&refused["type"], &refused["object"]["code"]), (&json!("ERROR"), &json!(410)), "{path}");
        assert_eq!(refused["object"]["reason"], "Expired");
        let message = refused["object"]["message"].as_str().unwrap();
        assert!(message.starts_with("too old resource version: 1 ("), "{message}");
        assert_eq!(events.next().await, None);
    }
}

/// Tests a client that followed a server which was then restored from an older copy.
#[tokio::test(start_paused = true)]
async fn a_watch_from_an_unknown_revision_must_list_again() {
    let plane = filled(1).await;
    let mut events = plane.watch(&format!("{MAPS}?watch=1&resourceVersion=99999")).await;
    plane.post(MAPS, json!({"metadata": {"name": "n"}})).await.expect(201);
    let refused = events.next().await.unwrap();
    assert_eq!(refused["type"], "ERROR");
    assert_eq!((&refused["object"]["code"], &refused["object"]["reason"]), (&json!(410), &json!("Expired")));
    let message = refused["object"]["message"].as_str().unwrap();
    assert!(message.starts_with("Too large resource version: 99999, current: "), "{message}");
    assert_eq!(events.next().await, None);
    // As recorded, a client with a timeout shorter than that wait gets no event.
    let mut events = plane.watch(&format!("{MAPS}?watch=1&resourceVersion=99999&timeoutSeconds=1")).await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn invalid_options_of_lists_and_watches_are_refused() {
    let plane = filled(1).await;
    let refused = plane.get(&format!("{MAPS}?timeoutSeconds=soon")).await.expect(400);
    assert_eq!(refused["message"], "strconv.ParseInt: parsing \"soon\": invalid syntax");
    let protobuf = "application/vnd.kubernetes.protobuf";
    let binary = plane.get_as(&format!("{MAPS}?watch=1&timeoutSeconds=1"), protobuf).await;
    assert_eq!(binary.headers["content-type"], format!("{protobuf};stream=watch"));
    assert!(binary.body.as_str().unwrap().contains("ADDED"), "{}", binary.body);
    let either = format!("{protobuf},application/json");
    plane.get_as(&format!("{MAPS}?watch=1&timeoutSeconds=1"), &either).await.expect(200);
}

#[tokio::test]
async fn tables_and_metadata_are_other_views_of_the_same_objects() {
    let plane = filled(1).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = plane.get_as(&format!("{MAPS}?labelSelector=parity"), table).await.expect(200);
    assert_eq!(table["kind"], "Table");
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    assert_eq!(
        columns.map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Name", "Data", "Age"]
    );
    assert_eq!(table["rows"][0]["cells"][0], "m00");
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let metadata = plane.get_as(&format!("{MAPS}/m00"), metadata).await.expect(200);
    assert_eq!(metadata["kind"], "PartialObjectMetadata");
    assert!(metadata.get("data").is_none());
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let plane = filled(4).await;
    plane.delete(&format!("{MAPS}?labelSelector=parity%3Deven")).await.expect(200);
    assert_eq!(names(&plane.get(MAPS).await.expect(200)), ["m01", "m03"]);
}

#[tokio::test]
async fn a_collection_is_deleted_at_the_requested_version() {
    let plane = filled(2).await;
    let before = version(&plane.get(MAPS).await.expect(200)).to_owned();
    plane.post(MAPS, json!({"metadata": {"name": "m99"}})).await.expect(201);
    let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={before}");
    let refused = plane.delete(&format!("{MAPS}?resourceVersionMatch=Exact")).await.expect(422);
    assert_eq!(refused["details"]["kind"], "ListOptions");
    plane.delete(&format!("{MAPS}?resourceVersion=999999")).await.expect(504);
    // Without a body the options are those of the query, where the version is also a precondition on each object.
    let refused = plane.delete(&exact).await.expect(409);
    assert_eq!(refused["details"]["kind"], "ConfigMap");
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    let deleted = plane.ask("DELETE", &exact, options).await.expect(200);
    assert_eq!(version(&deleted), before);
    assert_eq!(names(&plane.get(MAPS).await.expect(200)), ["m99"]);
}

/// The list is longer than one piece, so its items are written while it is sent.
#[tokio::test]
async fn a_long_list_is_complete_in_every_form() {
    let plane = TestServer::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    for at in 0..200 {
        let body =
            json!({"metadata": {"name": format!("long-{at:03}"), "annotations": {"a": "x".repeat(1000)}}});
        plane.post(path, body).await.expect(201);
    }
    let expected = (0..200).map(|at| format!("long-{at:03}")).collect::<Vec<_>>();
    let query = format!("{path}?fieldSelector=metadata.name!%3Dkube-root-ca.crt");
    let names = |items: &Value, pointer: &str| {
        let items = items.as_array().unwrap().iter();
        items.map(|item| item.pointer(pointer).unwrap().as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let whole = plane.get_as(&query, table).await.expect(200);
    assert_eq!(names(&whole["rows"], "/cells/0"), expected);
    assert_eq!(names(&whole["rows"], "/object/metadata/name"), expected);
    let pretty = plane.get_as(&format!("{query}&pretty=true"), table).await.expect(200);
    assert_eq!(pretty["rows"].as_array().map(Vec::len), Some(200));
    let bare = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let whole = plane.get_as(&query, bare).await.expect(200);
    assert_eq!(names(&whole["items"], "/metadata/name"), expected);
    let wrong = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    plane.get_as(&query, wrong).await.expect(406);
}
