//! Validates containers: names, images, ports, environment, mounts, probes.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use super::{claims, downward, resources, security};
use crate::field::Error;
use crate::names;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

pub(in crate::kinds) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const WITHOUT_RESTART: &str = "may not be set for init containers without restartPolicy=Always";

/// State shared by the containers of one Pod.
pub(in crate::kinds) struct PodContext<'a> {
    /// Names of its well-formed volumes.
    pub(in crate::kinds) volumes: BTreeSet<&'a str>,
    /// Names of containers seen so far.
    pub(in crate::kinds) names: BTreeSet<&'a str>,
    /// Names of the volumes that come from claims; only these can be devices.
    claimed: BTreeSet<&'a str>,
    /// Names of its device claims.
    claims: BTreeSet<&'a str>,
    /// The grace period in seconds; no container may sleep longer when it is stopped.
    grace_s: Option<i64>,
    /// Whether terminated containers are never restarted.
    is_never_restarted: bool,
}

impl<'a> PodContext<'a> {
    /// Returns the state that the containers of this spec share.
    pub(in crate::kinds) fn of(spec: &ValueAt<'a>, volumes: BTreeSet<&'a str>) -> Self {
        let is_claimed =
            |volume: &&Value| !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null();
        let claimed = read::list_at(spec.value, "volumes").iter().filter(is_claimed);
        Self {
            volumes,
            names: BTreeSet::new(),
            claimed: claimed.map(|volume| read::string_at(volume, "name")).collect(),
            claims: claims::names(spec.value),
            grace_s: spec.value["terminationGracePeriodSeconds"].as_i64(),
            is_never_restarted: read::string_at(spec.value, "restartPolicy") == "Never",
        }
    }
}

/// Validates a regular container.
pub(in crate::kinds) fn regular<'a>(container: &ValueAt<'a>, pod: &mut PodContext<'a>, errors: &mut Errors) {
    validate_container(container, pod, errors);
    running(container, pod, errors);
}

/// Validates an init container: without its own restart policy, it exits before anything could probe it.
pub(in crate::kinds) fn init<'a>(container: &ValueAt<'a>, pod: &mut PodContext<'a>, errors: &mut Errors) {
    validate_container(container, pod, errors);
    if container.field("restartPolicy").text() == "Always" {
        running(container, pod, errors);
        return;
    }
    for name in PROBES.into_iter().chain(["lifecycle"]) {
        let part = container.field(name);
        if part.is_set() {
            part.forbidden(WITHOUT_RESTART, errors);
        }
    }
}

/// Validates an ephemeral container: it does not take part in the Pod's life cycle.
pub(in crate::kinds) fn ephemeral<'a>(
    container: &ValueAt<'a>,
    pod: &mut PodContext<'a>,
    errors: &mut Errors,
) {
    validate_container(container, pod, errors);
    for name in PROBES.into_iter().chain(["lifecycle", "ports"]) {
        let part = container.field(name);
        if part.is_set() {
            part.forbidden("cannot be set for an Ephemeral Container", errors);
        }
    }
}

fn validate_container<'a>(container: &ValueAt<'a>, pod: &mut PodContext<'a>, errors: &mut Errors) {
    let name = container.field("name");
    name.must_be_named(names::label, errors);
    if !pod.names.insert(container.value.get("name").and_then(Value::as_str).unwrap_or_default()) {
        name.duplicate(errors);
    }
    container.field("image").must_be_set(errors);
    container.field("imagePullPolicy").must_be_one_of(&PULL_POLICIES, errors);
    container.field("terminationMessagePolicy").must_be_one_of(&["File", "FallbackToLogsOnError"], errors);
    validate_ports(&container.field("ports"), errors);
    validate_environment(container, errors);
    validate_mounts(&container.field("volumeMounts"), pod, errors);
    validate_devices(container, pod, errors);
    resources::of_container(&container.field("resources"), errors);
    claims::of_container(&container.field("resources").field("claims"), &pod.claims, errors);
    validate_resize_policy(&container.field("resizePolicy"), pod, errors);
    security::of_container(container, errors);
}

