//! Tests limits on sizes, refusals of expensive requests, and warnings about fields that are stored but not enforced.

use std::sync::Arc;
use std::time::Duration;

use homeostat_apiserver::ApiServer;
use homeostat_store::Memory;
use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{APPLY, JSON_PATCH, MERGE, STRATEGIC, TestServer};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long a refusal may take on two busy cores, without optimization. With optimization it takes a tenth.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn unenforced_objects_cause_warnings() {
    let plane = TestServer::start().await;
    let named = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    for (path, object, what) in [
        (policies, named(json!({"podSelector": {}})), "NetworkPolicy is"),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            named(json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}})),
            "PriorityLevelConfiguration is",
        ),
    ] {
        let tried = plane.post(&format!("{path}?dryRun=All"), object.clone()).await;
        assert!(!tried.headers.contains_key("warning"), "nothing is stored: {:?}", tried.headers);
        let made = plane.post(path, object).await;
        let warned = made.headers.get("warning").and_then(|warned| warned.to_str().ok()).unwrap_or_default();
        assert!(
            warned.starts_with(&format!("299 - \"{what} stored, but this server does not enforce it")),
            "{warned}"
        );
        made.expect(201);
    }
    let applied = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "y"},
        "spec": {"podSelector": {}}});
    let applied =
        plane.raw("PATCH", &format!("{policies}/y?fieldManager=me"), APPLY, &applied.to_string()).await;
    assert!(applied.headers.contains_key("warning"));
    let plain = plane.post("/api/v1/namespaces", json!({"metadata": {"name": "y"}})).await;
    assert!(!plain.headers.contains_key("warning"));
}

/// Returns the server's warnings.
fn warned(answer: &crate::test_server::Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    all.map(|one| one.to_str().unwrap_or_default().trim_start_matches("299 - ").trim_matches('"').to_owned())
        .collect()
}

#[tokio::test]
async fn labels_for_an_audit_log_cause_a_warning_if_there_is_none() {
    let plane = TestServer::start().await;
    let label = |mode: &str| format!("pod-security.kubernetes.io/{mode}");
    let labels = json!({label("enforce"): "baseline", label("warn"): "restricted", label("audit"): "restricted",
        label("audit-version"): "latest"});
    let made = plane.post("/api/v1/namespaces", json!({"metadata": {"name": "x", "labels": labels}})).await;
    let warning = "the label pod-security.kubernetes.io/audit is stored, but this server does not act on it: it was started without an audit log";
    assert_eq!(warned(&made), [warning], "the other modes have an effect");
    let changed = json!({"metadata": {"labels": {label("warn-version"): "v1.30"}}});
    let changed = plane.patch("/api/v1/namespaces/x", MERGE, changed).await;
    assert_eq!(warned(&changed).len(), 0, "{:?}", warned(&changed));
}

#[tokio::test]
async fn a_full_store_refuses_writes_and_allows_deletions() {
    let builder = ApiServer::builder(Arc::new(Memory::new())).store_bytes_max(1024 * 1024);
    let plane = TestServer::start_with(builder).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |at: usize, bytes: usize| json!({"metadata": {"name": format!("m{at}")}, "data": {"a": "x".repeat(bytes)}});
    let mut made = 0;
    let refused = loop {
        let answer = plane.post(maps, map(made, 100_000)).await;
        if answer.code != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 20, "the store is never full");
    };
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (500, &json!("etcdserver: mvcc: database space exceeded"))
    );
    plane.put(&format!("{maps}/m0"), map(0, 90_000)).await.expect(200);
    assert_eq!(plane.put(&format!("{maps}/m0"), map(0, 500_000)).await.code, 500);
    plane.delete(&format!("{maps}/m1")).await.expect(200);
    plane.post(maps, map(made, 50_000)).await.expect(201);
}

