//! Fills in the defaults of Pods and of the Pod specs inside templates.
//!
//! A Pod gets more than a template: requests from limits, service links, host ports. A template must stay as its
//! author wrote it, or comparing two templates would find spurious differences.

use serde_json::{Map, Value};

use crate::object::fill::{JsonObject, is_zero, object_mut, objects_mut, set_if_absent, set_if_zero};

/// File mode 0644, written in decimal in JSON.
const VOLUME_MODE: u32 = 0o644;

const GRACE_S: u32 = 30;

const TOKEN_LIFETIME_S: u32 = 3600;

pub(in crate::kinds) const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

/// Fills in the spec of a Pod or of a template.
pub(in crate::kinds) fn pod_spec(spec: &mut JsonObject) {
    set_if_zero(spec, "restartPolicy", "Always");
    set_if_zero(spec, "dnsPolicy", "ClusterFirst");
    set_if_zero(spec, "schedulerName", "default-scheduler");
    set_if_absent(spec, "terminationGracePeriodSeconds", GRACE_S);
    set_if_absent(spec, "securityContext", Map::new());
    service_account(spec);
    for list in CONTAINER_LISTS.into_iter().chain(["ephemeralContainers"]) {
        for one in objects_mut(spec, list) {
            container(one);
        }
    }
    for one in objects_mut(spec, "volumes") {
        volume(one);
    }
}

/// Synchronizes `serviceAccount`, the old name, with `serviceAccountName`; both are served.
fn service_account(spec: &mut JsonObject) {
    let name = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|field| spec.get(*field).filter(|value| !is_zero(Some(value))).cloned());
    if let Some(name) = name {
        spec.insert("serviceAccountName".into(), name.clone());
        spec.insert("serviceAccount".into(), name);
    }
}

fn container(container: &mut JsonObject) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = pull_policy(image);
    set_if_zero(container, "imagePullPolicy", policy);
    set_if_zero(container, "terminationMessagePath", "/dev/termination-log");
    set_if_zero(container, "terminationMessagePolicy", "File");
    set_if_absent(container, "resources", Map::new());
    for port in objects_mut(container, "ports") {
        set_if_zero(port, "protocol", "TCP");
    }
    for variable in objects_mut(container, "env") {
        if let Some(reference) =
            object_mut(variable, "valueFrom").and_then(|from| object_mut(from, "fieldRef"))
        {
            set_if_zero(reference, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(one) = object_mut(container, name) {
            probe(one);
        }
    }
    if let Some(lifecycle) = object_mut(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(request) =
                object_mut(lifecycle, name).and_then(|handler| object_mut(handler, "httpGet"))
            {
                http_get(request);
            }
        }
    }
}

/// Returns the pull policy: `Always` for images without a tag and digest, or with the tag `latest`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    // An image that cannot be parsed has no tag.
    if last.is_empty() || last.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase()) {
        return "IfNotPresent";
    }
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn probe(probe: &mut JsonObject) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_if_zero(probe, name, value);
    }
    if let Some(request) = object_mut(probe, "httpGet") {
        http_get(request);
    }
    if let Some(request) = object_mut(probe, "grpc") {
        set_if_absent(request, "service", "");
    }
}

fn http_get(request: &mut JsonObject) {
    set_if_zero(request, "path", "/");
    set_if_zero(request, "scheme", "HTTP");
}

fn volume(volume: &mut JsonObject) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".into(), Value::Object(Map::new()));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object_mut(volume, name) {
            set_if_absent(source, "defaultMode", VOLUME_MODE);
            field_references(source);
        }
    }
    if let Some(source) = object_mut(volume, "hostPath") {
        set_if_absent(source, "type", "");
    }
    if let Some(source) = object_mut(volume, "image") {
        let policy = pull_policy(source.get("reference").and_then(Value::as_str).unwrap_or_default());
        set_if_zero(source, "pullPolicy", policy);
    }
    if let Some(source) = object_mut(volume, "projected") {
        for one in objects_mut(source, "sources") {
            projection(one);
        }
    }
    let template =
        object_mut(volume, "ephemeral").and_then(|source| object_mut(source, "volumeClaimTemplate"));
    if let Some(spec) = template.and_then(|template| object_mut(template, "spec")) {
        set_if_absent(spec, "volumeMode", "Filesystem");
    }
}

fn projection(source: &mut JsonObject) {
    if let Some(token) = object_mut(source, "serviceAccountToken") {
        set_if_absent(token, "expirationSeconds", TOKEN_LIFETIME_S);
    }
    if let Some(downward) = object_mut(source, "downwardAPI") {
        field_references(downward);
    }
}

fn field_references(source: &mut JsonObject) {
    for item in objects_mut(source, "items") {
        if let Some(reference) = object_mut(item, "fieldRef") {
            set_if_zero(reference, "apiVersion", "v1");
        }
    }
}
