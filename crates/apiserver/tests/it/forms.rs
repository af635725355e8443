//! Tests the forms and encodings of custom objects, and warnings about list entries, as recorded from kube-apiserver
//! v1.36.4.

use serde_json::json;

use crate::test_server::TestServer;

const WIDGETS: &str = "/apis/forms.test/v1/namespaces/default/widgets";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn filled() -> TestServer {
    let plane = TestServer::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "widgets.forms.test"}, "spec": {"group": "forms.test",
        "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(definitions, definition).await.expect(201);
    plane
}

/// Returns whether a protobuf body has the magic, then the version and kind of its envelope, and somewhere the names.
fn says(answer: &crate::test_server::Answer, parts: &[&str]) -> bool {
    let body = answer.body.as_str().unwrap_or_default();
    answer.headers["content-type"] == PROTOBUF
        && body.starts_with("k8s\0")
        && parts.iter().all(|part| body.contains(part))
}

#[tokio::test]
async fn metadata_of_custom_objects_comes_as_protobuf() {
    let plane = filled().await;
    let widget = json!({"apiVersion": "forms.test/v1", "kind": "Widget", "metadata": {"name": "gizmo"}, "content": "unseen"});
    plane.post(WIDGETS, widget).await.expect(201);
    let list = plane.get_as(WIDGETS, METADATA).await;
    assert!(says(&list, &["meta.k8s.io/v1", "PartialObjectMetadataList", "gizmo"]), "{}", list.body);
    assert!(!list.body.as_str().unwrap().contains("unseen"));
    let one = METADATA.replace("MetadataList", "Metadata");
    let object = plane.get_as(&format!("{WIDGETS}/gizmo"), &one).await;
    assert!(says(&object, &["meta.k8s.io/v1", "PartialObjectMetadata", "gizmo"]), "{}", object.body);
    // The objects themselves do not.
    assert_eq!(plane.get_as(WIDGETS, PROTOBUF).await.code, 406);
    let either = plane.get_as(WIDGETS, "application/vnd.kubernetes.protobuf,application/json").await;
    assert_eq!(either.expect(200)["kind"], "WidgetList");
}

#[tokio::test]
async fn a_refusal_has_no_other_form_and_every_encoding() {
    let plane = filled().await;
    let missing = format!("{WIDGETS}/none");
    let answer = plane.get_as(&missing, METADATA).await;
    assert_eq!((answer.code, &answer.body["reason"]), (404, &json!("NotFound")));
    let answer = plane.get_as(&missing, "application/yaml;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!((answer.code, &answer.body["reason"]), (404, &json!("NotFound")));
    let answer = plane.get_as(&missing, "application/vnd.kubernetes.protobuf,application/json").await;
    assert_eq!(answer.code, 404);
    assert!(says(&answer, &["Status", "NotFound"]), "{}", answer.body);
}

#[tokio::test]
async fn an_empty_list_of_metadata_has_no_items() {
    let plane = filled().await;
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    assert_eq!(plane.get_as(WIDGETS, accept).await.expect(200)["items"], json!(null));
}

#[tokio::test]
async fn an_empty_protobuf_body_is_no_object() {
    let plane = filled().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let refused = plane.raw("POST", secrets, PROTOBUF, "k8s\0").await.expect(400);
    let message = "the object provided is unrecognized (must be of type Secret): empty body (6b387300)";
    assert_eq!(refused["message"], message);
}

#[tokio::test]
async fn duplicate_entries_cause_warnings() {
    let plane = filled().await;
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let ports = json!([{"containerPort": 80}, {"containerPort": 80}]);
    let spec = json!({"containers": [{"name": "c", "image": "i", "env": env, "ports": ports}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": template}});
    let answer = plane.post("/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let warnings =
        answer.headers.get_all("warning").iter().map(|one| one.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with("299 - \"spec.template.spec.containers[0].env[1]: hides previous definition")
    );
    assert!(
        warnings[1]
            .starts_with("299 - \"spec.template.spec.containers[0].ports[1]: duplicate port definition")
    );
    answer.expect(201);
    // The Pods of a Job stay unless the request says otherwise.
    let mut spec = spec;
    spec["restartPolicy"] = json!("Never");
    let job = |name: &str| json!({"metadata": {"name": name}, "spec": {"template": {"spec": spec}}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for (name, query, is_warned) in [("a", "", true), ("b", "?propagationPolicy=Background", false)] {
        plane.post(jobs, job(name)).await.expect(201);
        let deleted = plane.delete(&format!("{jobs}/{name}{query}")).await;
        assert_eq!(deleted.headers.contains_key("warning"), is_warned);
    }
}
