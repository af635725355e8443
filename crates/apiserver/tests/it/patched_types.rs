//! Tests patches that name another apiVersion or kind, as recorded from kube-apiserver v1.36.4.

use serde_json::{Value, json};

use crate::test_server::{APPLY, Answer, JSON_PATCH, MERGE, STRATEGIC, TestServer};

const SECRET: &str = "/api/v1/namespaces/default/secrets/a";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";
const WIDGET: &str = "/apis/types.test/v1/namespaces/default/widgets/a";

async fn filled() -> TestServer {
    let plane = TestServer::start().await;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    let definition = json!({"metadata": {"name": "widgets.types.test"}, "spec": {"group": "types.test",
        "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(definitions, definition).await.expect(201);
    plane.post(parent(SECRET), json!({"metadata": {"name": "a"}, "data": {"k": "eA=="}})).await.expect(201);
    let deployment = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template":
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    plane.post(parent(DEPLOYMENT), deployment).await.expect(201);
    let widget =
        json!({"apiVersion": "types.test/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"x": 1}});
    plane.post(parent(WIDGET), widget).await.expect(201);
    plane
}

fn parent(path: &str) -> &str {
    path.strip_suffix("/a").unwrap()
}

fn warnings(answer: &Answer) -> Vec<String> {
    let warnings = answer.headers.get_all("warning").iter();
    warnings.map(|warning| warning.to_str().unwrap().replace("299 - ", "").replace('\\', "")).collect()
}

fn typed(api_version: impl Into<Value>, kind: impl Into<Value>) -> Value {
    let (api_version, kind) = (api_version.into(), kind.into());
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"labels": {"l": "1"}}})
}

#[tokio::test]
async fn a_strategic_patch_may_name_any_type() {
    let plane = filled().await;
    for (api_version, kind) in [("v2", "Secret"), ("a/b/c", "Other"), ("", ""), ("nope.io/v1", "Pod")] {
        for path in [SECRET, DEPLOYMENT] {
            let patched =
                plane.patch(path, STRATEGIC, typed(json!(api_version), json!(kind))).await.expect(200);
            assert_eq!(patched["metadata"]["labels"]["l"], "1");
            let expected =
                if path == SECRET { json!(["v1", "Secret"]) } else { json!(["apps/v1", "Deployment"]) };
            assert_eq!(json!([patched["apiVersion"], patched["kind"]]), expected);
        }
    }
    for (api_version, kind) in [(json!(5), json!("Secret")), (json!("v1"), json!(5))] {
        plane.patch(SECRET, STRATEGIC, typed(api_version, kind)).await.expect(422);
    }
}

#[tokio::test]
async fn other_patches_of_built_in_kinds_make_an_object_of_a_known_type() {
    let plane = filled().await;
    let refused = async |path: &str, api_version: Value, kind: Value| {
        let refused = plane.patch(path, MERGE, typed(api_version.clone(), kind.clone())).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], "patch");
        let replace = |field: &str, value: Value| json!({"op": "replace", "path": field, "value": value});
        let patch = json!([replace("/apiVersion", api_version), replace("/kind", kind)]);
        plane.patch(path, JSON_PATCH, patch).await.expect(422);
    };
    refused(SECRET, json!("v2"), json!("Secret")).await;
    refused(SECRET, json!("v1"), json!("Pod")).await;
    refused(SECRET, json!(5), json!("Secret")).await;
    refused(SECRET, json!("v1"), json!(5)).await;
    refused(DEPLOYMENT, json!("apps/v9"), json!("Deployment")).await;
    // A version that is no longer served is still understood, and no kind means the right one.
    plane.patch(DEPLOYMENT, MERGE, typed(json!("apps/v1beta1"), json!("Deployment"))).await.expect(200);
    plane.patch(SECRET, MERGE, typed(json!("v1"), json!(null))).await.expect(200);
    // An empty version stands for the internal one, in which no field is known.
    for api_version in [json!(""), json!(null)] {
        let nameless = plane.patch(SECRET, MERGE, typed(api_version.clone(), json!("Secret"))).await;
        let unknown = ["data", "metadata", "type"].map(|name| format!("\"unknown field \"{name}\"\""));
        assert_eq!(warnings(&nameless), unknown);
        let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
        assert_eq!(nameless.expect(400)["message"], message);
        let strict = format!("{SECRET}?fieldValidation=Strict");
        plane.patch(&strict, MERGE, typed(api_version, json!("Secret"))).await.expect(422);
    }
}

