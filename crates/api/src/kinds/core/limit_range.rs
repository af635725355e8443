//! LimitRange: bounds and defaults for resources in a namespace.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::Error;
use crate::kinds::validate::resources;
use crate::kinds::validate::resources::nanos;
use crate::object::fill::{JsonObject, object_or_insert, objects_mut};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// One, in billionths: the smallest possible ratio of limit to request.
const ONE_NANOS: i128 = 1_000_000_000;

/// Pairs in which the first must not be greater than the second: the path of the error, the value it shows, and the
/// names it uses, as in kube-apiserver.
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

/// Bounds and defaults for resources in a namespace.
pub static LIMIT_RANGE: BuiltInKind = BuiltInKind {
    short_names: &["limits"],
    strategy: PLAIN.created_by_update(),
    defaults: Some(defaults),
    validate: Some(validate),
    ..BuiltInKind::namespaced("", "v1", "limitranges", "LimitRange")
};

/// Validates a LimitRange.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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

fn limit_type(kind: &ValueAt<'_>, errors: &mut Errors) {
    let before = errors.len();
    kind.must_be_qualified(kind, errors);
    let is_standard = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
    if errors.len() == before && !kind.text().contains('/') && !is_standard {
        kind.invalid("must be a standard limit type or fully qualified", errors);
    }
}

fn check_limit(limit: &ValueAt<'_>, errors: &mut Errors) {
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

fn in_order(limit: &ValueAt<'_>, name: &str, errors: &mut Errors) {
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

fn ratio(limit: &ValueAt<'_>, name: &str, errors: &mut Errors) {
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

/// Fills in the defaults of a LimitRange: limits default to the maximum, requests to the limit, then to the minimum.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    for limit in objects_mut(spec, "limits") {
        if limit.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            inherit(limit, from, to);
        }
    }
}

fn inherit(limit: &mut JsonObject, from: &str, to: &str) {
    let Some(Value::Object(amounts)) = limit.get(from).cloned() else { return };
    if amounts.is_empty() {
        return;
    }
    let Some(target) = object_or_insert(limit, to) else { return };
    for (name, amount) in amounts {
        target.entry(name).or_insert(amount);
    }
}
