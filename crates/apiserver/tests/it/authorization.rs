//! Tests authorization: bindings take effect immediately, and users cannot grant permissions that they do not have.

use serde_json::{Value, json};

use crate::test_server::{APPLY, TestServer};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const EVERYBODY: &[&str] = &["system:authenticated"];

async fn allow(plane: &TestServer, user: &str, rules: Value) {
    let role = json!({"metadata": {"name": user}, "rules": rules});
    plane.post(&format!("{RBAC}/namespaces/default/roles"), role).await.expect(201);
    let binding = json!({"metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    plane.post(&format!("{RBAC}/namespaces/default/rolebindings"), binding).await.expect(201);
}

#[tokio::test]
async fn metrics_need_permission() {
    let plane = TestServer::start().await;
    plane.acting_as("jane", &["system:authenticated"]).get("/metrics").await.expect(403);
    let watcher = plane.acting_as("prometheus", &["system:monitoring"]);
    let maps = "/api/v1/namespaces/default/configmaps";
    plane.get(&format!("{maps}/none")).await.expect(404);
    plane.post(maps, json!({"metadata": {"name": "a"}})).await.expect(201);
    let events = plane.watch(&format!("{maps}?watch=1")).await;
    let counted = |text: &str, name: &str, labels: &[&str]| {
        let mut lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let line = lines.find(|line| labels.iter().all(|label| line.contains(label)))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let text = watcher.get("/metrics").await.expect(200);
    let text = text.as_str().unwrap();
    let total = |labels: &[&str]| counted(text, "apiserver_request_total", labels);
    assert_eq!(
        total(&["code=\"404\"", "resource=\"configmaps\"", "verb=\"GET\"", "scope=\"resource\""]),
        Some(1.0)
    );
    assert_eq!(
        total(&["code=\"201\"", "resource=\"configmaps\"", "verb=\"POST\"", "version=\"v1\""]),
        Some(1.0)
    );
    assert_eq!(total(&["code=\"403\"", "subresource=\"/metrics\""]), Some(1.0));
    let took = ["resource=\"configmaps\"", "verb=\"POST\"", "le=\"+Inf\""];
    assert_eq!(counted(text, "apiserver_request_duration_seconds_bucket", &took), Some(1.0));
    let watching = ["resource=\"configmaps\"", "verb=\"WATCH\""];
    assert_eq!(counted(text, "apiserver_longrunning_requests", &watching), Some(1.0));
    assert!(counted(text, "apiserver_storage_objects", &["resource=\"configmaps\""]) > Some(0.0));
    assert!(text.contains("\nhomeostat_store_revision "), "{text}");
    assert!(!cfg!(target_os = "linux") || text.contains("\nprocess_resident_memory_bytes "), "{text}");
    drop(events);
    let text = watcher.get("/metrics").await.expect(200);
    assert_eq!(counted(text.as_str().unwrap(), "apiserver_longrunning_requests", &watching), Some(0.0));
}

#[tokio::test]
async fn nothing_is_allowed_without_a_binding() {
    let plane = TestServer::start().await;
    let jane = plane.acting_as("jane", EVERYBODY);
    let maps = "/api/v1/namespaces/default/configmaps";
    let refused = jane.get(maps).await.expect(403);
    let expected = "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in \
        the namespace \"default\"";
    assert_eq!(refused["message"], expected);
    allow(&plane, "jane", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])).await;
    jane.get(maps).await.expect(200);
    jane.get(&format!("{maps}/kube-root-ca.crt")).await.expect(403);
    jane.get("/api/v1/namespaces/kube-system/configmaps").await.expect(403);
    jane.get("/api/v1/configmaps").await.expect(403);
    plane.delete(&format!("{RBAC}/namespaces/default/rolebindings/jane")).await.expect(200);
    jane.get(maps).await.expect(403);
}

#[tokio::test]
async fn rules_can_name_objects_and_subresources() {
    let plane = TestServer::start().await;
    let jane = plane.acting_as("jane", EVERYBODY);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]}]);
    allow(&plane, "jane", rules).await;
    jane.get("/api/v1/namespaces/default/configmaps/mine").await.expect(404);
    jane.get("/api/v1/namespaces/default/configmaps/other").await.expect(403);
    jane.get("/apis/apps/v1/namespaces/default/deployments/d/scale").await.expect(404);
    jane.get("/apis/apps/v1/namespaces/default/deployments/d").await.expect(403);
}

