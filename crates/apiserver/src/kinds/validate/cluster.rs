//! The kinds that run a cluster: Namespaces, Nodes, Leases, roles and their bindings, budgets, priorities, quotas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::selector;
use crate::auth::RBAC_GROUP;
use crate::field::{self, Error};
use crate::kinds::fill::is_zero;
use crate::kinds::names;
use crate::kinds::strategy::SYSTEM_PRIORITIES;

/// Priorities above this are the system's.
const PRIORITY_MAX: i64 = 1_000_000_000;

/// A Namespace: its finalizers are qualified names.
pub(in crate::kinds) fn namespace(object: &At<'_>, errors: &mut Errors) {
    for finalizer in object.field("spec").field("finalizers").items() {
        finalizer.must_pass(names::qualified, errors);
        if !finalizer.text().contains('/') && finalizer.text() != "kubernetes" {
            finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified", errors);
        }
    }
}

/// A Node: its taints.
pub(in crate::kinds) fn node(object: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for taint in object.field("spec").field("taints").items() {
        taint.field("key").must_be_named(names::qualified, errors);
        taint.field("value").must_pass(names::label_value, errors);
        let effect = taint.field("effect");
        if effect.must_be_set(errors) {
            effect.must_be_one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
        if !seen.insert((taint.field("key").text().to_owned(), effect.text().to_owned())) {
            taint.duplicate(errors);
        }
    }
}

/// A changed Node, through whichever endpoint: no address twice, and what others assigned stays.
pub(in crate::kinds) fn node_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let (status, spec) = (new.field("status"), new.field("spec"));
    let mut seen = BTreeSet::new();
    for address in status.field("addresses").items() {
        let (kind, text) =
            (address.field("type").text().to_owned(), address.field("address").text().to_owned());
        // The real server prints the fields by their Go names, and in its own order.
        let body = format!("Duplicate value: {{\"Type\":{kind:?},\"Address\":{text:?}}}");
        if !seen.insert((kind, text)) {
            errors.push(Error { kind: field::Kind::Duplicate, field: address.path.to_string(), body });
        }
    }
    for (name, said) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let before = &old["spec"][name];
        if !is_zero(Some(before)) && spec.field(name).value != before {
            let detail = format!("node updates may not change {said} except from \"\" to valid");
            spec.field(name).forbidden(&detail, errors);
        }
    }
}

/// A Lease.
pub(in crate::kinds) fn lease(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    spec.field("leaseDurationSeconds").must_be_positive(errors);
    spec.field("leaseTransitions").must_not_be_negative(errors);
    if !spec.field("preferredHolder").is_zero() && spec.field("strategy").is_zero() {
        spec.field("preferredHolder").forbidden("may only be specified if `strategy` is defined", errors);
    }
}

/// A Role.
pub(in crate::kinds) fn role(object: &At<'_>, errors: &mut Errors) {
    rules(object, true, errors);
}

/// A ClusterRole: rules may be gathered from others by label.
pub(in crate::kinds) fn cluster_role(object: &At<'_>, errors: &mut Errors) {
    rules(object, false, errors);
    let gathered = object.field("aggregationRule");
    if !gathered.is_set() {
        return;
    }
    let selectors = gathered.field("clusterRoleSelectors");
    if selectors.len() == 0 {
        selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil", errors);
    }
    for one in selectors.items() {
        selector::check(&one, errors);
    }
}

fn rules(object: &At<'_>, is_namespaced: bool, errors: &mut Errors) {
    for rule in object.field("rules").items() {
        if rule.field("verbs").len() == 0 {
            rule.field("verbs").required("verbs must contain at least one value", errors);
        }
        let urls = rule.field("nonResourceURLs");
        if urls.len() > 0 {
            if is_namespaced {
                urls.invalid("namespaced rules cannot apply to non-resource URLs", errors);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|name| rule.field(name).len() > 0) {
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs", errors);
            }
            continue;
        }
        if rule.field("apiGroups").len() == 0 {
            rule.field("apiGroups").required("resource rules must supply at least one api group", errors);
        }
        if rule.field("resources").len() == 0 {
            rule.field("resources").required("resource rules must supply at least one resource", errors);
        }
    }
}

/// A RoleBinding.
pub(in crate::kinds) fn role_binding(object: &At<'_>, errors: &mut Errors) {
    binding(object, &["Role", "ClusterRole"], true, errors);
}

