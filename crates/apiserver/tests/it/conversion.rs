//! Tests custom objects that a webhook converts between versions: every verb through every version, and converters that
//! misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::admission::webhook_server::{Behaviour, WebhookServer};
use crate::test_server::{APPLY, MERGE, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.demo.dev";
const V1: &str = "/apis/demo.dev/v1/namespaces/default/lamps";
const V2: &str = "/apis/demo.dev/v2/namespaces/default/lamps";

/// A lamp has `spec.watts` in v1 and `spec.power.watts` in v2, and a colour in both.
fn definition(server: &WebhookServer, storage: &str) -> Value {
    let version = |name: &str, spec: Value| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let field = if name == "v1" { ".spec.watts" } else { ".spec.power.watts" };
        json!({"name": name, "served": true, "storage": name == storage, "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": field}, {"jsonPath": ".spec.colour"}],
            "subresources": {"status": {}, "scale": {"specReplicasPath": field, "statusReplicasPath": ".status.count"}}})
    };
    let (number, colour) = (json!({"type": "integer"}), json!({"type": "string", "default": "white"}));
    let power = json!({"type": "object", "properties": {"watts": number}});
    json!({"metadata": {"name": "lamps.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
        "names": {"plural": "lamps", "kind": "Lamp"},
        "versions": [version("v1", json!({"watts": number, "colour": colour})),
            version("v2", json!({"power": power, "colour": colour}))],
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"url": format!("https://{}/convert", server.address), "caBundle": server.bundle}}}}})
}

fn lamp(version: &str, name: &str, watts: i64) -> Value {
    let spec = if version == "v1" { json!({"watts": watts}) } else { json!({"power": {"watts": watts}}) };
    json!({"apiVersion": format!("demo.dev/{version}"), "kind": "Lamp", "metadata": {"name": name}, "spec": spec})
}

/// Converts one object as the definition says.
fn convert(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = desired.into();
    let spec = object["spec"].as_object_mut().unwrap();
    if desired.ends_with("v2") {
        let watts = spec.remove("watts").unwrap_or_default();
        spec.insert("power".into(), json!({"watts": watts}));
    } else {
        let power = spec.remove("power").unwrap_or_default();
        spec.insert("watts".into(), power["watts"].clone());
    }
    object["metadata"]["labels"]["in"] = desired.rsplit('/').next().unwrap().into();
    object
}

