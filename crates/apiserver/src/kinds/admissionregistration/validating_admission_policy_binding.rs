//! ValidatingAdmissionPolicyBinding: where a validating admission policy applies.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::matching;
use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::fill::{Fields, inner};
use crate::kinds::printing::{Column, age, read, selectors};
use crate::kinds::strategy::PLAIN;

/// Where a validating admission policy applies.
pub(crate) static VALIDATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("PolicyName"), Column::text("ParamRef"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    )
};

/// The binding of an admission policy.
pub(in crate::kinds) fn defaults(object: &mut Fields) {
    if let Some(resources) = inner(object, "spec").and_then(|spec| inner(spec, "matchResources")) {
        matching::match_resources(resources);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
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
        "" if read::at(reference, "selector").is_some() => selectors::selector(reference, "selector"),
        "" => "<unset>".to_owned(),
        name => format!("{}/{name}", read::text_or(reference, "namespace", "*")),
    }
}
