//! Tests `authorizer` in expressions: policies and webhooks decide based on what the user, or an account, may do.

use serde_json::{Value, json};

use super::webhook_server::{Behaviour, WebhookServer};
use super::{message, start_without};
use crate::test_server::TestServer;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn grant(plane: &TestServer, name: &str, rules: Value, subject: Value) {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    plane.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    let binding = json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
    plane.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

/// Starts a server where both `jane` and `joe` may write ConfigMaps, and `jane` may `approve` them.
async fn start() -> TestServer {
    let plane = start_without(&["ServiceAccount"]).await;
    let writes = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]);
    grant(&plane, "jane-writes", writes.clone(), user("jane")).await;
    grant(&plane, "joe-writes", writes, user("joe")).await;
    let approves = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["approve"]},
        {"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
    grant(&plane, "jane-approves", approves, user("jane")).await;
    let account = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"});
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    grant(&plane, "robot-reads", secrets, account).await;
    plane
}

fn rules() -> Value {
    json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}])
}

async fn bind_policy(plane: &TestServer, validation: Value) {
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules()},
        "validations": [validation]}});
    plane.post(&format!("{GROUP}/validatingadmissionpolicies"), policy).await.expect(201);
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    plane.post(&format!("{GROUP}/validatingadmissionpolicybindings"), binding).await.expect(201);
}

#[tokio::test]
async fn a_validation_asks_what_the_user_may_do() {
    for expression in [
        "authorizer.requestResource.check('approve').allowed()",
        "authorizer.group('').resource('configmaps').namespace('default').check('approve').allowed()",
        "authorizer.path('/x').check('get').allowed()",
        "!authorizer.path('/x').check('get').allowed() ? false : authorizer.serviceAccount('default', 'robot')\
            .group('').resource('secrets').namespace('default').check('get').allowed()",
    ] {
        let plane = start().await;
        bind_policy(&plane, json!({"expression": expression, "message": "not approved"})).await;
        let object = json!({"metadata": {"name": "a"}});
        plane.acting_as("jane", &[]).post(CONFIG_MAPS, object.clone()).await.expect(201);
        let refused = message(plane.acting_as("joe", &[]).post(CONFIG_MAPS, object).await, 422);
        assert!(refused.ends_with("denied request: not approved"), "{expression}: {refused}");
    }
}

#[tokio::test]
async fn reasons_are_told_and_a_third_check_is_too_much() {
    let plane = start().await;
    let why = "authorizer.requestResource.check('approve').reason() == ''";
    bind_policy(&plane, json!({"expression": why})).await;
    let object = json!({"metadata": {"name": "a"}});
    let refused = message(plane.acting_as("jane", &[]).post(CONFIG_MAPS, object.clone()).await, 422);
    assert!(refused.ends_with(&format!("failed expression: {why}")), "{refused}");
    let three = ["authorizer.path('/y').check('get').errored()"; 3].join(" || ");
    let patch = json!({"spec": {"validations": [{"expression": three}]}});
    let policy = format!("{GROUP}/validatingadmissionpolicies/p");
    plane.patch(&policy, crate::test_server::MERGE, patch).await.expect(200);
    let refused = message(plane.acting_as("jane", &[]).post(CONFIG_MAPS, object).await, 422);
    assert!(refused.contains("running out of cost budget"), "{refused}");
}

#[tokio::test]
async fn mutations_and_match_conditions_ask_too() {
    let plane = start().await;
    let server = WebhookServer::start(|_| Behaviour::Respond(json!({"allowed": false}))).await;
    let conditions =
        json!([{"name": "c", "expression": "!authorizer.requestResource.check('approve').allowed()"}]);
    let hook = server.configuration("hook", &json!({"matchConditions": conditions, "rules": rules()}));
    plane.post(&format!("{GROUP}/validatingwebhookconfigurations"), hook).await.expect(201);
    let expression =
        "Object{data: {'by': authorizer.requestResource.check('approve').allowed() ? 'boss' : 'guest'}}";
    let policy = json!({"metadata": {"name": "m"}, "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": rules()},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]}});
    plane.post(&format!("{GROUP}/mutatingadmissionpolicies"), policy).await.expect(201);
    let binding = json!({"metadata": {"name": "m"}, "spec": {"policyName": "m"}});
    plane.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await.expect(201);
    let object = json!({"metadata": {"name": "a"}});
    let made = plane.acting_as("jane", &[]).post(CONFIG_MAPS, object.clone()).await.expect(201);
    assert_eq!(made["data"], json!({"by": "boss"}));
    assert_eq!(server.questions().len(), 0, "nobody asks about jane");
    plane.acting_as("joe", &[]).post(CONFIG_MAPS, object).await.expect(400);
    assert_eq!(server.questions()[0].1["request"]["object"]["data"], json!({"by": "guest"}));
}
