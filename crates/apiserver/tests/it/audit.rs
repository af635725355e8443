//! Tests the audit log: which lines a policy requires, and what they contain.

use std::path::Path;
use std::sync::Arc;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_apiserver::audit::{AuditLog, AuditPolicy, RotationLimits};
use homeostat_core::Clock;
use homeostat_store::Memory;
use serde_json::{Value, json};

use crate::admission::slow_webhooks::start_served;
use crate::admission::{pod, warnings};
use crate::test_server::{MERGE, TestServer};

const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts a server whose audit log is this file.
async fn start(rules: &str, path: &Path) -> TestServer {
    let policy = AuditPolicy::parse(&format!("{HEAD}{rules}")).unwrap();
    let log = AuditLog::open(policy, path, RotationLimits::default(), Clock::system()).unwrap();
    let builder = ApiServer::builder(Arc::new(Memory::new()));
    let plugins = AdmissionConfig::without_service_accounts();
    TestServer::start_with(builder.admission(plugins).audit(Some(Arc::new(log)))).await
}

/// Waits until the file has this many lines that match, and returns them.
async fn lines(path: &Path, is_wanted: impl Fn(&Value) -> bool, count: usize) -> Vec<Value> {
    let reading = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap();
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            let lines = complete.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let lines = lines.filter(&is_wanted).collect::<Vec<_>>();
            if lines.len() >= count {
                return lines;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), reading).await;
    waited.unwrap_or_else(|_| panic!("too few lines in {}", std::fs::read_to_string(path).unwrap()))
}

