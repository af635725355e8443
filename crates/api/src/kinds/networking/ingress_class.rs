//! IngressClass: says which controller serves Ingresses of a class.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::names;
use crate::object::fill::{JsonObject, object_mut, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

const CONTROLLER_BYTES_MAX: usize = 250;

const PATH_TEXT: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Says which controller serves Ingresses of a class.
pub static INGRESS_CLASS: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.counted(),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Controller"), Column::text("Parameters"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("networking.k8s.io", "v1", "ingressclasses", "IngressClass")
};

/// Validates an IngressClass.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let controller = spec.field("controller");
    if controller.text().len() > CONTROLLER_BYTES_MAX {
        errors.push(Error::too_long(&controller.path, CONTROLLER_BYTES_MAX));
    }
    if controller.must_be_set(errors) {
        prefixed_path(&controller, errors);
    }
    let parameters = spec.field("parameters");
    if parameters.is_set() {
        check_parameters(&parameters, errors);
    }
}

/// Validates a changed IngressClass: its controller must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").field("controller").must_stay(&old["spec"]["controller"], errors);
}

/// Validates a path below a domain: `acme.io/foo`.
pub(in crate::kinds) fn prefixed_path(controller: &ValueAt<'_>, errors: &mut Errors) {
    let parts = controller.text().split_once('/');
    let Some((domain, path)) = parts.filter(|(domain, path)| !domain.is_empty() && !path.is_empty()) else {
        controller.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")", errors);
        return;
    };
    for error_text in names::subdomain(domain) {
        errors.push(Error::invalid(&controller.path, &json!(domain), &error_text));
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        errors.push(Error::invalid(&controller.path, &json!(path), PATH_TEXT));
    }
}

fn check_parameters(parameters: &ValueAt<'_>, errors: &mut Errors) {
    let group = parameters.field("apiGroup");
    if group.is_set() {
        for error_text in names::subdomain(group.text()) {
            group.invalid(&error_text, errors);
        }
    }
    for name in ["kind", "name"] {
        parameters.field(name).must_be_named(names::path_segment, errors);
    }
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            namespace.required("`parameters.scope` is set to 'Namespace'", errors);
        }
        "Namespace" => {
            for error_text in names::label(namespace.text()) {
                namespace.invalid(&error_text, errors);
            }
        }
        "Cluster" if namespace.is_set() => {
            namespace.forbidden("`parameters.scope` is set to 'Cluster'", errors);
        }
        "Cluster" => {}
        _ if !scope.is_set() => scope.required("", errors),
        _ => scope.must_be_one_of(&["Cluster", "Namespace"], errors),
    }
}

/// Fills in the defaults of an IngressClass.
fn defaults(object: &mut JsonObject) {
    if let Some(parameters) = object_mut(object, "spec").and_then(|spec| object_mut(spec, "parameters")) {
        set_if_absent(parameters, "scope", "Cluster");
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = annotation(object, "ingressclass.kubernetes.io/is-default-class") == "true";
    let parameters = read::value_at(object, "spec.parameters").map_or_else(
        || "<none>".to_owned(),
        |parameters| {
            let (kind, name) = (read::string_at(parameters, "kind"), read::string_at(parameters, "name"));
            match read::value_at(parameters, "apiGroup").and_then(Value::as_str) {
                Some(group) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        },
    );
    vec![
        marked(read::name(object), is_default).into(),
        read::string_at(object, "spec.controller").into(),
        parameters.into(),
        age::age_of_object(object, now).into(),
    ]
}

/// Returns the value of an annotation; its name contains dots, so it cannot be a path.
pub(in crate::kinds) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let annotations = read::object_at(object, "metadata.annotations");
    annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the name, marked if it is the default.
pub(in crate::kinds) fn marked(name: &str, is_default: bool) -> String {
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}
