//! ResourceQuota: limits how much a namespace may use.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::kinds::validate::resources;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

const POD_RESOURCES: [&str; 7] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];

const SCOPE_OPERATOR_TEXT: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

/// Limits how much a namespace may use.
pub static RESOURCE_QUOTA: BuiltInKind = BuiltInKind {
    short_names: &["quota"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Request"), Column::text("Limit"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("", "v1", "resourcequotas", "ResourceQuota")
};

/// Validates a ResourceQuota.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    for (name, amount) in spec.field("hard").entries() {
        resources::quota_name(name, &amount, errors);
        resources::value(name, &amount, errors);
    }
    let scopes = spec.field("scopes");
    let listed: Vec<&str> = scopes.items().map(|scope| scope.value.as_str().unwrap_or_default()).collect();
    for scope in &listed {
        if !SCOPES.contains(scope) {
            scopes.invalid("unsupported scope", errors);
        }
        for _ in misapplied(&spec, scope) {
            scopes.invalid("unsupported scope applied to resource", errors);
        }
    }
    conflicting(&listed, &scopes, scopes.value, errors);
    scope_selector(&spec, errors);
}

/// Validates a changed ResourceQuota: its scopes must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let scopes = spec.field("scopes");
    let sorted = |list: &Value| -> BTreeSet<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if sorted(scopes.value) != sorted(&old["spec"]["scopes"]) {
        scopes.invalid("field is immutable", errors);
    }
}

/// Returns the limits that do not apply within a scope.
fn misapplied<'a>(spec: &'a ValueAt<'_>, scope: &'a str) -> impl Iterator<Item = &'a String> {
    let names = spec.value["hard"].as_object().into_iter().flatten().map(|(name, _)| name);
    names.filter(move |name| {
        let fits = match scope {
            "BestEffort" => *name == "pods",
            "VolumeAttributesClass" => matches!(name.as_str(), "persistentvolumeclaims" | "requests.storage"),
            _ => !SCOPES.contains(&scope) || POD_RESOURCES.contains(&name.as_str()),
        };
        !fits && resources::is_quota(name)
    })
}

fn conflicting(scopes: &[&str], place: &ValueAt<'_>, shown: &Value, errors: &mut Errors) {
    for (scope, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(&scope) && scopes.contains(&other) {
            errors.push(Error::invalid(&place.path, shown, "conflicting scopes"));
        }
    }
}

/// Validates the scope selector; errors do not say which expression is wrong, as in kube-apiserver.
fn scope_selector(spec: &ValueAt<'_>, errors: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let list = selector.field("matchExpressions");
    let mut scopes = Vec::new();
    for expression in list.value.as_array().into_iter().flatten() {
        let expression = ValueAt { value: expression, path: list.path };
        let scope = expression.value["scopeName"].as_str().unwrap_or_default();
        scope_expression(&expression, scope, errors);
        for _ in misapplied(spec, scope) {
            list.invalid("unsupported scope applied to resource", errors);
        }
        scopes.push(scope);
    }
    conflicting(&scopes, &list, spec.field("scopes").value, errors);
}

fn scope_expression(expression: &ValueAt<'_>, scope: &str, errors: &mut Errors) {
    let (operator, values) = (expression.field("operator"), expression.field("values"));
    if !SCOPES.contains(&scope) {
        errors.push(Error::invalid(&expression.field("scopeName").path, &json!(scope), "unsupported scope"));
    } else if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator.text() != "Exists" {
        errors.push(Error::invalid(&operator.path, &json!(operator.text()), SCOPE_OPERATOR_TEXT));
    }
    match operator.text() {
        "In" | "NotIn" if values.len() == 0 => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            values.required(detail, errors);
        }
        "Exists" | "DoesNotExist" if values.len() > 0 => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            values.invalid(detail, errors);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            errors.push(Error::invalid(&operator.path, &json!(other), "not a valid selector operator"));
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let (used, hard) = (read::object_at(object, "status.used"), read::object_at(object, "status.hard"));
    for (resource, hard) in hard.into_iter().flatten() {
        let used = used.and_then(|used| used.get(resource)).map_or_else(|| "0".to_owned(), quantity);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    vec![
        read::name(object).into(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age::age_of_object(object, now).into(),
    ]
}

fn quantity(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
