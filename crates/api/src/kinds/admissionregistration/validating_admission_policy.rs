//! ValidatingAdmissionPolicy: uses expressions to reject objects when they are written.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::expressions::{check_expression, check_policy};
use crate::kinds::admissionregistration::matching;
use crate::kinds::subresource::STATUS;
use crate::object::fill::{JsonObject, object_mut, object_or_insert, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};
use crate::schema::CelResultType;

/// Uses expressions to reject objects when they are written.
pub static VALIDATING_ADMISSION_POLICY: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults),
    validate: Some(validate),
    columns: &[Column::NAME, Column::number("Validations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    )
};

fn validate(policy: &ValueAt<'_>, errors: &mut Errors) {
    let scope = check_policy(policy, errors);
    let in_messages = scope.without_authorizer();
    let spec = policy.field("spec");
    for validation in spec.field("validations").items() {
        check_expression(&validation.field("expression"), &scope, CelResultType::Bool, errors);
        let message = validation.field("messageExpression");
        if !message.text().trim().is_empty() {
            check_expression(&message, &in_messages, CelResultType::Text, errors);
        }
    }
    for annotation in spec.field("auditAnnotations").items() {
        let value = annotation.field("valueExpression");
        check_expression(&value, &scope, CelResultType::TextOrNull, errors);
    }
}

/// Fills in the defaults of a ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
pub(in crate::kinds) fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_absent(spec, "failurePolicy", "Fail");
    if let Some(constraints) = object_mut(spec, "matchConstraints") {
        matching::match_resources(constraints);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, now, "spec.validations")
}

pub(in crate::kinds) fn policy(object: &Value, now: Timestamp, rules: &str) -> Vec<Value> {
    let parameters = read::value_at(object, "spec.paramKind").map_or_else(
        || "<unset>".to_owned(),
        |kind| format!("{}/{}", read::string_at(kind, "apiVersion"), read::string_at(kind, "kind")),
    );
    vec![
        read::name(object).into(),
        read::list_at(object, rules).len().into(),
        parameters.into(),
        age::age_of_object(object, now).into(),
    ]
}
