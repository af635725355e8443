//! Tests the status of a ValidatingAdmissionPolicy: its expressions are checked against the schemas of the kinds that
//! it matches.

use serde_json::{Value, json};

use super::start_without;
use crate::test_server::{MERGE, TestServer};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

async fn checked(plane: &TestServer, name: &str, rule: Value, validations: Value) -> Value {
    let policy = json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [rule]},
        "validations": validations}});
    plane.post(POLICIES, policy).await.expect(201);
    let path = format!("{POLICIES}/{name}");
    plane.until(&path, |answer| answer.body["status"]["typeChecking"].is_object()).await.body
}

#[tokio::test]
async fn expressions_are_checked_against_built_in_kinds() {
    let plane = start_without(&[]).await;
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]});
    let fine = json!([{"expression": "object.spec.replicas > 1"}]);
    let policy = checked(&plane, "fine", rule.clone(), fine).await;
    assert_eq!(policy["status"], json!({"observedGeneration": 1, "typeChecking": {}}));
    let confused = json!([{"expression": "object.spec.replicas > '1'",
        "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas"}]);
    let policy = checked(&plane, "confused", rule, confused).await;
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings.as_array().map(Vec::len), Some(2), "{policy:#}");
    let expected = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to \
        '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n";
    assert_eq!(warnings[0], json!({"fieldRef": "spec.validations[0].expression", "warning": expected}));
    assert_eq!(warnings[1]["fieldRef"], "spec.validations[0].messageExpression");
    let patch = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 2"}]}});
    plane.patch(&format!("{POLICIES}/confused"), MERGE, patch).await.expect(200);
    let is_checked = |answer: &crate::test_server::Answer| answer.body["status"]["observedGeneration"] == 2;
    let repaired = plane.until(&format!("{POLICIES}/confused"), is_checked).await.body;
    assert_eq!(repaired["status"]["typeChecking"], json!({}));
}

#[tokio::test]
async fn expressions_are_checked_against_definitions() {
    let plane = start_without(&[]).await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"cronSpec": {"type": "string"}, "replicas": {"type": "integer"}}}}});
    let names = json!({"plural": "crontabs", "singular": "crontab", "kind": "CronTab"});
    let definition = json!({"metadata": {"name": "crontabs.demo.dev"}, "spec": {"group": "demo.dev", "names": names,
        "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let rule = json!({"apiGroups": ["demo.dev"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["crontabs"]});
    let fine = json!([{"expression": "object.spec.replicas > 1 && object.metadata.labels.size() > 0"}]);
    let policy = checked(&plane, "fine", rule.clone(), fine).await;
    assert_eq!(policy["status"]["typeChecking"], json!({}));
    let confused =
        json!([{"expression": "object.spec.replicas > '1'"}, {"expression": "object.spec.maxRetries < 10"}]);
    let policy = checked(&plane, "confused", rule, confused).await;
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    let text = |at: usize| warnings[at]["warning"].as_str().unwrap_or_default().to_owned();
    assert!(
        text(0).contains("found no matching overload for '_>_' applied to '(int, string)'"),
        "{warnings}"
    );
    assert!(text(1).contains("undefined field 'maxRetries'"), "{warnings}");
    assert!(text(1).starts_with("demo.dev/v1, Kind=CronTab: ERROR: <input>:1:12: "), "{warnings}");
}
