//! Ingress: routes from outside to Services, by host and path.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::core::service;
use crate::kinds::core::service::printing::balancers;
use crate::kinds::discovery::endpoint_slice;
use crate::kinds::kind_warnings;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, InitialStatus};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

/// The annotation that named the class of an Ingress before it had a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Routes from outside to Services, by host and path.
pub static INGRESS: BuiltInKind = BuiltInKind {
    short_names: &["ing"],
    subresources: &[STATUS],
    registry_name: Some("ingress"),
    strategy: WORKLOAD,
    first_status: InitialStatus::Fixed(|| json!({"loadBalancer": {}})),
    validate: Some(validate),
    validate_create: Some(validate_create),
    validate_status: Some(validate_status),
    warn: Some(kind_warnings::ingress),
    columns: &[
        Column::NAME,
        Column::text("Class"),
        Column::text("Hosts"),
        Column::text("Address"),
        Column::text("Ports"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress")
};

/// Reports an empty string as the invalid value, as Go does here.
fn empty_invalid(place: &ValueAt<'_>, detail: &str, errors: &mut Errors) {
    errors.push(Error::invalid(&place.path, &json!(""), detail));
}

/// Validates an Ingress.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (rules, fallback) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.len() == 0 && !fallback.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&spec.path, rules.value, detail));
    }
    if fallback.is_set() {
        validate_backend(&fallback, errors);
    }
    for rule in rules.items() {
        validate_host(&rule.field("host"), errors);
        let http = rule.field("http");
        if http.is_set() {
            validate_paths(&http.field("paths"), errors);
        }
    }
    for tls in spec.field("tls").items() {
        for name in tls.field("hosts").items() {
            validate_host(&name, errors);
        }
    }
    spec.field("ingressClassName").must_pass(names::subdomain, errors);
}

/// Validates a new Ingress: the annotation and the field that name its class must agree.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    validate(object, errors);
    let annotations = &object.value["metadata"]["annotations"];
    let (noted, class) = (&annotations[CLASS_ANNOTATION], &object.value["spec"]["ingressClassName"]);
    if !noted.is_null() && !class.is_null() && noted != class {
        let place = object.path.field("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(Error::invalid(&place.field(CLASS_ANNOTATION), noted, detail));
    }
}

fn validate_host(host: &ValueAt<'_>, errors: &mut Errors) {
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
    let plain = host.text().strip_prefix("*.").unwrap_or(host.text());
    if plain.is_empty() {
        return;
    }
    for error_text in names::subdomain(plain) {
        host.invalid(&error_text, errors);
    }
}

fn validate_paths(list: &ValueAt<'_>, errors: &mut Errors) {
    const REFUSED: [&str; 4] = ["//", "/./", "/../", "%2f"];
    list.must_be_set(errors);
    for entry in list.items() {
        let (kind, path) = (entry.field("pathType"), entry.field("path"));
        if !kind.is_set() {
            kind.required("pathType must be specified", errors);
            continue;
        }
        kind.must_be_one_of(&["Exact", "ImplementationSpecific", "Prefix"], errors);
        let may_be_absent = kind.text() == "ImplementationSpecific";
        let is_fine = path.text().starts_with('/') || (may_be_absent && path.is_zero());
        if !is_fine {
            errors.push(Error::invalid(&path.path, &json!(path.text()), "must be an absolute path"));
        }
        for part in REFUSED.iter().filter(|part| !may_be_absent && path.text().contains(**part)) {
            path.invalid(&format!("must not contain '{part}'"), errors);
        }
        validate_backend(&entry.field("backend"), errors);
    }
}

fn validate_backend(backend: &ValueAt<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => empty_invalid(backend, "cannot set both resource and service backends", errors),
        (false, false) => empty_invalid(backend, "resource or service backend is required", errors),
        (false, true) => {
            resource.field("kind").must_be_set(errors);
            resource.field("name").must_be_set(errors);
        }
        (true, false) => {
            service.field("name").must_be_named(names::label, errors);
            let port = service.field("port");
            let (name, number) = (port.field("name"), port.field("number"));
            match (name.is_zero(), number.is_zero()) {
                (false, false) => empty_invalid(backend, "cannot set both port name & port number", errors),
                (false, true) => name.must_pass(names::port_name, errors),
                (true, false) => number.must_be_port(errors),
                (true, true) => backend.required("port name or number is required", errors),
            }
        }
    }
}

/// Validates the addresses of an Ingress.
fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let known = service::balanced(old).iter().map(|one| read::string_at(one, "ip")).collect();
    for ingress in status.field("loadBalancer").field("ingress").items() {
        service::reachable(&ingress, &known, errors);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = if read::list_at(object, "spec.tls").is_empty() { "80" } else { "80, 443" };
    vec![
        read::name(object).into(),
        read::string_at_or(object, "spec.ingressClassName", "<none>").into(),
        hosts(object).into(),
        balancers(object).into(),
        ports.into(),
        age::age_of_object(object, now).into(),
    ]
}

/// Prints the hosts. Rules without a host are not shown, but they are counted if the list is shortened.
pub(in crate::kinds) fn hosts(object: &Value) -> String {
    let rules = read::list_at(object, "spec.rules");
    let named = |rule: &&Value| !read::string_at(rule, "host").is_empty();
    let shown: Vec<_> = rules
        .iter()
        .filter(named)
        .take(endpoint_slice::SHOWN)
        .map(|rule| read::string_at(rule, "host"))
        .collect();
    let full_after = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| named(rule))
        .nth(endpoint_slice::SHOWN - 1)
        .map(|(at, _)| at + 1);
    match (shown.is_empty(), full_after) {
        (true, _) => "*".to_owned(),
        (false, Some(at)) if at < rules.len() => {
            format!("{} + {} more...", shown.join(","), rules.len() - endpoint_slice::SHOWN)
        }
        (false, _) => shown.join(","),
    }
}
