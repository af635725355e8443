//! Tests ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use serde_json::{Value, json};

use super::{PODS, message, pod, start_without, warnings};
use crate::test_server::TestServer;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn config_map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": value}})
}

/// Starts a server with a policy of this kind for ConfigMaps and Pods, bound everywhere.
async fn start(sort: &str, spec: &Value, binding: &Value) -> TestServer {
    let plane = start_without(&["ServiceAccount"]).await;
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps", "pods"]}]);
    let mut policy =
        json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules}}});
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    let created = plane.post(&format!("{GROUP}/{sort}policies"), policy).await;
    assert_eq!(warnings(&created), Vec::<String>::new(), "policies are enforced now");
    created.expect(201);
    let mut bound = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
    for (field, value) in binding.as_object().unwrap() {
        bound["spec"][field] = value.clone();
    }
    plane.post(&format!("{GROUP}/{sort}policybindings"), bound).await.expect(201);
    plane
}

async fn validating(spec: &Value, actions: &[&str]) -> TestServer {
    start("validatingadmission", spec, &json!({"validationActions": actions})).await
}

#[tokio::test]
async fn a_validation_refuses_with_its_message_and_reason() {
    let validations = json!([
        {"expression": "variables.value != 'bad'", "messageExpression": "'no ' + variables.value"},
        {"expression": "variables.value != 'worse'", "message": "not at all", "reason": "Forbidden"},
        {"expression": "variables.value != 'odd'"}]);
    let variables = json!([{"name": "value", "expression": "object.data.a"}]);
    let plane = validating(&json!({"validations": validations, "variables": variables}), &["Deny"]).await;
    plane.post(CONFIG_MAPS, config_map("good", "good")).await.expect(201);
    let refused = plane.post(CONFIG_MAPS, config_map("x", "bad")).await.expect(422);
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no bad";
    assert_eq!(refused["message"], format!("configmaps \"x\" is forbidden: {why}"));
    assert_eq!(
        (&refused["reason"], &refused["details"]["causes"]),
        (&json!("Invalid"), &json!([{"message": why}]))
    );
    let refused = plane.post(CONFIG_MAPS, config_map("x", "worse")).await.expect(403);
    assert_eq!(refused["reason"], "Forbidden");
    let refused = message(plane.post(CONFIG_MAPS, config_map("x", "odd")).await, 422);
    assert!(refused.ends_with("denied request: failed expression: variables.value != 'odd'"), "{refused}");
}

#[tokio::test]
async fn a_policy_can_warn_instead() {
    let validations = json!([{"expression": "object.data.a != 'bad'", "message": "not so"}]);
    let plane = validating(&json!({"validations": validations}), &["Warn"]).await;
    let made = plane.post(CONFIG_MAPS, config_map("x", "bad")).await;
    let warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': not so";
    assert_eq!((made.code, warnings(&made)), (201, vec![warning.to_owned()]));
}

#[tokio::test]
async fn a_failure_refuses_unless_it_is_ignored() {
    let spec = |policy: &str| json!({"failurePolicy": policy, "validations": [{"expression": "object.data.none == 'x'"}]});
    let plane = validating(&spec("Fail"), &["Deny"]).await;
    let refused = message(plane.post(CONFIG_MAPS, config_map("x", "y")).await, 422);
    assert!(
        refused.contains("expression 'object.data.none == 'x'' resulted in error: no such key"),
        "{refused}"
    );
    let plane = validating(&spec("Ignore"), &["Deny"]).await;
    plane.post(CONFIG_MAPS, config_map("x", "y")).await.expect(201);
}

#[tokio::test]
async fn conditions_and_the_request_decide_where_a_policy_applies() {
    let spec = json!({"matchConditions": [{"name": "c", "expression": "request.userInfo.username != 'system:jane'"}],
        "validations": [{"expression": "oldObject == null && namespaceObject.metadata.name != 'default'"}]});
    let plane = validating(&spec, &["Deny"]).await;
    plane.post(CONFIG_MAPS, config_map("x", "y")).await.expect(422);
    plane
        .acting_as("system:jane", &["system:masters"])
        .post(CONFIG_MAPS, config_map("x", "y"))
        .await
        .expect(201);
}