/// Creates a ConfigMap with many small entries, which a strategic patch can name.
async fn large_map(plane: &TestServer) {
    let data: serde_json::Map<_, _> = (0..30_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    plane.post(MAPS, json!({"metadata": {"name": "large"}, "data": data})).await.expect(201);
}

#[tokio::test]
async fn expensive_patches_are_refused_quickly() {
    let plane = TestServer::start().await;
    large_map(&plane).await;
    let path = format!("{MAPS}/large");
    let started = ProcessorTime::start();
    let keys: Vec<_> = (0..150_000).map(|at| format!("x{at}")).collect();
    let retained = json!({"data": {"$retainKeys": keys}});
    plane.patch(&path, STRATEGIC, retained).await.expect(200);
    large_again(&plane, &path).await;
    let places = [("/data", "/binaryData"), ("/binaryData", "/data")];
    let operation = |at: usize| json!({"op": "move", "from": places[at % 2].0, "path": places[at % 2].1});
    let moves: Value = (0..10_000).map(operation).collect();
    plane.patch(&path, JSON_PATCH, moves).await.expect(422);
    assert!(started.elapsed() < 4 * SOON, "{:?}", started.elapsed());
}

async fn large_again(plane: &TestServer, path: &str) {
    plane.delete(path).await.expect(200);
    large_map(plane).await;
}

#[tokio::test]
async fn conflicts_below_a_long_name_are_listed_up_to_a_limit() {
    let plane = TestServer::start().await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wides.t.io"}, "spec": {"group": "t.io", "scope": "Namespaced",
        "names": {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}}}]}});
    plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let path = "/apis/t.io/v1/namespaces/default/wides/w";
    let long = "n".repeat(200_000);
    let config = |value: u32| {
        let below: serde_json::Map<_, _> = (0..10_000).map(|at| (format!("f{at}"), json!(value))).collect();
        json!({"apiVersion": "t.io/v1", "kind": "Wide", "metadata": {"name": "w"}, "spec": {&*long: below}})
            .to_string()
    };
    plane.until("/apis/t.io/v1/namespaces/default/wides", |answer| answer.code == 200).await;
    let apply = async |manager: &str, value| {
        plane.raw("PATCH", &format!("{path}?fieldManager={manager}"), APPLY, &config(value)).await
    };
    apply("one", 1).await.expect(201);
    let refused = apply("two", 2).await.expect(409);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Apply failed with 10000 conflicts") && message.len() < 1024 * 1024);
}

