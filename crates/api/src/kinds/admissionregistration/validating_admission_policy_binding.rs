//! ValidatingAdmissionPolicyBinding: says where a validating admission policy applies.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::matching;
use crate::object::fill::{JsonObject, object_mut};
use crate::object::read;
use crate::printing::{Column, age, selectors};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Says where a validating admission policy applies.
pub static VALIDATING_ADMISSION_POLICY_BINDING: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults),
    columns: &[Column::NAME, Column::text("PolicyName"), Column::text("ParamRef"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    )
};

/// Fills in the defaults of an admission policy's binding.
pub(in crate::kinds) fn defaults(object: &mut JsonObject) {
    if let Some(resources) = object_mut(object, "spec").and_then(|spec| object_mut(spec, "matchResources")) {
        matching::match_resources(resources);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = read::value_at(object, "spec.paramRef").map_or_else(|| "<unset>".to_owned(), parameters);
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.policyName").into(),
        parameters.into(),
        age::age_of_object(object, now).into(),
    ]
}

/// Prints the parameters. Whether they are namespaced is unknown here, so a missing namespace means any.
fn parameters(reference: &Value) -> String {
    match read::string_at(reference, "name") {
        "" if read::value_at(reference, "selector").is_some() => selectors::selector(reference, "selector"),
        "" => "<unset>".to_owned(),
        name => format!("{}/{name}", read::string_at_or(reference, "namespace", "*")),
    }
}