fn running(container: &ValueAt<'_>, pod: &PodContext<'_>, errors: &mut Errors) {
    for name in PROBES {
        let probe = container.field(name);
        if probe.is_set() {
            check_probe(&probe, name, errors);
        }
    }
    let lifecycle = container.field("lifecycle");
    for name in ["postStart", "preStop"] {
        let handler = lifecycle.field(name);
        if handler.is_set() {
            check_handler(&handler, errors);
            check_sleep(&handler.field("sleep"), pod.grace_s, errors);
        }
    }
}

fn validate_ports(list: &ValueAt<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in list.items() {
        let name = port.field("name");
        let error_texts = if name.is_zero() { Vec::new() } else { names::port_name(name.text()) };
        if error_texts.is_empty() && !name.is_zero() && !seen.insert(name.text().to_owned()) {
            name.duplicate(errors);
        }
        for error_text in error_texts {
            name.invalid(&error_text, errors);
        }
        let number = port.field("containerPort");
        if number.must_be_set(errors) {
            number.must_be_port(errors);
        }
        if !port.field("hostPort").is_zero() {
            port.field("hostPort").must_be_port(errors);
        }
        port.field("protocol").must_be_one_of(&PROTOCOLS, errors);
    }
}

fn validate_environment(container: &ValueAt<'_>, errors: &mut Errors) {
    for variable in container.field("env").items() {
        variable.field("name").must_be_named(names::environment_variable, errors);
        let source = variable.field("valueFrom");
        if source.is_set() {
            variable_source(&variable, &source, errors);
        }
    }
    for source in container.field("envFrom").items() {
        source.field("prefix").must_pass(names::environment_variable, errors);
        let references = ["configMapRef", "secretRef"].map(|name| source.field(name));
        match references.iter().filter(|reference| reference.is_set()).count() {
            0 => empty_invalid(&source, "must specify one of: `configMapRef` or `secretRef`", errors),
            1 => {}
            _ => empty_invalid(&source, "may not have more than one field specified at a time", errors),
        }
        for reference in references.iter().filter(|reference| reference.is_set()) {
            reference.field("name").must_be_set(errors);
        }
    }
}

/// Reports an empty string as the invalid value, as Go does here.
fn empty_invalid(place: &ValueAt<'_>, detail: &str, errors: &mut Errors) {
    errors.push(Error::invalid(&place.path, &json!(""), detail));
}

fn variable_source(variable: &ValueAt<'_>, source: &ValueAt<'_>, errors: &mut Errors) {
    let count = SOURCES.iter().filter(|name| source.field(name).is_set()).count();
    if count == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        empty_invalid(source, detail, errors);
    } else if !variable.field("value").is_zero() {
        empty_invalid(source, "may not be specified when `value` is not empty", errors);
    } else if count > 1 {
        empty_invalid(source, "may not have more than one field specified at a time", errors);
    }
    downward::variable(source, errors);
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.field(name);
        if reference.is_set() {
            reference.field("name").must_be_set(errors);
            reference.field("key").must_be_named(names::config_key, errors);
        }
    }
}

fn validate_mounts(list: &ValueAt<'_>, pod: &PodContext<'_>, errors: &mut Errors) {
    let mut paths = BTreeSet::new();
    for mount in list.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        name.must_be_set(errors);
        if !pod.volumes.contains(name.text()) {
            errors.push(Error::not_found(&name.path, &json!(name.text())));
        }
        path.must_be_set(errors);
        if !paths.insert(path.text().to_owned()) {
            path.invalid("must be unique", errors);
        }
        for part in ["subPath", "subPathExpr"] {
            let part = mount.field(part);
            if part.text().starts_with('/') {
                part.invalid("must be a relative path", errors);
            } else if part.text().split('/').any(|step| step == "..") {
                part.invalid("must not contain '..'", errors);
            }
        }
    }
}