#[tokio::test]
async fn custom_objects_keep_their_type() {
    let plane = filled().await;
    let other = plane.patch(WIDGET, MERGE, typed(json!("types.test/v2"), json!("Widget"))).await;
    assert_eq!(warnings(&other), ["\"unknown field \"spec\"\""]);
    let refused = other.expect(422);
    let details = json!({"name": "a", "group": "types.test", "kind": "Widget", "causes": [{"field": "apiVersion",
        "reason": "FieldValueInvalid", "message": "Invalid value: \"types.test/v2\": must be types.test/v1"}]});
    assert_eq!(refused["details"], details);
    let other = plane.patch(WIDGET, MERGE, typed(json!("v2"), json!("Widget"))).await;
    assert_eq!(warnings(&other), [""; 0]);
    assert_eq!(other.expect(422)["details"]["causes"][0]["field"], "apiVersion");
    plane.patch(WIDGET, MERGE, typed(json!(""), json!("Widget"))).await.expect(500);
    let kindless = plane.patch(WIDGET, MERGE, typed(json!("types.test/v1"), json!(""))).await.expect(422);
    assert_eq!(kindless["details"]["causes"][0]["field"], "patch");
    // A status write ignores the type.
    let body = json!({"apiVersion": "types.test/v2", "kind": "Widget", "status": {"ready": true}});
    let ignored = plane.patch(&format!("{WIDGET}/status"), MERGE, body).await;
    assert_eq!(warnings(&ignored), ["\"unknown field \"spec\"\"", "\"unknown field \"status\"\""]);
    let ignored = ignored.expect(200);
    assert_eq!((&ignored["apiVersion"], ignored.get("status")), (&json!("types.test/v1"), None));
    let body =
        json!({"apiVersion": "types.test/v2", "kind": "Widget", "metadata": {"name": "b"}, "spec": {}});
    let refused = plane.post(parent(WIDGET), body).await;
    assert_eq!(warnings(&refused), ["\"unknown field \"spec\"\""]);
    refused.expect(400);
}

/// A document that was replaced as a whole has no fields to warn about.
#[tokio::test]
async fn a_document_replaced_by_null_has_no_name() {
    let plane = filled().await;
    let whole = json!([{"op": "replace", "path": "", "value": {}}]);
    let nameless = plane.patch(SECRET, JSON_PATCH, whole).await;
    assert_eq!((nameless.code, warnings(&nameless)), (400, Vec::new()));
}

/// The text of an apply is checked after its content.
#[tokio::test]
async fn a_duplicate_key_in_applied_yaml_is_reported_by_line() {
    let plane = filled().await;
    let text = "\napiVersion: types.test/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  unknown: 1\n  foo: 1\n  foo: 2\n";
    let strict = format!("{WIDGET}?fieldManager=m&fieldValidation=Strict");
    let refused = plane.raw("PATCH", &strict, APPLY, text).await.expect(400);
    let complaint = "yaml: unmarshal errors:\n  line 9: key \"foo\" already set in map";
    let intro = "error strict decoding YAML: error converting YAML to JSON: ";
    assert_eq!(refused["message"], format!("{intro}{complaint}"));
    let warned = plane.raw("PATCH", &format!("{WIDGET}?fieldManager=m&force=true"), APPLY, text).await;
    assert_eq!(warnings(&warned), ["\"line 9: key \"foo\" already set in map\""]);
    assert_eq!(warned.expect(200)["spec"], json!({"x": 1, "unknown": 1, "foo": 2}));
    let body = "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\ndata:\n  k: eA==\n  k: eA==\n";
    let path = format!("{}?fieldValidation=Strict", parent(SECRET));
    let refused = plane.raw("POST", &path, "application/yaml", body).await.expect(400);
    let intro = "Secret in version \"v1\" cannot be handled as a Secret: strict decoding error: ";
    let complaint = "yaml: unmarshal errors:\n  line 6: key \"k\" already set in map";
    assert_eq!(refused["message"], format!("{intro}{complaint}"));
    for (text, message) in [
        (
            "[]",
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go \
                value of type map[string]interface {}",
        ),
        ("", "invalid object type: /, Kind="),
    ] {
        assert_eq!(plane.raw("PATCH", &strict, APPLY, text).await.expect(400)["message"], message);
    }
}
