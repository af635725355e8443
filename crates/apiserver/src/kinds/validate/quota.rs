//! Limits of a namespace: what one Pod, container or claim may have (LimitRange), and all together (ResourceQuota).
//!
//! **Invariant:** minimum, default and maximum of a limit are in that order.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::resources::{self, nanos};
use crate::field::Error;

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
/// No ratio of limit to request is below one.
const ONE_NANOS: i128 = 1_000_000_000;

/// A LimitRange.
pub(in crate::kinds) fn limit_range(object: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for limit in object.field("spec").field("limits").items() {
        let kind = limit.field("type");
        limit_type(&kind, errors);
        if !seen.insert(kind.text().to_owned()) {
            kind.duplicate(errors);
        }
        check_limit(&limit, errors);
    }
}

fn limit_type(kind: &At<'_>, errors: &mut Errors) {
    let before = errors.len();
    kind.must_be_qualified(kind, errors);
    let is_standard = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
    if errors.len() == before && !kind.text().contains('/') && !is_standard {
        kind.invalid("must be a standard limit type or fully qualified", errors);
    }
}

fn check_limit(limit: &At<'_>, errors: &mut Errors) {
    let kind = limit.field("type");
    let mut names = BTreeSet::new();
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let amounts = limit.field(list);
        if kind.text() == "Pod" && list.starts_with("default") {
            if amounts.len() > 0 {
                amounts.forbidden("may not be specified when `type` is 'Pod'", errors);
            }
            continue;
        }
        for (name, amount) in amounts.entries() {
            if matches!(kind.text(), "Pod" | "Container") {
                resources::container_name(name, &amount, errors);
            } else {
                resources::any_name(name, &amount, errors);
            }
            names.insert(name.to_owned());
        }
    }
    if kind.text() == "PersistentVolumeClaim"
        && ["min", "max"].iter().all(|list| limit.value[list].get("storage").is_none())
    {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        limit.field("limits").required(detail, errors);
    }
    for name in names {
        in_order(limit, &name, errors);
        ratio(limit, &name, errors);
    }
}

/// Of each pair the first may not be above the second: where the complaint stands and which value it shows, as in the
/// real server, and what it calls them.
const ORDER: [(&str, &str, &str, &str, &str, &str); 6] = [
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value",
        "default limit value",
    ),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
];

fn in_order(limit: &At<'_>, name: &str, errors: &mut Errors) {
    let is_pod = limit.field("type").text() == "Pod";
    let amount = |list: &str| -> &Value {
        let ignored = is_pod && list.starts_with("default");
        limit.value.get(list).filter(|_| !ignored).and_then(|list| list.get(name)).unwrap_or(&Value::Null)
    };
    let said = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (low, high, place, shown, low_text, high_text) in ORDER {
        let (Some(low_nanos), Some(high_nanos)) = (nanos(amount(low)), nanos(amount(high))) else { continue };
        if low_nanos > high_nanos {
            let detail = format!(
                "{low_text} {} is greater than {high_text} {}",
                said(amount(low)),
                said(amount(high))
            );
            errors.push(Error::invalid(&limit.field(place).key(name).path, amount(shown), &detail));
        }
    }
    let (default, request) = (amount("default"), amount("defaultRequest"));
    if let (Some(limited), Some(requested)) = (nanos(default), nanos(request))
        && limited != requested
        && !resources::may_overcommit(name)
    {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            said(default),
            said(request)
        );
        errors.push(Error::invalid(&limit.field("defaultRequest").key(name).path, request, &detail));
    }
}

fn ratio(limit: &At<'_>, name: &str, errors: &mut Errors) {
    let ratios = limit.field("maxLimitRequestRatio");
    let ratio = ratios.key(name);
    let Some(wanted) = nanos(ratio.value) else { return };
    if wanted < ONE_NANOS {
        ratio.invalid(&format!("ratio {} is less than 1", ratio.text()), errors);
    }
    let (Some(min), Some(max)) = (nanos(&limit.value["min"][name]), nanos(&limit.value["max"][name])) else {
        return;
    };
    if wanted.saturating_mul(min) > max.saturating_mul(ONE_NANOS) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "the number is only shown, as a float in the real server"
        )]
        let possible = max as f64 / min as f64;
        let detail = format!("ratio {} is greater than max/min = {possible:.6}", ratio.text());
        ratio.invalid(&detail, errors);
    }
}

/// A ResourceQuota.
pub(in crate::kinds) fn quota(object: &At<'_>, errors: &mut Errors) {
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

/// A changed ResourceQuota: its scopes stay.
pub(in crate::kinds) fn quota_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
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

/// The limits that cannot be counted within a scope.
fn misapplied<'a>(spec: &'a At<'_>, scope: &'a str) -> impl Iterator<Item = &'a String> {
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

fn conflicting(scopes: &[&str], place: &At<'_>, shown: &Value, errors: &mut Errors) {
    for (scope, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(&scope) && scopes.contains(&other) {
            errors.push(Error::invalid(&place.path, shown, "conflicting scopes"));
        }
    }
}

/// Complaints about one expression leave out which, as the real server's do.
fn scope_selector(spec: &At<'_>, errors: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let list = selector.field("matchExpressions");
    let mut scopes = Vec::new();
    for expression in list.value.as_array().into_iter().flatten() {
        let expression = At { value: expression, path: list.path };
        let scope = expression.value["scopeName"].as_str().unwrap_or_default();
        scope_expression(&expression, scope, errors);
        for _ in misapplied(spec, scope) {
            list.invalid("unsupported scope applied to resource", errors);
        }
        scopes.push(scope);
    }
    conflicting(&scopes, &list, spec.field("scopes").value, errors);
}

fn scope_expression(expression: &At<'_>, scope: &str, errors: &mut Errors) {
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
