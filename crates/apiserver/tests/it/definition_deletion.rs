//! Tests how definitions change and are deleted, as recorded from kube-apiserver v1.36.4.

use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ends.test";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn definition(metadata: Value) -> Value {
    let mut metadata = metadata;
    metadata["name"] = json!("widgets.ends.test");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": metadata, "spec": {"group": "ends.test", "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}}]}})
}

fn terminating(definition: &Value) -> (String, String) {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|one| one["type"] == "Terminating").unwrap();
    (found["status"].as_str().unwrap().to_owned(), found["reason"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_finalizer_of_a_definition_comes_with_its_deletion() {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, definition(json!({"finalizers": ["demo.dev/x"]}))).await.expect(201);
    let born = plane.get(DEFINITION).await.expect(200);
    assert_eq!(born["metadata"]["finalizers"], json!(["demo.dev/x"]));
    // The first deletion ignores the policy and does not raise the generation.
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"});
    let marked = plane.ask("DELETE", DEFINITION, options).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["demo.dev/x", CLEANUP]));
    assert_eq!(marked["metadata"]["generation"], 1);
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(terminating(&marked), ("True".to_owned(), "InstanceDeletionPending".to_owned()));
    let emptied =
        plane.until(DEFINITION, |answer| answer.body["metadata"]["finalizers"] == json!(["demo.dev/x"]));
    let emptied = emptied.await.body;
    assert_eq!(terminating(&emptied), ("False".to_owned(), "InstanceDeletionCompleted".to_owned()));
    let again = plane.delete(DEFINITION).await.expect(200);
    assert_eq!(again["metadata"]["deletionGracePeriodSeconds"], 0);
    plane.patch(DEFINITION, MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    plane.until_gone(DEFINITION).await;
}

#[tokio::test]
async fn immutable_fields_of_a_definition_are_reported_once() {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, definition(json!({}))).await.expect(201);
    let causes = async |spec: Value| {
        let refused = plane.patch(DEFINITION, MERGE, json!({"spec": spec})).await.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap().iter();
        causes.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(causes(json!({"group": "other.test"})).await, ["spec.group"]);
    assert_eq!(causes(json!({"names": {"plural": "wodgets"}})).await, ["spec.names.plural"]);
    assert_eq!(causes(json!({"names": {"kind": "Wodget"}})).await, ["spec.names.kind"]);
    assert_eq!(causes(json!({"scope": "Cluster"})).await, ["spec.scope"]);
    let mut nameless = definition(json!({}));
    nameless["spec"]["versions"][0]["name"] = json!("");
    plane.delete(DEFINITION).await.expect(200);
    plane.until_gone(DEFINITION).await;
    let refused = plane.post(DEFINITIONS, nameless).await.expect(422);
    assert_eq!(refused["details"]["causes"].as_array().unwrap().len(), 1);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.versions[0].name");
}

/// A client that migrated the objects writes which versions are still stored.
#[tokio::test]
async fn stored_versions_are_written_through_the_status() {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, definition(json!({}))).await.expect(201);
    for stored in [json!(["v2"]), json!(["v1", "v0"])] {
        let patch = json!({"status": {"storedVersions": stored}});
        let written = plane.patch(&format!("{DEFINITION}/status"), MERGE, patch).await.expect(200);
        assert_eq!(written["status"]["storedVersions"], stored);
    }
}
