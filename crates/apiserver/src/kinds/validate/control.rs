//! Kinds that steer others from outside: autoscalers, webhook configurations and the APIs other servers answer.

use serde_json::json;

use super::at::{At, Errors};
use super::selector;
use crate::field::Error;
use crate::kinds::names;

const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// A webhook must answer within the time a request may take.
const WEBHOOK_TIMEOUT_S_MAX: i64 = 30;
/// How far up an API can be in the order clients prefer: among groups, and among the versions of one.
const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;

/// A HorizontalPodAutoscaler.
pub(in crate::kinds) fn autoscaler(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.is_set() && min.number() < 1 {
        min.invalid("must be greater than or equal to 1", errors);
    }
    if max.number() == 0 {
        max.required("must be set and greater than 0", errors);
    } else if max.number() < 0 {
        max.invalid("must be greater than or equal to 1", errors);
    }
    if min.is_set() && max.number() < min.number() {
        max.invalid("must be greater than or equal to `minReplicas`", errors);
    }
    let target = spec.field("scaleTargetRef");
    target.field("kind").must_be_named(names::path_segment, errors);
    target.field("name").must_be_named(names::path_segment, errors);
    for metric in spec.field("metrics").items() {
        let kind = metric.field("type");
        if kind.must_be_set(errors) {
            kind.must_be_one_of(&METRIC_TYPES, errors);
        }
    }
}

/// A webhook configuration of either sort.
pub(in crate::kinds) fn webhooks(object: &At<'_>, errors: &mut Errors) {
    let mut seen = std::collections::BTreeSet::new();
    for hook in object.field("webhooks").items() {
        check_webhook(&hook, errors);
        if !seen.insert(hook.field("name").text().to_owned()) {
            hook.field("name").duplicate(errors);
        }
    }
}

fn check_webhook(hook: &At<'_>, errors: &mut Errors) {
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
    selector::check(&hook.field("namespaceSelector"), errors);
    selector::check(&hook.field("objectSelector"), errors);
    client_config(&hook.field("clientConfig"), errors);
    let versions = hook.field("admissionReviewVersions");
    if versions.len() == 0 {
        versions.required("must specify one of v1, v1beta1", errors);
    } else if !versions.items().any(|version| matches!(version.text(), "v1" | "v1beta1")) {
        versions.invalid("must include at least one of v1, v1beta1", errors);
    }
}

fn client_config(config: &At<'_>, errors: &mut Errors) {
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

fn check_rule(rule: &At<'_>, errors: &mut Errors) {
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

/// An APIService: named after the version it is, and answered here or by a Service.
pub(in crate::kinds) fn api_service(object: &At<'_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (group, version) = (spec.field("group"), spec.field("version"));
    let expected = format!("{}.{}", version.text(), group.text());
    if metadata.field("name").text() != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        metadata.field("name").invalid(&detail, errors);
    }
    if group.is_zero() && version.text() != "v1" {
        group.required("only v1 may have an empty group and it better be legacy kube", errors);
    }
    group.must_pass(names::subdomain, errors);
    for complaint in names::dns1035_label(version.text()) {
        errors.push(Error::invalid(&version.path, &json!(version.text()), &complaint));
    }
    for (name, max) in
        [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)]
    {
        let priority = spec.field(name);
        if !(1..=max).contains(&priority.number()) {
            let shown = json!(priority.number());
            let detail = format!("must be positive and less than {max}");
            errors.push(Error::invalid(&priority.path, &shown, &detail));
        }
    }
    reached_by(&spec, errors);
}

fn reached_by(spec: &At<'_>, errors: &mut Errors) {
    let (service, trusted) = (spec.field("service"), spec.field("caBundle"));
    let careless = spec.field("insecureSkipTLSVerify");
    if service.is_set() {
        for name in ["namespace", "name"] {
            service.field(name).must_be_set(errors);
        }
        let port = service.field("port");
        if port.is_set() && !(1..=i64::from(u16::MAX)).contains(&port.number()) {
            port.invalid("port is not valid: must be between 1 and 65535, inclusive", errors);
        }
        if careless.value == true && !trusted.is_zero() {
            careless.invalid("may not be true if caBundle is present", errors);
        }
        return;
    }
    if !trusted.is_zero() {
        // Four letters of base64 stand for three bytes.
        let shown = format!("{} bytes", trusted.text().trim_end_matches('=').len() * 3 / 4);
        let detail = "local APIServices may not have a caBundle";
        errors.push(Error::invalid(&trusted.path, &json!(shown), detail));
    }
    if careless.value == true {
        careless.invalid("local APIServices may not have insecureSkipTLSVerify", errors);
    }
}
