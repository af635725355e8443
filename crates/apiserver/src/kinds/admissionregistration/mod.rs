//! What changes and refuses objects on their way in: the kinds of `admissionregistration.k8s.io`, one file each.

pub(crate) mod mutating_admission_policy;
pub(crate) mod mutating_admission_policy_binding;
pub(crate) mod mutating_webhook_configuration;
pub(crate) mod validating_admission_policy;
pub(crate) mod validating_admission_policy_binding;
pub(crate) mod validating_webhook_configuration;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[
    &mutating_admission_policy::MUTATING_ADMISSION_POLICY,
    &mutating_admission_policy_binding::MUTATING_ADMISSION_POLICY_BINDING,
    &mutating_webhook_configuration::MUTATING_WEBHOOK_CONFIGURATION,
    &validating_admission_policy::VALIDATING_ADMISSION_POLICY,
    &validating_admission_policy_binding::VALIDATING_ADMISSION_POLICY_BINDING,
    &validating_webhook_configuration::VALIDATING_WEBHOOK_CONFIGURATION,
];
