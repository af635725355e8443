//! ValidatingWebhookConfiguration: lists the servers that may reject objects when they are written.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::expressions::check_match_conditions;
use crate::kinds::admissionregistration::matching;
use crate::kinds::validate::selector;
use crate::names;
use crate::object::fill::{JsonObject, object_mut, objects_mut, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// The maximum timeout of a webhook: it must respond within the time that a request may take.
const WEBHOOK_TIMEOUT_S_MAX: i64 = 30;

const WEBHOOK_TIMEOUT_S: u32 = 10;

/// Lists the servers that may reject objects when they are written.
pub static VALIDATING_WEBHOOK_CONFIGURATION: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults),
    validate: Some(validate),
    columns: &[Column::NAME, Column::number("Webhooks"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    )
};

/// Validates a webhook configuration of either kind.
pub(in crate::kinds) fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let mut seen = std::collections::BTreeSet::new();
    for hook in object.field("webhooks").items() {
        check_webhook(&hook, errors);
        if !seen.insert(hook.field("name").text().to_owned()) {
            hook.field("name").duplicate(errors);
        }
    }
}

fn check_webhook(hook: &ValueAt<'_>, errors: &mut Errors) {
    let name = hook.field("name");
    if name.must_be_set(errors) {
        name.must_pass(names::subdomain, errors);
        if name.text().split('.').count() < 3 {
            name.invalid("should be a domain with at least three segments separated by dots", errors);
        }
    }
    for rule in hook.field("rules").items() {
        check_rule(&rule, errors);
    }
    hook.field("failurePolicy").must_be_one_of(&["Fail", "Ignore"], errors);
    hook.field("matchPolicy").must_be_one_of(&["Equivalent", "Exact"], errors);
    hook.field("reinvocationPolicy").must_be_one_of(&["IfNeeded", "Never"], errors);
    let effects = hook.field("sideEffects");
    if effects.is_set() {
        effects.must_be_one_of(&["None", "NoneOnDryRun"], errors);
    } else {
        effects.required("must specify one of None, NoneOnDryRun", errors);
    }
    let timeout = hook.field("timeoutSeconds");
    if timeout.is_set() && !(1..=WEBHOOK_TIMEOUT_S_MAX).contains(&timeout.number()) {
        timeout.invalid("the timeout value must be between 1 and 30 seconds", errors);
    }
    selector::validate_label_selector(&hook.field("namespaceSelector"), errors);
    selector::validate_label_selector(&hook.field("objectSelector"), errors);
    check_match_conditions(&hook.field("matchConditions"), false, errors);
    client_config(&hook.field("clientConfig"), errors);
    let versions = hook.field("admissionReviewVersions");
    if versions.len() == 0 {
        versions.required("must specify one of v1, v1beta1", errors);
    } else if !versions.items().any(|version| matches!(version.text(), "v1" | "v1beta1")) {
        versions.invalid("must include at least one of v1, v1beta1", errors);
    }
}

fn client_config(config: &ValueAt<'_>, errors: &mut Errors) {
    let (url, service) = (config.field("url"), config.field("service"));
    if url.is_set() == service.is_set() {
        config.required("exactly one of url or service is required", errors);
    } else if url.is_set() {
        if !url.text().starts_with("https://") {
            url.invalid(
                "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                errors,
            );
        }
    } else {
        for name in ["name", "namespace"] {
            service.field(name).must_be_set(errors);
        }
    }
}

fn check_rule(rule: &ValueAt<'_>, errors: &mut Errors) {
    for name in ["operations", "apiGroups", "apiVersions", "resources"] {
        let list = rule.field(name);
        if list.len() == 0 {
            list.required("", errors);
        }
        let has_all = list.items().any(|one| one.text() == "*");
        if has_all && list.len() > 1 && name != "resources" {
            let what = match name {
                "apiGroups" => "API groups",
                "apiVersions" => "API versions",
                other => other,
            };
            list.invalid(&format!("if '*' is present, must not specify other {what}"), errors);
        }
    }
    for operation in rule.field("operations").items() {
        operation.must_be_one_of(&OPERATIONS, errors);
    }
    rule.field("scope").must_be_one_of(&["*", "Cluster", "Namespaced"], errors);
}

/// Fills in the defaults of a ValidatingWebhookConfiguration.
fn defaults(object: &mut JsonObject) {
    objects_mut(object, "webhooks").for_each(webhook);
}

pub(in crate::kinds) fn webhook(webhook: &mut JsonObject) {
    set_if_absent(webhook, "failurePolicy", "Fail");
    set_if_absent(webhook, "timeoutSeconds", WEBHOOK_TIMEOUT_S);
    matching::matching(webhook);
    objects_mut(webhook, "rules").for_each(matching::rule_scope);
    if let Some(service) =
        object_mut(webhook, "clientConfig").and_then(|config| object_mut(config, "service"))
    {
        set_if_absent(service, "port", 443);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::list_at(object, "webhooks").len().into(),
        age::age_of_object(object, now).into(),
    ]
}
