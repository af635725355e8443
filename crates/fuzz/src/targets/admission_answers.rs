//! Answers of admission webhooks: whatever a webhook answers, the client gets a Status or a valid object, and the
//! webhook does not change fields that only the server sets.
//!
//! Input: `{"kind": "ConfigMap" or "Deployment", "response": …, "patch": …, "document": …, "raw": …, "code": …}`.

use serde_json::{Value, json};

use super::text_of;
use crate::corpus::Corpus;
use crate::server::{Answer, FuzzServer};
use crate::target::{Features, Target, Violation, require, require_equal};
use crate::webhook::FuzzWebhook;

/// The number of inputs for one server, whose memory grows because it keeps a history of writes for some time.
const INPUTS_PER_SERVER: u64 = 2000;

pub(crate) struct AdmissionAnswers {
    server: FuzzServer,
    webhook: FuzzWebhook,
    inputs: u64,
}

impl AdmissionAnswers {
    pub(crate) fn new() -> Self {
        let server = FuzzServer::start();
        let webhook = server.runtime.block_on(FuzzWebhook::start()).expect("loopback has a free port");
        let resources = ["configmaps", "deployments"];
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        server.create(path, &webhook.configuration("fuzz", &resources));
        Self { server, webhook, inputs: 0 }
    }

    /// Checks an object that was created: stored as answered, server-owned fields untouched, and valid.
    fn check_created(&self, list: &str, sent: &Value, object: &Value) -> Result<String, Violation> {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        for field in ["apiVersion", "kind"] {
            require_equal("what the object is", &object[field], &sent[field])?;
        }
        require_equal("the namespace", &text("namespace"), &"default")?;
        let is_uid = text("uid").len() == UID_LETTERS && text("uid") != OTHER_UID;
        require(is_uid, || format!("the uid is not the server's: {}", text("uid")))?;
        let has_time = text("creationTimestamp")
            .parse::<jiff::Timestamp>()
            .is_ok_and(|time| time.as_second() > 1_600_000_000);
        require(has_time, || format!("the time is not the server's: {}", text("creationTimestamp")))?;
        require(text("resourceVersion").parse::<u64>().is_ok(), || {
            format!("no version: {}", text("resourceVersion"))
        })?;
        require(object["metadata"]["deletionTimestamp"].is_null(), || "created in deletion".to_owned())?;
        // Kubernetes keeps whatever generation a ConfigMap is created with.
        if object["kind"] == "Deployment" {
            require_equal("the generation", &object["metadata"]["generation"].as_u64(), &Some(1))?;
            require_equal("the status", &object["status"], &json!({}))?;
        }
        let path = format!("{list}/{}", text("name"));
        let ask =
            |method, body| self.server.ask(method, &path, body).ok_or_else(|| format!("no path: {path}"));
        require_equal("what was stored", &ask("GET", &Value::Null)?.body, object)?;
        self.webhook.set_reply(allow());
        let written = ask("PUT", object)?;
        require(written.code == 200, || format!("it cannot be written back: {}", written.body))?;
        require_equal("written back", &written.body, object)?;
        ask("DELETE", &Value::Null)?;
        Ok(super::merge_patch::shape(object, 1))
    }
}

/// The length of every uid that the server generates.
const UID_LETTERS: usize = 36;

/// A uid that a webhook may try to set.
const OTHER_UID: &str = "5c0d9b6e-7a3f-4c50-9a51-0d6f4b8f2a11";

fn allow() -> Value {
    json!({"response": {"allowed": true}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "example.test/app:1"}]}}}})
}

