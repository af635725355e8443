//! MutatingWebhookConfiguration: which servers may change objects on their way in.

use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Which servers may change objects on their way in.
pub(crate) static MUTATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    categories: &["api-extensions"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults::extra::mutating_webhooks),
    validate: Some(validate::control::webhooks),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::number("Webhooks"), Column::text("Age")],
    cells: Some(cells::admission::webhooks),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    )
};
