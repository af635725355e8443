//! Defaults of Pods and of the Pod specs inside templates.
//!
//! A Pod gets more than a template: requests from limits, service links, host ports. A template must stay as its
//! author wrote it there, or comparing two templates would see differences nobody made.

use serde_json::{Map, Value};

use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, is_zero};

/// File mode 0644, in decimal as JSON wants it.
const VOLUME_MODE: u32 = 0o644;

const GRACE_S: u32 = 30;

const TOKEN_LIFETIME_S: u32 = 3600;

pub(in crate::kinds) const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

/// The spec of a Pod or of a template.
pub(in crate::kinds) fn pod_spec(spec: &mut Fields) {
    fill_zero(spec, "restartPolicy", "Always");
    fill_zero(spec, "dnsPolicy", "ClusterFirst");
    fill_zero(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", GRACE_S);
    fill(spec, "securityContext", Map::new());
    service_account(spec);
    for list in CONTAINER_LISTS.into_iter().chain(["ephemeralContainers"]) {
        for one in each(spec, list) {
            container(one);
        }
    }
    for one in each(spec, "volumes") {
        volume(one);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are served.
fn service_account(spec: &mut Fields) {
    let name = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|field| spec.get(*field).filter(|value| !is_zero(Some(value))).cloned());
    if let Some(name) = name {
        spec.insert("serviceAccountName".into(), name.clone());
        spec.insert("serviceAccount".into(), name);
    }
}

fn container(container: &mut Fields) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = pull_policy(image);
    fill_zero(container, "imagePullPolicy", policy);
    fill_zero(container, "terminationMessagePath", "/dev/termination-log");
    fill_zero(container, "terminationMessagePolicy", "File");
    fill(container, "resources", Map::new());
    for port in each(container, "ports") {
        fill_zero(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        if let Some(reference) = inner(variable, "valueFrom").and_then(|from| inner(from, "fieldRef")) {
            fill_zero(reference, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(one) = inner(container, name) {
            probe(one);
        }
    }
    if let Some(lifecycle) = inner(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(request) = inner(lifecycle, name).and_then(|handler| inner(handler, "httpGet")) {
                http_get(request);
            }
        }
    }
}

/// `Always` for images that move: no tag and no digest, or the tag `latest`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    // An image that cannot be parsed has no tag at all.
    if last.is_empty() || last.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase()) {
        return "IfNotPresent";
    }
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn probe(probe: &mut Fields) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill_zero(probe, name, value);
    }
    if let Some(request) = inner(probe, "httpGet") {
        http_get(request);
    }
    if let Some(request) = inner(probe, "grpc") {
        fill(request, "service", "");
    }
}

fn http_get(request: &mut Fields) {
    fill_zero(request, "path", "/");
    fill_zero(request, "scheme", "HTTP");
}

fn volume(volume: &mut Fields) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".into(), Value::Object(Map::new()));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = inner(volume, name) {
            fill(source, "defaultMode", VOLUME_MODE);
            field_references(source);
        }
    }
    if let Some(source) = inner(volume, "hostPath") {
        fill(source, "type", "");
    }
    if let Some(source) = inner(volume, "image") {
        let policy = pull_policy(source.get("reference").and_then(Value::as_str).unwrap_or_default());
        fill_zero(source, "pullPolicy", policy);
    }
    if let Some(source) = inner(volume, "projected") {
        for one in each(source, "sources") {
            projection(one);
        }
    }
    let template = inner(volume, "ephemeral").and_then(|source| inner(source, "volumeClaimTemplate"));
    if let Some(spec) = template.and_then(|template| inner(template, "spec")) {
        fill(spec, "volumeMode", "Filesystem");
    }
}

fn projection(source: &mut Fields) {
    if let Some(token) = inner(source, "serviceAccountToken") {
        fill(token, "expirationSeconds", TOKEN_LIFETIME_S);
    }
    if let Some(downward) = inner(source, "downwardAPI") {
        field_references(downward);
    }
}

fn field_references(source: &mut Fields) {
    for item in each(source, "items") {
        if let Some(reference) = inner(item, "fieldRef") {
            fill_zero(reference, "apiVersion", "v1");
        }
    }
}
