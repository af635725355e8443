//! Tests unusual paths and queries, as recorded from kube-apiserver v1.36.4.

use serde_json::{Value, json};

use crate::test_server::{Answer, MERGE, TestServer};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WIDGETS: &str = "/apis/paths.test/v1/namespaces/default/widgets";

/// Starts a server with one Secret and one custom object, both called `a`.
async fn filled() -> TestServer {
    let plane = TestServer::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "widgets.paths.test"}, "spec": {"group": "paths.test",
        "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(definitions, definition).await.expect(201);
    plane.post(SECRETS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let widget = json!({"apiVersion": "paths.test/v1", "kind": "Widget", "metadata": {"name": "a"}});
    plane.post(WIDGETS, widget).await.expect(201);
    plane
}

/// Summarizes a response: its kind, or the reason for the refusal.
fn gist(answer: &Answer) -> String {
    match &answer.body {
        Value::Object(body) if body["kind"] == "Status" => {
            format!("{} {}", answer.code, body["message"].as_str().unwrap())
        }
        Value::Object(body) => format!("{} {}", answer.code, body["kind"].as_str().unwrap()),
        other => format!("{} {}", answer.code, other.as_str().unwrap_or_default()),
    }
}

#[tokio::test]
async fn an_encoded_slash_is_a_slash() {
    let plane = filled().await;
    let unknown = "404 the server could not find the requested resource";
    let rows = [
        ("/a%2Fb", unknown, "404 widgets.paths.test \"a\" not found"),
        ("/%2F", "200 SecretList", "200 WidgetList"),
        ("/a%2f", "200 Secret", "200 Widget"),
        ("%2Fa", "200 Secret", "200 Widget"),
        ("/a%2Fstatus", unknown, "200 Widget"),
        ("/a%2Fstatus/more", unknown, "200 Widget"),
        ("/%61", "200 Secret", "200 Widget"),
        ("/..%2Fsecrets/a", unknown, "404 widgets.paths.test \"..\" not found"),
        (
            "/%2e%2e",
            "400 Name parameter invalid: \"..\": may not be '..'",
            "400 Name parameter invalid: \"..\": may not be '..'",
        ),
        (
            "/a%25b",
            "400 Name parameter invalid: \"a%b\": may not contain '%'",
            "400 Name parameter invalid: \"a%b\": may not contain '%'",
        ),
        ("/%zz", "400 400 Bad Request", "400 400 Bad Request"),
        ("//", "200 SecretList", "200 WidgetList"),
    ];
    for (suffix, built_in, custom) in rows {
        assert_eq!(gist(&plane.get(&format!("{SECRETS}{suffix}")).await), built_in, "{suffix}");
        assert_eq!(gist(&plane.get(&format!("{WIDGETS}{suffix}")).await), custom, "{suffix}");
    }
    let get = async |path: &str| gist(&plane.get(path).await);
    assert_eq!(get("/api/v1%2Fnamespaces%2Fdefault/secrets").await, "200 SecretList");
    assert_eq!(get("/api/v1/namespaces/default%2Fx/secrets").await, unknown);
    assert_eq!(get("/apis/paths.test/v1/namespaces/default%2Fx/widgets").await, "404 404 page not found\n");
    assert_eq!(get("/api/v1/namespaces/%2e%2e/secrets").await, "500 invalid key: \"/secrets/..\"");
    assert_eq!(get("/%61pi/v1").await, "200 APIResourceList");
    assert_eq!(get(&format!("/{SECRETS}")).await, "404 404 page not found\n");
    assert_eq!(get("/api/v1/namespaces/default/pods/x/status/y").await, unknown);
    assert_eq!(get("/api/v1/pods/x/status").await, unknown);
    for method in ["PUT", "PATCH", "DELETE"] {
        let answer = plane.raw(method, &format!("{SECRETS}/a%2Fb"), MERGE, "{}").await;
        assert_eq!(gist(&answer), unknown, "{method}");
    }
    plane.get(&format!("{SECRETS}/a")).await.expect(200);
}

/// A user who may read one Secret cannot reach another by writing its path differently.
#[tokio::test]
async fn rules_see_the_path_that_is_served() {
    let plane = filled().await;
    plane.post(SECRETS, json!({"metadata": {"name": "b"}})).await.expect(201);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]});
    plane
        .post(&format!("{rbac}/roles"), json!({"metadata": {"name": "r"}, "rules": [rule]}))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "u"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    plane.post(&format!("{rbac}/rolebindings"), binding).await.expect(201);
    let user = plane.acting_as("u", &[]);
    for path in ["/a", "/%61", "%2Fa", "/a%2F"] {
        user.get(&format!("{SECRETS}{path}")).await.expect(200);
    }
    for path in ["/b", "/%62", "%2Fb", "/a%2F..%2Fb", "/b%2F", "", "/", "%2F"] {
        user.get(&format!("{SECRETS}{path}")).await.expect(403);
    }
}

