//! Admission: the kinds of `admissionregistration.k8s.io`, one file each.

mod expressions;
mod matching;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod mutating_webhook_configuration;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod validating_webhook_configuration;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &mutating_admission_policy::MUTATING_ADMISSION_POLICY,
    &mutating_admission_policy_binding::MUTATING_ADMISSION_POLICY_BINDING,
    &mutating_webhook_configuration::MUTATING_WEBHOOK_CONFIGURATION,
    &validating_admission_policy::VALIDATING_ADMISSION_POLICY,
    &validating_admission_policy_binding::VALIDATING_ADMISSION_POLICY_BINDING,
    &validating_webhook_configuration::VALIDATING_WEBHOOK_CONFIGURATION,
];

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    #[test]
    fn bindings_and_services_print_like_kubernetes() {
        let binding = |reference| {
            crate::kinds::admissionregistration::validating_admission_policy_binding::cells(
                &json!({"spec": {"paramRef": reference}}),
                Timestamp::UNIX_EPOCH,
            )[2]
            .clone()
        };
        assert_eq!(binding(json!({"name": "p"})), "*/p");
        assert_eq!(binding(json!({"name": "p", "namespace": "n"})), "n/p");
        assert_eq!(binding(Value::Null), "<unset>");
        let service = |status: &str| {
            let conditions = json!([{"type": "Available", "status": status, "reason": "Gone"}]);
            crate::kinds::apiregistration::api_service::cells(
                &json!({"status": {"conditions": conditions}}),
                Timestamp::UNIX_EPOCH,
            )[2]
            .clone()
        };
        assert_eq!((service("True"), service("False")), (json!("True"), json!("False (Gone)")));
    }
}