#[tokio::test]
async fn nobody_grants_more_permissions_than_they_have() {
    let plane = TestServer::start().await;
    let jane = plane.acting_as("jane", EVERYBODY);
    let manage = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
        "verbs": ["create"]});
    let read = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    allow(&plane, "jane", json!([manage, read])).await;
    let role = |name: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]});
    let roles = format!("{RBAC}/namespaces/default/roles");
    jane.post(&roles, role("readers", "get")).await.expect(201);
    let refused = jane.post(&roles, role("writers", "update")).await.expect(403);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("attempting to grant RBAC permissions not currently held")
    );
    let binding = json!({"metadata": {"name": "up"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    jane.post(&format!("{RBAC}/namespaces/default/rolebindings"), binding).await.expect(403);
}

#[tokio::test]
async fn everyone_may_review_their_own_permissions() {
    let plane = TestServer::start().await;
    let jane = plane.acting_as("jane", EVERYBODY);
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let question = |verb: &str| {
        let attributes = json!({"namespace": "default", "verb": verb, "resource": "configmaps"});
        json!({"spec": {"resourceAttributes": attributes}})
    };
    allow(&plane, "jane", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])).await;
    assert_eq!(jane.post(reviews, question("get")).await.expect(201)["status"]["allowed"], true);
    assert_eq!(jane.post(reviews, question("delete")).await.expect(201)["status"]["allowed"], false);
    jane.get("/version").await.expect(200);
    jane.get("/metrics").await.expect(403);
}

#[tokio::test]
async fn health_is_public_and_names_its_checks() {
    let plane = TestServer::start().await;
    let anybody = plane.acting_as("system:anonymous", &["system:unauthenticated"]);
    anybody.get("/api/v1/namespaces").await.expect(403);
    assert_eq!(anybody.get("/readyz").await.expect(200), "ok");
    let verbose = plane.get("/readyz?verbose").await.expect(200);
    assert_eq!(verbose, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n");
}

#[tokio::test]
async fn aggregated_roles_show_their_combined_rules() {
    let plane = TestServer::start().await;
    let roles = format!("{RBAC}/clusterroles");
    let rule = json!({"apiGroups": ["demo.dev"], "resources": ["lamps"], "verbs": ["get"]});
    let part = json!({"metadata": {"name": "lamps", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule]});
    plane.post(&roles, part).await.expect(201);
    let has = |answer: &crate::test_server::Answer| answer.body["rules"].as_array().unwrap().contains(&rule);
    for sum in ["view", "edit", "admin"] {
        plane.until(&format!("{roles}/{sum}"), has).await;
    }
    plane.delete(&format!("{roles}/lamps")).await.expect(200);
    plane.until(&format!("{roles}/view"), |answer| !has(answer)).await;
}

#[tokio::test]
async fn creating_by_other_verbs_needs_permission_to_create() {
    let plane = TestServer::start().await;
    let rules = json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"],
        "verbs": ["get", "patch", "update"]}]);
    allow(&plane, "jane", rules).await;
    let jane = plane.acting_as("jane", EVERYBODY);
    let map = "/api/v1/namespaces/default/configmaps/new";
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "1"}});
    let apply = format!("{map}?fieldManager=jane");
    let refused = jane.patch(&apply, APPLY, body.clone()).await.expect(403);
    assert_eq!(
        refused["message"],
        "configmaps \"new\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in \
         the namespace \"default\""
    );
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/new";
    jane.put(lease, json!({"metadata": {"name": "new"}})).await.expect(403);
    plane.get(lease).await.expect(404);
    plane.patch(&apply, APPLY, body.clone()).await.expect(201);
    jane.patch(&apply, APPLY, body).await.expect(200);
}

#[tokio::test]
async fn a_list_of_one_name_is_a_request_for_it_and_a_deletion_of_a_collection_is_not() {
    let plane = TestServer::start().await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"],
        "verbs": ["list", "watch", "deletecollection"]}]);
    allow(&plane, "jane", rules).await;
    let jane = plane.acting_as("jane", EVERYBODY);
    let secrets = "/api/v1/namespaces/default/secrets";
    for name in ["mine", "other"] {
        plane.post(secrets, json!({"metadata": {"name": name}})).await.expect(201);
    }
    let check = async |selector: &str, code: u16| {
        let path = format!("{secrets}?fieldSelector={selector}");
        assert_eq!(jane.get(&path).await.code, code, "{selector}");
    };
    for allowed in ["metadata.name%3Dmine", "metadata.name%3D%3Dmine", "type%3DOpaque,metadata.name%3Dmine"] {
        check(allowed, 200).await;
    }
    for refused in
        ["metadata.name%3Dother", "metadata.name!%3Dmine", "type%3Dmine", "metadata.name%3D%2E%2E", ""]
    {
        check(refused, 403).await;
    }
    jane.delete(&format!("{secrets}?fieldSelector=metadata.name%3Dmine")).await.expect(403);
    plane.get(&format!("{secrets}/mine")).await.expect(200);
}
