//! ValidatingAdmissionPolicy: refuses objects on their way in, by expressions.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::matching;
use crate::kinds::declaration::{Kind, STATUS, warn_only_stored};
use crate::kinds::fill::{Fields, fill, inner, made};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};

/// Refuses objects on their way in, by expressions.
pub(crate) static VALIDATING_ADMISSION_POLICY: Kind = Kind {
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::number("Validations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    )
};

/// A ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
pub(in crate::kinds) fn defaults(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "failurePolicy", "Fail");
    if let Some(constraints) = inner(spec, "matchConstraints") {
        matching::match_resources(constraints);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, now, "spec.validations")
}

pub(in crate::kinds) fn policy(object: &Value, now: Timestamp, rules: &str) -> Vec<Value> {
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