/// Returns the response of a good converter.
fn review(question: &Value) -> Value {
    let asked = &question["request"];
    let desired = asked["desiredAPIVersion"].as_str().unwrap();
    let objects = asked["objects"].as_array().unwrap().iter();
    let objects = objects.map(|object| convert(object, desired)).collect::<Vec<_>>();
    json!({"apiVersion": question["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects}})
}

async fn converter() -> WebhookServer {
    WebhookServer::start(|question| Behaviour::Document(review(question))).await
}

async fn start(server: &WebhookServer, storage: &str) -> TestServer {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, definition(server, storage)).await.expect(201);
    plane
}

#[tokio::test]
async fn every_verb_works_through_every_version() {
    let server = converter().await;
    let plane = start(&server, "v1").await;
    let made = plane.post(V2, lamp("v2", "a", 5)).await.expect(201);
    assert_eq!(made["apiVersion"], "demo.dev/v2");
    assert_eq!(made["spec"], json!({"power": {"watts": 5}, "colour": "white"}));
    assert_eq!(
        plane.get(&format!("{V1}/a")).await.expect(200)["spec"],
        json!({"watts": 5, "colour": "white"})
    );
    let mut got = plane.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!((&got["spec"]["power"]["watts"], &got["metadata"]["labels"]["in"]), (&json!(5), &json!("v2")));
    got["spec"]["power"]["watts"] = 6.into();
    let put = plane.put(&format!("{V2}/a"), got).await.expect(200);
    assert_eq!((&put["spec"]["power"]["watts"], &put["metadata"]["generation"]), (&json!(6), &json!(2)));
    let patch = json!({"spec": {"power": {"watts": 7}}});
    let patched = plane.patch(&format!("{V2}/a"), MERGE, patch).await.expect(200);
    assert_eq!(patched["spec"]["power"]["watts"], 7);
    assert_eq!(plane.get(&format!("{V1}/a")).await.expect(200)["spec"]["watts"], 7);
    let applied = plane.patch(&format!("{V2}/b?fieldManager=m"), APPLY, lamp("v2", "b", 3)).await.expect(201);
    assert_eq!(applied["spec"]["power"]["watts"], 3);
    let status = json!({"status": {"count": 2}});
    let status = plane.patch(&format!("{V2}/a/status"), MERGE, status).await.expect(200);
    assert_eq!((&status["status"]["count"], &status["spec"]["power"]["watts"]), (&json!(2), &json!(7)));
    let scale = plane.get(&format!("{V2}/a/scale")).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 7);
    let scale =
        plane.patch(&format!("{V2}/a/scale"), MERGE, json!({"spec": {"replicas": 9}})).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 9);
    assert_eq!(plane.get(&format!("{V1}/a")).await.expect(200)["spec"]["watts"], 9);
    let table = plane.get_as(V2, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    plane.delete(&format!("{V2}/a")).await.expect(200);
    plane.until_gone(&format!("{V1}/a")).await;
}

#[tokio::test]
async fn a_list_of_both_stored_versions_is_one_question_and_writes_migrate() {
    let server = converter().await;
    let plane = start(&server, "v1").await;
    plane.post(V1, lamp("v1", "a", 1)).await.expect(201);
    plane.post(V1, lamp("v1", "b", 2)).await.expect(201);
    let versions = definition(&server, "v2")["spec"]["versions"].clone();
    let changed = plane.patch(DEFINITION, MERGE, json!({"spec": {"versions": versions}})).await.expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    plane.post(V2, lamp("v2", "c", 3)).await.expect(201);
    assert_eq!(server.questions().len(), 0, "nobody asked for another version so far");
    for (path, pointer) in [(V2, "/spec/power/watts"), (V1, "/spec/watts")] {
        let list = plane.get(path).await.expect(200);
        let items = list["items"].as_array().unwrap().iter();
        let watts = items.map(|item| item.pointer(pointer).unwrap().as_i64().unwrap());
        assert_eq!(watts.collect::<Vec<_>>(), [1, 2, 3], "{list}");
    }
    let asked = server.questions();
    let counts = asked.iter().map(|(_, question)| question["request"]["objects"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 1]);
    assert_eq!(asked[0].0, "/convert?timeout=30s");
    // A write without a change migrates the stored object: no conversion is needed any more.
    let object = plane.get(&format!("{V2}/a")).await.expect(200);
    plane.put(&format!("{V2}/a"), object).await.expect(200);
    let before = server.questions().len();
    plane.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(server.questions().len(), before);
}

#[tokio::test]
async fn selectors_see_what_the_converter_returns() {
    let server = converter().await;
    let plane = start(&server, "v1").await;
    for (name, watts) in [("a", 1), ("b", 2), ("c", 2)] {
        plane.post(V1, lamp("v1", name, watts)).await.expect(201);
    }
    let names = |list: Value| {
        let items = list["items"].as_array().unwrap().clone().into_iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let check = async |query: &str, expected: &[&str]| {
        assert_eq!(names(plane.get(&format!("{V2}?{query}")).await.expect(200)), expected, "{query}");
    };
    check("fieldSelector=spec.power.watts%3D2", &["b", "c"]).await;
    check("labelSelector=in%3Dv2", &["a", "b", "c"]).await;
    check("labelSelector=in%3Dv1", &[]).await;
    let page = plane.get(&format!("{V2}?limit=2")).await.expect(200);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    check(&format!("limit=2&continue={token}"), &["c"]).await;
    let page = plane.get(&format!("{V2}?limit=1&fieldSelector=spec.power.watts%3D2")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    check(&format!("limit=1&fieldSelector=spec.power.watts%3D2&continue={token}"), &["c"]).await;
    let gone = plane.ask("DELETE", &format!("{V2}?fieldSelector=spec.power.watts%3D2"), Value::Null).await;
    assert_eq!(names(gone.expect(200)), ["b", "c"]);
    check("", &["a"]).await;
}

#[tokio::test]
async fn watches_show_converted_objects_and_share_the_answers() {
    let server = converter().await;
    let plane = start(&server, "v1").await;
    plane.post(V1, lamp("v1", "a", 1)).await.expect(201);
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(plane.watch(&format!("{V2}?watch=1&fieldSelector=spec.power.watts%3D1")).await);
    }
    for watch in &mut watches {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["spec"]["power"]["watts"]),
            (&json!("ADDED"), &json!(1))
        );
    }
    let before = server.questions().len();
    plane.patch(&format!("{V1}/a"), MERGE, json!({"spec": {"watts": 2}})).await.expect(200);
    for watch in &mut watches {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["apiVersion"]),
            (&json!("DELETED"), &json!("demo.dev/v2"))
        );
    }
    assert_eq!(server.questions().len(), before + 1, "eight watches ask once");
    let other = converter().await;
    let config = json!({"url": format!("https://{}/convert", other.address), "caBundle": other.bundle});
    let change = json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}});
    plane.patch(DEFINITION, MERGE, change).await.expect(200);
    for watch in &mut watches {
        assert_eq!(watch.next().await, None, "another converter ends watches");
    }
}