/// Validates volumes that a container uses as devices: they come from claims, appear once, and are not also mounted.
fn validate_devices(container: &ValueAt<'_>, pod: &PodContext<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let all_mounted = |field: &str| -> HashSet<&str> {
        read::list_at(container.value, "volumeMounts")
            .iter()
            .map(|mount| read::string_at(mount, field))
            .collect()
    };
    let (mounted_names, mounted_paths) = (all_mounted("name"), all_mounted("mountPath"));
    for device in container.field("volumeDevices").items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        if name.must_be_set(errors) && !names.insert(name.text().to_owned()) {
            name.invalid("must be unique", errors);
        }
        if !pod.volumes.contains(name.text()) {
            errors.push(Error::not_found(&name.path, &json!(name.text())));
        } else if !pod.claimed.contains(name.text()) {
            let detail =
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            name.invalid(detail, errors);
        }
        path.must_be_set(errors);
        if path.text().split('/').any(|step| step == "..") {
            path.invalid("can not contain backsteps ('..')", errors);
        } else if !paths.insert(path.text().to_owned()) {
            path.invalid("must be unique", errors);
        }
        if mounted_names.contains(name.text()) {
            name.invalid("must not already exist in volumeMounts", errors);
        }
        if mounted_paths.contains(path.text()) {
            path.invalid("must not already exist as a path in volumeMounts", errors);
        }
    }
}

/// Validates the resize policy; errors are reported at the list, as in Kubernetes.
fn validate_resize_policy(list: &ValueAt<'_>, pod: &PodContext<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in list.items() {
        let (resource, restart) = (policy.field("resourceName"), policy.field("restartPolicy"));
        if !seen.insert(resource.text().to_owned()) {
            errors.push(Error::duplicate(&policy.path, &json!(resource.text())));
        }
        for (one, supported) in
            [(&resource, ["cpu", "memory"]), (&restart, ["NotRequired", "RestartContainer"])]
        {
            let place = ValueAt { value: one.value, path: list.path };
            if place.must_be_set(errors) {
                place.must_be_one_of(&supported, errors);
            }
        }
        if pod.is_never_restarted && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(Error::invalid(&list.path, &json!(restart.text()), detail));
        }
    }
}

fn check_probe(probe: &ValueAt<'_>, name: &str, errors: &mut Errors) {
    check_handler(probe, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        probe.field(field).must_not_be_negative(errors);
    }
    if name != "readinessProbe" && probe.field("successThreshold").number() != 1 {
        probe.field("successThreshold").invalid("must be 1", errors);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    grace.must_be_positive(errors);
    if name == "readinessProbe" && grace.is_set() {
        grace.invalid("must not be set for readinessProbes", errors);
    }
}

fn check_sleep(sleep: &ValueAt<'_>, grace_s: Option<i64>, errors: &mut Errors) {
    let (Some(grace_s), true) = (grace_s, sleep.is_set()) else { return };
    let seconds = sleep.field("seconds").number();
    if !(0..=grace_s).contains(&seconds) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_s})");
        errors.push(Error::invalid(&sleep.path, &json!(seconds), &detail));
    }
}

fn check_handler(handler: &ValueAt<'_>, errors: &mut Errors) {
    let mut seen = 0;
    for name in HANDLERS {
        let action = handler.field(name);
        if !action.is_set() {
            continue;
        }
        seen += 1;
        if seen > 1 {
            action.forbidden("may not specify more than 1 handler type", errors);
            continue;
        }
        match name {
            "exec" => {
                action.field("command").must_be_set(errors);
            }
            "httpGet" => {
                action.field("path").must_be_set(errors);
                action.field("port").must_be_port_or_name(errors);
                action.field("scheme").must_be_one_of(&["HTTP", "HTTPS"], errors);
            }
            "tcpSocket" => action.field("port").must_be_port_or_name(errors),
            "grpc" => action.field("port").must_be_port(errors),
            _ => {}
        }
    }
    if seen == 0 {
        handler.required("must specify a handler type", errors);
    }
}
