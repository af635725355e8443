//! The scopes of a quota decide which objects it applies to.

use homeostat_core::selector::LabelSelector;
use serde_json::{Value, json};

use super::usage::{ChargedKind, has_deadline};

/// Returns whether an object is in all scopes of a quota. Kinds that have no scopes are never in one.
pub(super) fn matches(kind: ChargedKind, quota: &Value, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain = spec["scopes"].as_array().into_iter().flatten();
    let plain = plain.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten().cloned();
    plain.chain(selected).all(|selector| is_in_scope(kind, &selector, object))
}

fn is_in_scope(kind: ChargedKind, selector: &Value, object: &Value) -> bool {
    match (kind, selector["scopeName"].as_str().unwrap_or_default()) {
        (ChargedKind::Pod, "Terminating") => has_deadline(object),
        (ChargedKind::Pod, "NotTerminating") => !has_deadline(object),
        (ChargedKind::Pod, "BestEffort") => is_best_effort(object),
        (ChargedKind::Pod, "NotBestEffort") => !is_best_effort(object),
        (ChargedKind::Pod, "PriorityClass") => {
            let class = object["spec"]["priorityClassName"].as_str().unwrap_or_default();
            is_selected(selector, [class].into_iter().filter(|name| !name.is_empty()))
        }
        (ChargedKind::Pod, "CrossNamespacePodAffinity") => has_foreign_affinity(object),
        (ChargedKind::Claim, "VolumeAttributesClass") => {
            let paths = [
                "/spec/volumeAttributesClassName",
                "/status/currentVolumeAttributesClassName",
                "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
            ];
            let names = paths.iter().filter_map(|path| object.pointer(path).and_then(Value::as_str));
            is_selected(selector, names.filter(|name| !name.is_empty()))
        }
        _ => false,
    }
}

/// Returns whether the selector matches one of the names. Without names, returns whether it matches an absent label.
fn is_selected<'a>(selector: &Value, names: impl Iterator<Item = &'a str>) -> bool {
    let (scope, operator) = (&selector["scopeName"], &selector["operator"]);
    let mut expression = json!({"key": scope, "operator": operator});
    if let Some(values) = selector["values"].as_array().filter(|values| !values.is_empty()) {
        expression["values"] = values.clone().into();
    }
    let Ok(selector) = LabelSelector::from_json(&json!({"matchExpressions": [expression]})) else {
        return false;
    };
    let names = names.collect::<Vec<_>>();
    let scope = scope.as_str().unwrap_or_default();
    if names.is_empty() {
        return selector.matches(|_| None);
    }
    names.iter().any(|name| selector.matches(|key| (key == scope).then_some(*name)))
}

/// Returns whether no container requests or limits processor time or memory.
fn is_best_effort(pod: &Value) -> bool {
    let lists = ["containers", "initContainers"];
    let of_containers = lists.iter().flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
    let mut all = of_containers.map(|container| &container["resources"]).chain([&pod["spec"]["resources"]]);
    let is_set = |value: &Value| !matches!(value.as_str(), None | Some("0"));
    !all.any(|resources| {
        let lists = ["requests", "limits"].into_iter();
        lists.flat_map(|list| ["cpu", "memory"].map(|name| &resources[list][name])).any(is_set)
    })
}

/// Returns whether the Pod has affinity or anti-affinity to Pods of other namespaces.
fn has_foreign_affinity(pod: &Value) -> bool {
    let terms = ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|sort| {
        let affinity = &pod["spec"]["affinity"][sort];
        let list = |name: &str| affinity[name].as_array().into_iter().flatten();
        let required = list("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
        required.chain(preferred.map(|one| &one["podAffinityTerm"]))
    });
    let mut terms = terms;
    terms.any(|term| {
        term["namespaces"].as_array().is_some_and(|names| !names.is_empty())
            || !term["namespaceSelector"].is_null()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_tell_which_pods_count() {
        let check = |scope: &str, spec: Value, expected: bool| {
            let quota = json!({"spec": {"scopes": [scope]}});
            assert_eq!(matches(ChargedKind::Pod, &quota, &json!({"spec": spec})), expected, "{scope}");
            assert!(!matches(ChargedKind::Other, &quota, &json!({})));
        };
        let busy = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]});
        check("BestEffort", json!({"containers": [{}]}), true);
        check("BestEffort", busy.clone(), false);
        check("NotBestEffort", busy, true);
        check("Terminating", json!({"activeDeadlineSeconds": 1}), true);
        check("NotTerminating", json!({"activeDeadlineSeconds": 1}), false);
        check("PriorityClass", json!({}), false);
        check("PriorityClass", json!({"priorityClassName": "a"}), true);
        let far = json!([{"namespaces": ["other"]}]);
        let far = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": far}});
        check("CrossNamespacePodAffinity", json!({"affinity": far}), true);
    }

    #[test]
    fn a_class_is_selected_by_name() {
        let check = |operator: &str, class: &str, expected: bool| {
            let selector = json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
            let quota = json!({"spec": {"scopeSelector": {"matchExpressions": [selector]}}});
            let pod = json!({"spec": {"priorityClassName": class}});
            assert_eq!(matches(ChargedKind::Pod, &quota, &pod), expected, "{operator} {class}");
        };
        check("In", "high", true);
        check("In", "low", false);
        check("NotIn", "low", true);
    }
}