#[tokio::test]
async fn parameters_come_from_objects() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.metadata.name == 'limits' || object.data.a == params.data.only"}]});
    let reference = json!({"name": "limits", "parameterNotFoundAction": "Deny"});
    let binding = json!({"validationActions": ["Deny"], "paramRef": reference});
    let plane = start("validatingadmission", &spec, &binding).await;
    let refused = message(plane.post(CONFIG_MAPS, config_map("x", "this")).await, 422);
    let why =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(refused.ends_with(why), "{refused}");
    let other = "/api/v1/namespaces/kube-public/configmaps";
    let limits = json!({"metadata": {"name": "limits"}, "data": {"only": "this"}});
    plane.post(other, limits.clone()).await.expect(422);
    plane.delete(&format!("{GROUP}/validatingadmissionpolicybindings/b")).await.expect(200);
    plane.post(CONFIG_MAPS, limits).await.expect(201);
    let bound = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "paramRef": reference}});
    plane.post(&format!("{GROUP}/validatingadmissionpolicybindings"), bound).await.expect(201);
    plane.post(CONFIG_MAPS, config_map("x", "this")).await.expect(201);
    plane.post(CONFIG_MAPS, config_map("y", "that")).await.expect(422);
}

#[tokio::test]
async fn an_expensive_policy_is_stopped() {
    let numbers = (0..200).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let expression = format!("[{numbers}].all(a, [{numbers}].all(b, [{numbers}].all(c, a + b + c >= 0)))");
    let plane = validating(&json!({"validations": [{"expression": expression}]}), &["Deny"]).await;
    let refused = message(plane.post(CONFIG_MAPS, config_map("x", "y")).await, 422);
    assert!(refused.contains("running out of cost budget"), "{refused}");
}

#[tokio::test]
async fn a_mutating_policy_merges_a_configuration() {
    let expression = "Object{metadata: Object.metadata{labels: {'added': object.metadata.name}}, spec: Object.spec{\
        containers: [Object.spec.containers{name: 'c', env: [Object.spec.containers.env{name: 'A', value: 'b'}]}]}}";
    let mutations =
        json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
    let conditions = json!([{"name": "c", "expression": "request.resource.resource == 'pods'"}]);
    let spec = json!({"mutations": mutations, "matchConditions": conditions, "reinvocationPolicy": "Never"});
    let plane = start("mutatingadmission", &spec, &json!({})).await;
    let made = plane.post(PODS, pod("a", &json!({}))).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"added": "a"}));
    let container = &made["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["env"]),
        (&json!("i"), &json!([{"name": "A", "value": "b"}]))
    );
    assert_eq!(made["spec"]["containers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_mutating_policy_patches() {
    let expression = "[JSONPatch{op: 'add', path: '/data/new', value: object.data.a + '!'}]";
    let mutations = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]);
    let spec = json!({"mutations": mutations, "reinvocationPolicy": "Never"});
    let plane = start("mutatingadmission", &spec, &json!({})).await;
    let made = plane.post(CONFIG_MAPS, config_map("a", "b")).await.expect(201);
    assert_eq!(made["data"], json!({"a": "b", "new": "b!"}));
    let broken = json!({"metadata": {"name": "x"}});
    let refused = message(plane.post(CONFIG_MAPS, broken).await, 403);
    assert!(
        refused.starts_with("configmaps \"x\" is forbidden: policy 'p' with binding 'b' denied request: "),
        "{refused}"
    );
}