fn stages(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["stage"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_request_is_told_as_the_first_rule_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rules = "rules:\n- {level: None, users: [quiet]}\n\
        - {level: RequestResponse, omitManagedFields: true, verbs: [create], resources: [{resources: [configmaps]}]}\n\
        - {level: Request, verbs: [patch], resources: [{resources: [configmaps]}]}\n\
        - {level: Metadata, omitStages: [RequestReceived], resources: [{resources: [configmaps]}]}\n\
        - {level: Metadata, nonResourceURLs: [/version]}\n";
    let plane = start(rules, &path).await;
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let made = plane.post(&format!("{CONFIG_MAPS}?fieldManager=m"), object.clone()).await;
    let id = made.headers["audit-id"].to_str().unwrap().to_owned();
    made.expect(201);
    plane.acting_as("quiet", &[]).get(CONFIG_MAPS).await.expect(403);
    plane.acting_as("loud", &["g"]).get(&format!("{CONFIG_MAPS}/a")).await.expect(403);
    plane.patch(&format!("{CONFIG_MAPS}/a"), MERGE, json!({"data": {"k": "w"}})).await.expect(200);
    plane.get("/version").await.expect(200);
    let all = lines(&path, |_| true, 7).await;
    let expected = [
        "RequestReceived",
        "ResponseComplete",
        "ResponseComplete",
        "RequestReceived",
        "ResponseComplete",
        "RequestReceived",
        "ResponseComplete",
    ];
    assert_eq!(stages(&all), expected, "{all:#?}");
    let begun = &all[0];
    assert_eq!(
        (&begun["kind"], &begun["apiVersion"], &begun["level"]),
        (&json!("Event"), &json!("audit.k8s.io/v1"), &json!("RequestResponse"))
    );
    assert_eq!((begun["auditID"].as_str().unwrap(), &begun["verb"]), (&*id, &json!("create")));
    assert_eq!(begun["requestURI"], format!("{CONFIG_MAPS}?fieldManager=m"));
    assert!(begun.get("responseStatus").is_none() && begun.get("requestObject").is_none());
    let done = &all[1];
    assert_eq!(
        done["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"})
    );
    assert_eq!(
        (&done["requestObject"], &done["responseStatus"]),
        (&object, &json!({"metadata": {}, "code": 201}))
    );
    assert_eq!(done["responseObject"]["data"], object["data"]);
    assert!(done["responseObject"]["metadata"].get("managedFields").is_none());
    assert_eq!(
        done["annotations"],
        json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""})
    );
    let refused = &all[2];
    assert_eq!(refused["user"], json!({"username": "loud", "groups": ["g"]}));
    assert_eq!(
        (&refused["responseStatus"]["code"], &refused["responseStatus"]["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(
        (&all[4]["requestObject"], all[4].get("responseObject")),
        (&json!({"data": {"k": "w"}}), None)
    );
    assert_eq!((&all[5]["verb"], all[5].get("objectRef")), (&json!("get"), None));
}

#[tokio::test]
async fn a_watch_has_three_stages_and_admission_annotates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rules =
        "rules:\n- {level: Metadata, verbs: [watch, create], resources: [{resources: [configmaps, pods]}]}\n";
    let plane = start(rules, &path).await;
    let watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1")).await;
    assert_eq!(stages(&lines(&path, |_| true, 2).await), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    assert_eq!(lines(&path, |_| true, 3).await[2]["stage"], "ResponseComplete");
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/audit": "restricted"}}});
    plane.patch("/api/v1/namespaces/default", MERGE, labels).await.expect(200);
    let policy = json!({"metadata": {"name": "p.demo.dev"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "object.metadata.name != 'p'", "message": "no p"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "'it is ' + object.metadata.name"}]}});
    let group = "/apis/admissionregistration.k8s.io/v1";
    plane.post(&format!("{group}/validatingadmissionpolicies"), policy).await.expect(201);
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p.demo.dev", "validationActions": ["Audit"]}});
    plane.post(&format!("{group}/validatingadmissionpolicybindings"), binding).await.expect(201);
    plane.post("/api/v1/namespaces/default/pods", pod("p", &json!({}))).await.expect(201);
    let told = lines(&path, |line| line["objectRef"]["resource"] == "pods", 2).await;
    let annotations = &told[1]["annotations"];
    assert_eq!(annotations["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let violations = annotations["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(
        violations.starts_with(
            "would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false"
        ),
        "{violations}"
    );
    assert_eq!(annotations["p.demo.dev/name"], "it is p");
    let failures = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    let failures: Value = serde_json::from_str(failures).unwrap();
    assert_eq!(
        failures,
        json!([{"message": "no p", "policy": "p.demo.dev", "binding": "b", "expressionIndex": 0,
        "validationActions": ["Audit"]}])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_refused_early_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let policy = AuditPolicy::parse(&format!(
        "{HEAD}rules:\n- {{level: Metadata, resources: [{{resources: [configmaps]}}]}}\n"
    ));
    let log = AuditLog::open(policy.unwrap(), &path, RotationLimits::default(), Clock::system()).unwrap();
    let (config, _stop, _folder) = start_served(|builder| builder.audit(Some(Arc::new(log)))).await;
    let mut stranger = config.clone();
    stranger.auth_info = serde_json::from_value(json!({"token": "wrong"})).unwrap();
    let ask = async |config: kube::Config, body: Vec<u8>| {
        let request = http::Request::post(CONFIG_MAPS).header("content-type", "application/json");
        let client = kube::Client::try_from(config).unwrap();
        match client.request::<Value>(request.body(body).unwrap()).await {
            Err(kube::Error::Api(status)) => status.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(stranger, b"{}".to_vec()).await, 401);
    let told = lines(&path, |_| true, 1).await;
    assert_eq!(stages(&told), ["ResponseStarted"]);
    assert_eq!((&told[0]["user"], &told[0]["verb"]), (&json!({}), &json!("create")));
    let status = json!({"metadata": {}, "message": "Authentication failed, attempted: bearer", "code": 401});
    assert_eq!(told[0]["responseStatus"], status);
    assert_eq!(told[0]["sourceIPs"], json!(["127.0.0.1"]));
    let too_large = usize::try_from(homeostat_apiserver::limits::BODY_BYTES_MAX).unwrap() + 1;
    assert_eq!(ask(config, vec![b' '; too_large]).await, 413);
    let told = lines(&path, |_| true, 3).await;
    assert_eq!(stages(&told[1..]), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(
        (&told[2]["user"]["username"], &told[2]["responseStatus"]["code"]),
        (&json!("kubernetes-admin"), &json!(413))
    );
}

/// Bodies in protobuf are logged as JSON.
#[tokio::test]
async fn protobuf_is_told_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rules = "rules:\n- {level: RequestResponse, omitStages: [RequestReceived], resources: [{resources: [configmaps]}]}\n";
    let plane = start(rules, &path).await;
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let body = homeostat_api::protobuf::encode(&object).unwrap();
    let protobuf = "application/vnd.kubernetes.protobuf";
    plane.bytes("POST", CONFIG_MAPS, (protobuf, protobuf), body.clone()).await.expect(201);
    plane.bytes("POST", CONFIG_MAPS, (protobuf, protobuf), body).await.expect(409);
    let told = lines(&path, |_| true, 2).await;
    assert_eq!(told[0]["requestObject"]["data"], json!({"k": "v"}));
    assert_eq!(told[0]["objectRef"]["name"], "a");
    assert_eq!(
        (&told[0]["responseObject"]["kind"], &told[0]["responseObject"]["data"]),
        (&json!("ConfigMap"), &json!({"k": "v"}))
    );
    assert_eq!(
        (&told[1]["responseStatus"]["reason"], &told[1]["responseObject"]["kind"]),
        (&json!("AlreadyExists"), &json!("Status"))
    );
}

#[tokio::test]
async fn labels_for_an_audit_log_cause_no_warning_if_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let plane = start("rules:\n- {level: Metadata, omitStages: [RequestReceived]}\n", &path).await;
    let labels = json!({"pod-security.kubernetes.io/audit": "restricted"});
    let made = plane.post("/api/v1/namespaces", json!({"metadata": {"name": "x", "labels": labels}})).await;
    assert_eq!(warnings(&made), Vec::<String>::new());
    made.expect(201);
    plane.post("/api/v1/namespaces/x/pods", pod("p", &json!({}))).await.expect(201);
    let of_pod = |line: &Value| line["objectRef"]["resource"] == "pods" && line["verb"] == "create";
    let written = lines(&path, of_pod, 1).await;
    let violation = &written[0]["annotations"]["pod-security.kubernetes.io/audit-violations"];
    assert!(violation.as_str().unwrap().contains("would violate PodSecurity"), "{violation}");
}

/// Only logs are followed. On other requests the word means nothing, and their last line says so.
#[tokio::test]
async fn a_request_that_asks_to_follow_something_else_is_a_short_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let plane = start("rules:\n- {level: Metadata}\n", &path).await;
    plane.get(&format!("{CONFIG_MAPS}/absent?follow=true")).await.expect(404);
    let written = lines(&path, |line| line["objectRef"]["name"] == "absent", 2).await;
    assert_eq!(stages(&written), ["RequestReceived", "ResponseComplete"]);
}
