//! IngressClasses: who serves them, and where that controller's parameters are.

use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::names;

const CONTROLLER_BYTES_MAX: usize = 250;
const PATH_TEXT: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// An IngressClass.
pub(in crate::kinds) fn class(object: &At<'_>, errors: &mut Errors) {
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

/// A changed IngressClass: its controller stays.
pub(in crate::kinds) fn class_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").field("controller").must_stay(&old["spec"]["controller"], errors);
}

/// A path below a domain: `acme.io/foo`.
pub(in crate::kinds) fn prefixed_path(controller: &At<'_>, errors: &mut Errors) {
    let parts = controller.text().split_once('/');
    let Some((domain, path)) = parts.filter(|(domain, path)| !domain.is_empty() && !path.is_empty()) else {
        controller.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")", errors);
        return;
    };
    for complaint in names::subdomain(domain) {
        errors.push(Error::invalid(&controller.path, &json!(domain), &complaint));
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        errors.push(Error::invalid(&controller.path, &json!(path), PATH_TEXT));
    }
}

fn check_parameters(parameters: &At<'_>, errors: &mut Errors) {
    let group = parameters.field("apiGroup");
    if group.is_set() {
        for complaint in names::subdomain(group.text()) {
            group.invalid(&complaint, errors);
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
            for complaint in names::label(namespace.text()) {
                namespace.invalid(&complaint, errors);
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