/// A policy reads its parameters on behalf of every user, and its messages quote them.
#[tokio::test]
async fn whoever_names_parameters_must_be_allowed_to_read_them() {
    let plane = start_without(&["ServiceAccount"]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let grant = async |name: &str, rules: Value, user: &str| {
        plane
            .post(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules}))
            .await
            .expect(201);
        let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": name}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
        plane.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    };
    let policies =
        json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    grant("policies-of-jane", policies.clone(), "jane").await;
    grant("policies-of-joe", policies, "joe").await;
    grant("secrets-of-joe", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]), "joe")
        .await;
    let (jane, joe) = (plane.acting_as("jane", &[]), plane.acting_as("joe", &[]));
    for sort in ["validatingadmission", "mutatingadmission"] {
        let mut spec = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}});
        if sort == "validatingadmission" {
            spec["validations"] =
                json!([{"expression": "false", "messageExpression": "string(params.data.p)"}]);
        } else {
            spec["reinvocationPolicy"] = json!("Never");
            spec["mutations"] = json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: params.data}"}}]);
        }
        let policy = json!({"metadata": {"name": "p"}, "spec": spec});
        let bound = |name: &str| {
            let mut spec = json!({"policyName": "p", "paramRef": {"name": name, "namespace": "kube-system", "parameterNotFoundAction": "Deny"}});
            if sort == "validatingadmission" {
                spec["validationActions"] = json!(["Deny"]);
            }
            json!({"metadata": {"name": "b"}, "spec": spec})
        };
        let (all, bindings) = (format!("{GROUP}/{sort}policies"), format!("{GROUP}/{sort}policybindings"));
        let refused = message(jane.post(&all, policy.clone()).await, 403);
        assert!(refused.contains("user jane does not have \"get\" permission on all objects"), "{refused}");
        joe.post(&all, policy).await.expect(201);
        let refused = message(jane.post(&bindings, bound("crown")).await, 403);
        assert!(refused.contains("permission on the object referenced by paramRef"), "{refused}");
        joe.post(&bindings, bound("crown")).await.expect(201);
        let path = format!("{bindings}/b");
        let merge = "application/merge-patch+json";
        jane.patch(&path, merge, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
        let moved = json!({"spec": {"paramRef": {"name": "other"}}});
        assert!(message(jane.patch(&path, merge, moved).await, 403).contains("paramRef"));
    }
}

#[tokio::test]
async fn expressions_are_checked_when_they_are_written() {
    let plane = start_without(&[]).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    let policy = |validation: Value| {
        json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
            "validations": [validation]}})
    };
    let check = async |validation: Value, expected: &str| {
        let refused = plane.post(&format!("{group}/validatingadmissionpolicies"), policy(validation)).await;
        assert_eq!(
            message(refused, 422),
            format!("ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: {expected}")
        );
    };
    let undeclared = "spec.validations[0].expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared \
        reference to 'params' (in container '')\n | params.x == 1\n | ^";
    check(json!({"expression": "params.x == 1"}), undeclared).await;
    check(
        json!({"expression": "1"}),
        "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
    )
    .await;
    check(
        json!({"expression": " "}),
        "spec.validations[0].expression: Required value: expression is not specified",
    )
    .await;
    let number = json!({"expression": "true", "messageExpression": "1"});
    check(
        number,
        "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
    )
    .await;
    let webhook = json!({"metadata": {"name": "w"}, "webhooks": [{"name": "a.b.c", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1/"},
        "matchConditions": [{"name": "m", "expression": "nothing"}]}]});
    let refused = plane.post(&format!("{group}/validatingwebhookconfigurations"), webhook).await;
    let told = message(refused, 422);
    assert!(told.contains("webhooks[0].matchConditions[0].expression: Invalid value: \"nothing\": compilation failed: ERROR: "), "{told}");
}

/// Sixty mutations that use a costly variable, each of which changes the object: they share one budget.
#[tokio::test]
async fn mutations_share_one_budget() {
    let plane = start_without(&[]).await;
    let numbers = (0..300).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
    let costly = format!("[{numbers}].all(a, [{numbers}].all(b, a + b >= 0))");
    let mutations = |count: usize| {
        let text = |at: usize| {
            format!("Object{{metadata: Object.metadata{{labels: {{'l{at}': variables.n ? 'yes' : 'no'}}}}}}")
        };
        let mutation = |at: usize| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text(at)}});
        (0..count).map(mutation).collect::<Vec<_>>()
    };
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": rules}, "variables": [{"name": "n", "expression": costly}],
        "mutations": mutations(1)}});
    plane.post(&format!("{GROUP}/mutatingadmissionpolicies"), policy).await.expect(201);
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
    plane.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await.expect(201);
    let first = plane.post(CONFIG_MAPS, config_map("a", "b")).await.expect(201);
    assert_eq!(first["metadata"]["labels"], json!({"l0": "yes"}));
    let patch = json!({"spec": {"mutations": mutations(60)}});
    plane
        .patch(&format!("{GROUP}/mutatingadmissionpolicies/p"), crate::test_server::MERGE, patch)
        .await
        .expect(200);
    let refused = message(plane.post(CONFIG_MAPS, config_map("c", "d")).await, 403);
    let intro = "configmaps \"c\" is forbidden: policy 'p' with binding 'b' denied request: ";
    assert!(refused.starts_with(intro), "{refused}");
}
