//! Admission policies and webhooks, and the API services beside them.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read, selector};

pub(crate) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::list(object, "webhooks").len().into(), age::of(object, now).into()]
}

pub(crate) fn validating_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, now, "spec.validations")
}

pub(crate) fn mutating_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, now, "spec.mutations")
}

fn policy(object: &Value, now: Timestamp, rules: &str) -> Vec<Value> {
    let parameters = read::at(object, "spec.paramKind").map_or_else(
        || "<unset>".to_owned(),
        |kind| format!("{}/{}", read::text(kind, "apiVersion"), read::text(kind, "kind")),
    );
    vec![
        read::name(object).into(),
        read::list(object, rules).len().into(),
        parameters.into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = read::at(object, "spec.paramRef").map_or_else(|| "<unset>".to_owned(), parameters);
    vec![
        read::name(object).into(),
        read::text(object, "spec.policyName").into(),
        parameters.into(),
        age::of(object, now).into(),
    ]
}

/// Whether the parameters live in namespaces cannot be told here, so a missing namespace is any.
fn parameters(reference: &Value) -> String {
    match read::text(reference, "name") {
        "" if read::at(reference, "selector").is_some() => selector::selector(reference, "selector"),
        "" => "<unset>".to_owned(),
        name => format!("{}/{name}", read::text_or(reference, "namespace", "*")),
    }
}

pub(crate) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = read::at(object, "spec.service").map_or_else(
        || "Local".to_owned(),
        |service| format!("{}/{}", read::text(service, "namespace"), read::text(service, "name")),
    );
    let available = read::condition(object, "Available").map_or_else(
        || "Unknown".to_owned(),
        |condition| match (read::text(condition, "status"), read::text(condition, "reason")) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    vec![read::name(object).into(), service.into(), available.into(), age::of(object, now).into()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bindings_and_services_print_like_kubernetes() {
        let binding = |reference| {
            policy_binding(&json!({"spec": {"paramRef": reference}}), Timestamp::UNIX_EPOCH)[2].clone()
        };
        assert_eq!(binding(json!({"name": "p"})), "*/p");
        assert_eq!(binding(json!({"name": "p", "namespace": "n"})), "n/p");
        assert_eq!(binding(Value::Null), "<unset>");
        let service = |status: &str| {
            let conditions = json!([{"type": "Available", "status": status, "reason": "Gone"}]);
            api_service(&json!({"status": {"conditions": conditions}}), Timestamp::UNIX_EPOCH)[2].clone()
        };
        assert_eq!((service("True"), service("False")), (json!("True"), json!("False (Gone)")));
    }
}