#[tokio::test]
async fn small_texts_that_take_much_memory_are_refused() {
    let plane = TestServer::start().await;
    let many = format!(r#"{{"metadata":{{"name":"a"}},"data":[{}0]}}"#, r#"{"":0},"#.repeat(300_000));
    for media in ["application/json", "application/yaml"] {
        plane.raw("POST", MAPS, media, &many).await.expect(413);
    }
}

#[tokio::test]
async fn errors_about_one_object_stay_small() {
    let plane = TestServer::start().await;
    let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{at}"), "uid": at.to_string(), "controller": true});
    let owners: Vec<_> = (0..9_000).map(owner).collect();
    let started = ProcessorTime::start();
    let refused =
        plane.post(MAPS, json!({"metadata": {"name": "a", "ownerReferences": owners}})).await.expect(422);
    assert!(
        refused.to_string().len() < 2 * 1024 * 1024 && started.elapsed() < SOON,
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn large_patterns_are_refused() {
    let plane = TestServer::start().await;
    let property = |at: usize| {
        (format!("p{at}"), json!({"type": "string", "pattern": format!("^\\pL{{{}}}$", 150 + at)}))
    };
    let properties: serde_json::Map<_, _> = (0..200).map(property).collect();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wides.t.io"}, "spec": {"group": "t.io", "scope": "Namespaced",
        "names": {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": properties}}}}}]}});
    let started = ProcessorTime::start();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let refused = plane.post(path, definition).await.expect(422);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert!(refused["message"].as_str().unwrap_or_default().contains("expression too large"), "{refused}");
}

/// Each `..` multiplies the steps by the depth of the object, and each column takes as many again.
#[tokio::test]
async fn a_costly_cell_does_not_fail_the_table() {
    let plane = TestServer::start().await;
    let column = |name: String, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let descents = format!(".l{}.x", "..[*]".repeat(8));
    let filters = (0..500).map(|at| column(format!("c{at}"), r#".m[?(@.a=="x")].b"#));
    let columns: Vec<_> = [column("Kind".into(), ".kind"), column("Deep".into(), &descents)]
        .into_iter()
        .chain(filters)
        .collect();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "deeps.t.io"}, "spec": {"group": "t.io", "scope": "Namespaced",
        "names": {"plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let deeps = "/apis/t.io/v1/namespaces/default/deeps";
    plane.until(deeps, |answer| answer.code == 200).await;
    let nested = (0..60).fold(json!([]), |below, _| json!([below]));
    let object = json!({"apiVersion": "t.io/v1", "kind": "Deep", "metadata": {"name": "a"},
        "l": nested, "m": vec![json!({"a": "y"}); 20_000]});
    plane.post(deeps, object).await.expect(201);
    let started = ProcessorTime::start();
    for path in [format!("{deeps}/a"), deeps.to_owned()] {
        let table = plane.get_as(&path, TABLE).await.expect(200);
        let cells = &table["rows"][0]["cells"];
        let shown = (&cells[0], &cells[1], &cells[2], &cells[501]);
        let costly = json!("<too costly to show>");
        assert_eq!(shown, (&json!("a"), &json!("Deep"), &costly, &costly));
    }
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
}

/// Large objects are separate pieces; the list is the same as if it were built as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_small_and_large_objects_is_complete() {
    let plane = TestServer::start().await;
    for at in 0..12 {
        let bytes = if at % 3 == 0 { 150_000 } else { 10 };
        let object = json!({"metadata": {"name": format!("m{at:02}"), "labels": {"of": "list"}},
            "data": {"a": "x".repeat(bytes)}});
        plane.post(MAPS, object).await.expect(201);
    }
    let expected: Vec<_> = (0..12).map(|at| format!("m{at:02}")).collect();
    for accept in [TABLE, "application/yaml", "application/json"] {
        for selector in ["labelSelector=of%3Dlist", "labelSelector=of&fieldSelector=metadata.name!%3Dnone"] {
            let answer = plane.get_as(&format!("{MAPS}?{selector}"), accept).await;
            assert_eq!(answer.code, 200);
            let names: Vec<_> = match (accept, &answer.body) {
                (TABLE, table) => names_of(&table["rows"], "/object/metadata/name"),
                (_, Value::String(yaml)) => {
                    let lines = yaml.lines().filter_map(|line| line.trim().strip_prefix("name: "));
                    lines.map(ToOwned::to_owned).collect()
                }
                (_, list) => names_of(&list["items"], "/metadata/name"),
            };
            assert_eq!(names, expected, "{accept} {selector}");
        }
        let one = plane.get_as(&format!("{MAPS}/m00"), accept).await;
        assert_eq!(one.code, 200, "{accept}");
    }
}

fn names_of(items: &Value, pointer: &str) -> Vec<String> {
    let items = items.as_array().into_iter().flatten();
    items.filter_map(|item| item.pointer(pointer)?.as_str().map(ToOwned::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_many_versions_are_refused_and_documents_follow_the_rest() {
    let plane = TestServer::start().await;
    let version = |at: usize| {
        json!({"name": format!("v{at}"), "served": true, "storage": at == 0,
        "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let definition = |count: usize| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "many.t.io"}, "spec": {"group": "t.io", "scope": "Namespaced",
        "names": {"plural": "many", "singular": "one", "kind": "Many", "listKind": "ManyList"},
        "versions": (0..count).map(version).collect::<Vec<_>>()}})
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let refused = plane.post(definitions, definition(4000)).await.expect(422);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("spec.versions: Too many: 4000: must have at most 100 items"), "{message}");
    plane.post(definitions, definition(100)).await.expect(201);
    plane.until("/apis/t.io/v99/many", |answer| answer.code == 200).await;
    let (one, other) = tokio::join!(plane.get("/openapi/v2"), plane.get("/openapi/v2"));
    assert!(one.body["definitions"].get("io.t.v99.Many").is_some());
    assert_eq!(one.headers["etag"], other.headers["etag"]);
    plane.get("/openapi/v3/apis/t.io/v99").await.expect(200);
}