impl Target for AdmissionAnswers {
    fn seeds(&self, _: &Corpus) -> Vec<Value> {
        let patches = [
            json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
            json!([{"op": "add", "path": "/metadata/uid", "value": OTHER_UID},
                {"op": "add", "path": "/metadata/creationTimestamp", "value": "2001-01-02T03:04:05Z"}]),
            json!([{"op": "add", "path": "/metadata/resourceVersion", "value": "1"}]),
            json!([{"op": "add", "path": "/metadata/generation", "value": 7}, {"op": "add", "path": "/status", "value": {"replicas": 3}}]),
            json!([{"op": "add", "path": "/metadata/deletionTimestamp", "value": "2001-01-02T03:04:05Z"}]),
            json!([{"op": "replace", "path": "/metadata/name", "value": "another"}]),
            json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]),
            json!([{"op": "remove", "path": "/metadata"}]),
            json!([{"op": "add", "path": "/metadata/managedFields", "value": []}]),
            json!([{"op": "add", "path": "/data", "value": {"k": "v"}}, {"op": "add", "path": "/spec/replicas", "value": 3}]),
            json!([{"op": "replace", "path": "", "value": {}}]),
        ];
        let mut seeds = Vec::new();
        for kind in ["ConfigMap", "Deployment"] {
            let of = |more: Value| json!({"kind": kind, "response": {"allowed": true}, "patch": more});
            seeds.extend(patches.clone().map(of));
            seeds.push(json!({"kind": kind, "response": {"allowed": false, "status": {"code": 403, "message": "no", "reason": "Odd",
                "details": {"causes": [{"reason": "r", "message": "m", "field": "f"}]}}, "warnings": ["careful"],
                "auditAnnotations": {"k": "v"}}}));
            seeds.push(json!({"kind": kind, "document": {"kind": "AdmissionReview"}, "code": 200}));
            seeds.push(json!({"kind": kind, "raw": "{", "code": 503}));
        }
        seeds
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "add",
            "remove",
            "replace",
            "move",
            "copy",
            "test",
            "op",
            "path",
            "value",
            "from",
            "/metadata",
            "/metadata/name",
            "/metadata/uid",
            "/metadata/generateName",
            "/metadata/finalizers",
            "/metadata/ownerReferences",
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/namespace",
            "/metadata/managedFields",
            "/metadata/generation",
            "/spec",
            "/status",
            "/data",
            "/data/k",
            "/spec/template/spec/containers/0",
            "/kind",
            "/apiVersion",
            "/spec/replicas",
            "/immutable",
            "allowed",
            "response",
            "warnings",
            "status",
            "code",
            "patchType",
            "JSONPatch",
            "/metadata/deletionTimestamp",
            "/binaryData",
            "/metadata/selfLink",
            "/metadata/creationTimestamp",
            "/metadata/deletionGracePeriodSeconds",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        self.inputs += 1;
        if self.inputs > INPUTS_PER_SERVER {
            *self = Self::new();
        }
        let outcome = self.try_answer(input);
        if outcome.is_err() {
            // Start a new server: leftovers would make the next input fail as well.
            self.inputs = INPUTS_PER_SERVER;
        }
        outcome
    }
}

impl AdmissionAnswers {
    fn try_answer(&self, input: &Value) -> Result<Features, Violation> {
        let (list, sent) = if text_of(input, "kind") == "Deployment" {
            ("/apis/apps/v1/namespaces/default/deployments", deployment())
        } else {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}});
            ("/api/v1/namespaces/default/configmaps", object)
        };
        self.webhook.set_reply(input.clone());
        let Answer { code, body, headers } = self.server.ask("POST", list, &sent).expect("a fixed path");
        let warnings = headers.get_all("warning").iter().count().min(3);
        if code == 201 {
            return Ok(vec![format!("created {warnings}"), self.check_created(list, &sent, &body)?]);
        }
        require(code >= 400, || format!("neither created nor refused: {code} {body}"))?;
        require_equal(
            "a refusal",
            &(body["kind"].as_str(), body["code"].as_u64()),
            &(Some("Status"), Some(code.into())),
        )?;
        let stored = self.server.ask("GET", list, &Value::Null).expect("a fixed path");
        require_equal(
            "what is stored after a refusal",
            &stored.body["items"].as_array().map(Vec::len),
            &Some(0),
        )?;
        Ok(vec![format!("{code} {warnings} {}", body["message"].as_str().unwrap_or_default())])
    }
}