#[tokio::test]
async fn hostile_converters_fail_the_requests_that_need_them_and_no_others() {
    let turn = Arc::new(AtomicUsize::new(0));
    let bomb = vec![0x1f_u8; 100_000];
    let server = WebhookServer::start({
        let turn = Arc::clone(&turn);
        move |question| {
            let mut good = review(question);
            match turn.load(Ordering::SeqCst) {
                0 => return Behaviour::Redirect,
                1 => return Behaviour::Endless,
                2 => return Behaviour::Compressed(bomb.clone()),
                3 => return Behaviour::Text(500, "broken"),
                4 => return Behaviour::Text(200, "no json"),
                5 => good["response"]["uid"] = "another".into(),
                6 => good["response"]["convertedObjects"] = json!([]),
                7 => good["response"]["convertedObjects"][0]["metadata"]["name"] = "b".into(),
                8 => good["response"]["result"] = json!({"status": "Failure", "message": "cannot"}),
                9 => good["response"]["convertedObjects"][0] = json!(7),
                10 => good["response"]["convertedObjects"][0]["apiVersion"] = "demo.dev/v1".into(),
                _ => good["response"]["convertedObjects"][0]["metadata"]["uid"] = Value::Null,
            }
            Behaviour::Document(good)
        }
    })
    .await;
    let plane = start(&server, "v1").await;
    let stored = plane.post(V1, lamp("v1", "a", 1)).await.expect(201);
    let uid = stored["metadata"]["uid"].as_str().unwrap();
    let expected = [
        "failed: the server redirects (code 302), which is not followed",
        "failed: length limit exceeded",
        "failed: couldn't get version/kind; json parse error in the answer",
        "failed: an error on the server (\"broken\") has prevented the request from succeeding",
        "failed: couldn't get version/kind; json parse error in the answer \"no json\"",
        "failed: expected response.uid=",
        "returned 0 objects, expected 1",
        "returned invalid object: must have the same name: a != b",
        "failed: cannot",
        "returned invalid object at index 0: it is not an object",
        "returned invalid object at index 0: invalid groupVersion (expected demo.dev/v2, received demo.dev/v1)",
        &format!("returned invalid object: must have the same UID: {uid} != "),
    ];
    for (at, expected) in expected.into_iter().enumerate() {
        turn.store(at, Ordering::SeqCst);
        let refused = plane.get(&format!("{V2}/a")).await.expect(500);
        let message = refused["message"].as_str().unwrap();
        let intro = format!("conversion webhook for demo.dev/v1, Kind=Lamp {expected}");
        assert!(message.starts_with(&intro), "{message}\n{intro}");
        assert!(plane.get(V2).await.code == 500, "lists need it, too");
        let mut watch = plane.watch(&format!("{V2}?watch=1")).await;
        assert_eq!(watch.next().await.unwrap()["type"], "ERROR");
        assert_eq!(watch.next().await, None);
        plane.get(&format!("{V1}/a")).await.expect(200);
    }
    let unchanged = plane.post(V2, lamp("v2", "b", 1)).await;
    assert_eq!(unchanged.code, 500);
    plane.get(&format!("{V1}/b")).await.expect(404);
}

#[tokio::test]
async fn a_converter_is_found_through_its_service_and_may_understand_only_v1beta1() {
    let server = converter().await;
    let plane = TestServer::start().await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 9443}]}});
    plane.post("/api/v1/namespaces/default/services", service).await.expect(201);
    let slice = json!({"metadata": {"name": "hook", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "FQDN", "endpoints": [{"addresses": ["localhost"]}],
        "ports": [{"port": server.address.port()}]});
    plane.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await.expect(201);
    let mut definition = definition(&server, "v1");
    definition["spec"]["conversion"]["webhook"] = json!({"conversionReviewVersions": ["v1beta1"],
        "clientConfig": {"caBundle": server.bundle,
            "service": {"namespace": "default", "name": "hook", "port": 9443, "path": "/convert"}}});
    plane.post(DEFINITIONS, definition).await.expect(201);
    plane.post(V1, lamp("v1", "a", 1)).await.expect(201);
    assert_eq!(plane.get(&format!("{V2}/a")).await.expect(200)["spec"]["power"]["watts"], 1);
    assert_eq!(server.questions()[0].1["apiVersion"], "apiextensions.k8s.io/v1beta1");
}