#[tokio::test]
async fn odd_queries_are_read_as_go_reads_them() {
    let plane = filled().await;
    for base in [SECRETS, WIDGETS, "/api/v1/namespaces"] {
        for query in
            ["limit=", "limit", "limit=x", "limit=1.5", "timeoutSeconds=", "limit=99999999999999999999"]
        {
            plane.get(&format!("{base}?{query}")).await.expect(400);
            plane.get(&format!("{base}?watch=1&{query}")).await.expect(400);
        }
        // A pair with a semicolon or a broken escape counts as absent.
        let queries =
            ["limit=1;x=2", "limit=x;", "labelSelector=a;b", "limit=%zz", "labelSelector=%zz", "a;b", "&&="];
        for query in queries {
            let list = plane.get(&format!("{base}?{query}")).await.expect(200);
            assert!(list["metadata"]["continue"].as_str().is_none_or(str::is_empty), "{query}");
        }
        let list = plane.get(&format!("{base}?watch=False")).await.expect(200);
        assert!(list["kind"].as_str().unwrap().ends_with("List"));
    }
    plane.get(&format!("{SECRETS}/a?resourceVersion=1;2")).await.expect(200);
    // The dry run was not requested in a way that Go understands.
    plane.post(&format!("{SECRETS}?dryRun=All;"), json!({"metadata": {"name": "real"}})).await.expect(201);
    plane.get(&format!("{SECRETS}/real")).await.expect(200);
}

#[tokio::test]
async fn options_of_a_deletion_in_the_query() {
    let plane = filled().await;
    let delete = async |query: &str| plane.delete(&format!("{SECRETS}/a?{query}")).await;
    delete("propagationPolicy=").await.expect(422);
    let refused = delete("propagationPolicy=x&orphanDependents=true").await.expect(422);
    assert_eq!(refused["details"]["causes"].as_array().unwrap().len(), 2);
    delete("gracePeriodSeconds=").await.expect(400);
    for query in ["uid=x", "resourceVersion=x", "resourceVersion=0"] {
        let refused = delete(query).await.expect(409);
        assert_eq!(refused["details"]["kind"], "Secret", "{query}");
    }
    let stored = plane.get(&format!("{SECRETS}/a")).await.expect(200);
    let uid = stored["metadata"]["uid"].as_str().unwrap();
    delete(&format!("uid={uid}&resourceVersion=")).await.expect(200);
}

#[tokio::test]
async fn every_wrong_option_of_a_patch_is_reported() {
    let plane = filled().await;
    let apply = "application/apply-patch+yaml";
    let causes = async |query: &str, media: &str| {
        let refused = plane.raw("PATCH", &format!("{SECRETS}/a?{query}"), media, "{}").await.expect(422);
        assert_eq!(refused["details"]["kind"], "PatchOptions");
        let causes = refused["details"]["causes"].as_array().unwrap().iter();
        let mut fields = causes.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        fields.sort();
        fields.join(" ")
    };
    assert_eq!(causes("dryRun=All&dryRun=x", apply).await, "dryRun fieldManager");
    assert_eq!(causes("fieldValidation=x", apply).await, "fieldManager fieldValidation");
    assert_eq!(causes("force=true&dryRun=x&dryRun=y", MERGE).await, "dryRun force");
    assert_eq!(causes("fieldManager=%00%01", MERGE).await, "fieldManager fieldManager");
}

/// Documents about whole groups are served for any method; those about one version, and the token keys, only for GET.
#[tokio::test]
async fn documents_answer_the_same_methods_as_in_kubernetes() {
    let plane = TestServer::start().await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"] {
        for path in
            ["/", "/index.html", "/apis", "/apis/apps", "/openapi/v2", "/openapi/v3", "/metrics", "/healthz"]
        {
            assert_eq!(plane.raw(method, path, MERGE, "{}").await.code, 200, "{method} {path}");
        }
        for path in ["/api", "/api/v1", "/apis/apps/v1", "/version"] {
            assert_eq!(plane.raw(method, path, MERGE, "{}").await.code, 405, "{method} {path}");
        }
        for path in ["/apis/nope.io", "/apis/apps/v9", "/api/v2", "/nope"] {
            assert_eq!(plane.raw(method, path, MERGE, "{}").await.code, 404, "{method} {path}");
        }
    }
}
