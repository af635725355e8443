//! MutatingWebhookConfiguration: which servers may change objects on their way in.

use crate::kinds::admissionregistration::validating_webhook_configuration;
use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::fill::{Fields, each, fill};
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;

/// Which servers may change objects on their way in.
pub(crate) static MUTATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    categories: &["api-extensions"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults),
    validate: Some(validating_webhook_configuration::validate),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::number("Webhooks"), Column::text("Age")],
    cells: Some(validating_webhook_configuration::cells),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    )
};

/// A MutatingWebhookConfiguration.
fn defaults(object: &mut Fields) {
    for one in each(object, "webhooks") {
        validating_webhook_configuration::webhook(one);
        fill(one, "reinvocationPolicy", "Never");
    }
}
