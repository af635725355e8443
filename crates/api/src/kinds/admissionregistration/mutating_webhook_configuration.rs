//! MutatingWebhookConfiguration: lists the servers that may change objects when they are written.

use crate::kinds::admissionregistration::validating_webhook_configuration;
use crate::object::fill::{JsonObject, objects_mut, set_if_absent};
use crate::printing::Column;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Lists the servers that may change objects when they are written.
pub static MUTATING_WEBHOOK_CONFIGURATION: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults),
    validate: Some(validating_webhook_configuration::validate),
    columns: &[Column::NAME, Column::number("Webhooks"), Column::text("Age")],
    cells: Some(validating_webhook_configuration::cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    )
};

/// Fills in the defaults of a MutatingWebhookConfiguration.
fn defaults(object: &mut JsonObject) {
    for one in objects_mut(object, "webhooks") {
        validating_webhook_configuration::webhook(one);
        set_if_absent(one, "reinvocationPolicy", "Never");
    }
}
