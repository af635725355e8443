//! Tests what all writes have in common, whichever verb performs them: create, update, patch and server-side apply run
//! the same stages.

use serde_json::{Value, json};

use crate::test_server::{APPLY, Answer, MERGE, TestServer};

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn warnings(answer: &Answer) -> Vec<String> {
    let warnings = answer.headers.get_all("warning").iter();
    warnings.map(|warning| warning.to_str().unwrap().replace("299 - ", "").replace('\\', "")).collect()
}

fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Returns a definition with a field of an unknown format.
fn definition(plural: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "format": "odd"}}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": plural, "kind": plural.to_uppercase()});
    let spec = json!({"group": "demo.dev", "scope": "Namespaced", "names": names, "versions": [version]});
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("{plural}.demo.dev"), &spec)
}

#[tokio::test]
async fn warnings_about_a_new_object_do_not_depend_on_the_verb() {
    let plane = TestServer::start().await;
    let policy =
        |name: &str| object("networking.k8s.io/v1", "NetworkPolicy", name, &json!({"podSelector": {}}));
    let level = |name: &str| {
        let version = "flowcontrol.apiserver.k8s.io/v1";
        object(
            version,
            "PriorityLevelConfiguration",
            name,
            &json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}),
        )
    };
    let mut warned = Vec::new();
    for (path, first, second) in [
        (POLICIES, policy("posted"), policy("applied")),
        (LEVELS, level("posted"), level("applied")),
        (DEFINITIONS, definition("posted"), definition("applied")),
    ] {
        let posted = plane.post(path, first).await;
        let name = second["metadata"]["name"].as_str().unwrap().to_owned();
        let query = "?fieldManager=test";
        let applied = plane.raw("PATCH", &format!("{path}/{name}{query}"), APPLY, &second.to_string()).await;
        assert_eq!((posted.code, applied.code), (201, 201), "{} {}", posted.body, applied.body);
        assert_eq!(warnings(&posted), warnings(&applied), "{path}");
        warned.push(warnings(&posted));
    }
    assert!(warned.iter().all(|warned| warned.len() == 1), "{warned:?}");
}

#[tokio::test]
async fn a_generated_name_is_validated_and_not_its_absence() {
    let plane = TestServer::start().await;
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let pod = |metadata: Value| json!({"metadata": metadata, "spec": spec});
    let pods = "/api/v1/namespaces/default/pods";
    let generated = plane.post(pods, pod(json!({"generateName": "web-"}))).await;
    assert_eq!((generated.code, warnings(&generated)), (201, Vec::new()));
    let dotted = plane.post(pods, pod(json!({"generateName": "web.a-"}))).await;
    assert_eq!((dotted.code, warnings(&dotted).len()), (201, 1));
}

#[tokio::test]
async fn nobody_owns_fields_that_the_server_removed() {
    let plane = TestServer::start().await;
    let metadata = json!({"name": "c", "deletionTimestamp": "2020-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5, "selfLink": "/x", "labels": {"a": "b"}});
    let path = "/api/v1/namespaces/default/configmaps";
    let made = plane.post(path, json!({"metadata": metadata})).await.expect(201);
    assert_eq!(made["metadata"].get("deletionTimestamp"), None);
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*owned, json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}));
}

#[tokio::test]
async fn a_refused_patch_still_has_warnings() {
    let plane = TestServer::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    plane.post(maps, json!({"metadata": {"name": "c"}})).await.expect(201);
    let patch = json!({"metadata": {"resourceVersion": "1"}, "odd": 1});
    let stale = plane.patch(&format!("{maps}/c"), MERGE, patch).await;
    assert_eq!((stale.code, warnings(&stale)), (409, vec!["\"unknown field \"odd\"\"".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn applies_that_race_to_create_an_object_all_succeed() {
    let plane = TestServer::start().await;
    for round in 0..50 {
        let name = format!("c{round}");
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let apply = |manager: usize| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {manager.to_string(): ""}});
            let (plane, path) = (plane.clone(), format!("{path}?fieldManager=m{manager}"));
            tokio::spawn(async move { plane.raw("PATCH", &path, APPLY, &object.to_string()).await.code })
        };
        let mut codes = Vec::new();
        for running in (0..4).map(apply).collect::<Vec<_>>() {
            codes.push(running.await.unwrap());
        }
        codes.sort_unstable();
        assert_eq!(codes, [200, 200, 200, 201]);
        assert_eq!(plane.get(&path).await.expect(200)["data"].as_object().unwrap().len(), 4);
    }
}
