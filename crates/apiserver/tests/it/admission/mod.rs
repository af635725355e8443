//! Tests admission from the outside: real requests, one file for each plugin.

mod authorizer;
mod certificates;
mod classes;
mod guide;
mod hostile_webhooks;
mod limit_ranger;
mod namespace_lifecycle;
mod pod_security;
mod policies;
mod policy_types;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
pub(crate) mod slow_webhooks;
pub(crate) mod webhook_server;
mod webhooks;

use std::sync::Arc;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_store::Memory;
use serde_json::{Value, json};

use crate::test_server::{Answer, TestServer};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Starts a server with all of Kubernetes' plugins, except those that are disabled.
pub(crate) async fn start_without(disabled: &[&str]) -> TestServer {
    let disabled = disabled.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let plugins = AdmissionConfig::new(&[], &disabled).unwrap();
    TestServer::start_with(ApiServer::builder(Arc::new(Memory::new())).admission(plugins)).await
}

/// Returns a Pod with one container, and the given fields in its spec.
pub(crate) fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

pub(crate) fn warnings(answer: &Answer) -> Vec<String> {
    let warnings = answer.headers.get_all("warning").iter();
    let text = |warning: &http::HeaderValue| warning.to_str().unwrap().replace('\\', "");
    let inner = |text: String| text["299 - \"".len()..text.len() - 1].to_owned();
    warnings.map(|one| inner(text(one))).collect()
}

/// Returns the message of a refusal with this code.
#[track_caller]
pub(crate) fn message(answer: Answer, code: u16) -> String {
    answer.expect(code)["message"].as_str().unwrap().to_owned()
}