/// A ClusterRoleBinding.
pub(in crate::kinds) fn cluster_role_binding(object: &At<'_>, errors: &mut Errors) {
    binding(object, &["ClusterRole"], false, errors);
}

fn binding(object: &At<'_>, kinds: &[&str], is_namespaced: bool, errors: &mut Errors) {
    let reference = object.field("roleRef");
    must_be(&reference.field("apiGroup"), &[RBAC_GROUP], errors);
    must_be(&reference.field("kind"), kinds, errors);
    reference.field("name").must_be_named(names::path_segment, errors);
    for subject in object.field("subjects").items() {
        check_subject(&subject, is_namespaced, errors);
    }
}

/// Unlike an optional choice, an absent value is unsupported too.
fn must_be(place: &At<'_>, supported: &[&str], errors: &mut Errors) {
    if !supported.contains(&place.text()) {
        errors.push(Error::not_supported(&place.path, &json!(place.text()), supported));
    }
}

fn check_subject(subject: &At<'_>, is_namespaced: bool, errors: &mut Errors) {
    let name = subject.field("name");
    name.must_be_set(errors);
    match subject.field("kind").text() {
        "ServiceAccount" => {
            name.must_pass(names::subdomain, errors);
            must_be(&subject.field("apiGroup"), &[""], errors);
            if !is_namespaced {
                subject.field("namespace").must_be_set(errors);
            }
        }
        "User" | "Group" => must_be(&subject.field("apiGroup"), &[RBAC_GROUP], errors),
        _ => must_be(&subject.field("kind"), &["ServiceAccount", "User", "Group"], errors),
    }
}

/// A changed binding: the role it grants stays.
pub(in crate::kinds) fn binding_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let reference = new.field("roleRef");
    let before = &old["roleRef"];
    if ["apiGroup", "kind", "name"].iter().all(|name| reference.field(name).value == &before[name]) {
        return;
    }
    // The real server prints the fields by their Go names.
    let shown = json!({"APIGroup": reference.field("apiGroup").value, "Kind": reference.field("kind").value,
        "Name": reference.field("name").value});
    errors.push(Error::invalid(&reference.path, &shown, "cannot change roleRef"));
}

/// A PodDisruptionBudget.
pub(in crate::kinds) fn budget(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let amounts = ["minAvailable", "maxUnavailable"].map(|name| spec.field(name));
    if amounts.iter().all(At::is_set) {
        spec.invalid("minAvailable and maxUnavailable cannot be both set", errors);
    }
    for amount in amounts.iter().filter(|amount| amount.is_set()) {
        amount.must_be_amount_or_percent(errors);
        amount.must_not_exceed_all(errors);
    }
    selector::check(&spec.field("selector"), errors);
    spec.field("unhealthyPodEvictionPolicy").must_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

/// A PriorityClass: the highest numbers and the `system-` names are the system's.
pub(in crate::kinds) fn priority_class(object: &At<'_>, errors: &mut Errors) {
    let metadata = object.field("metadata");
    let (name, value) = (metadata.field("name"), object.field("value"));
    if name.text().starts_with("system-") {
        if !SYSTEM_PRIORITIES.contains(&(name.text(), value.number())) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known system priority class",
                name.text()
            );
            name.forbidden(&detail, errors);
        }
    } else if value.number() > PRIORITY_MAX {
        value.forbidden("maximum allowed value of a user defined priority is 1000000000", errors);
    }
    object.field("preemptionPolicy").must_be_one_of(&["PreemptLowerPriority", "Never"], errors);
}

/// A changed PriorityClass.
pub(in crate::kinds) fn priority_class_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    if new.field("value").number() != old["value"].as_i64().unwrap_or(0) {
        new.field("value").forbidden("may not be changed in an update.", errors);
    }
    new.field("preemptionPolicy").must_stay(&old["preemptionPolicy"], errors);
}

/// A RuntimeClass: its handler stays.
pub(in crate::kinds) fn runtime_class(object: &At<'_>, errors: &mut Errors) {
    object.field("handler").must_be_named(names::label, errors);
}

/// A changed RuntimeClass.
pub(in crate::kinds) fn runtime_class_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("handler").must_stay(&old["handler"], errors);
}
