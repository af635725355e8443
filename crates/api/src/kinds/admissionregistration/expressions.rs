//! Checks the expressions of webhooks and policies when they are written.

use std::collections::BTreeSet;

use crate::resource::value_at::{Errors, ValueAt};
use crate::schema::{AdmissionScope, CelResultType};

/// The most match conditions, as in Kubernetes.
const CONDITIONS_MAX: usize = 64;

/// Kubernetes' message about a missing policy expression.
const MISSING: &str = "expression is not specified";

/// Checks an expression of a policy, which is required.
pub(super) fn check_expression(
    place: &ValueAt<'_>,
    scope: &AdmissionScope,
    wanted: CelResultType,
    errors: &mut Errors,
) {
    let text = place.text().trim();
    if text.is_empty() {
        place.required(MISSING, errors);
    } else if let Some(why) = scope.fault(text, wanted) {
        place.invalid(&why, errors);
    }
}

/// Checks match conditions.
pub(super) fn check_match_conditions(conditions: &ValueAt<'_>, has_params: bool, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    let scope = AdmissionScope::new(has_params);
    for (at, condition) in conditions.items().enumerate() {
        if at == CONDITIONS_MAX {
            conditions.invalid(&format!("must have at most {CONDITIONS_MAX} items"), errors);
            return;
        }
        let expression = condition.field("expression");
        if expression.text().trim().is_empty() {
            expression.required("", errors);
        } else {
            check_expression(&expression, &scope, CelResultType::Bool, errors);
        }
        let name = condition.field("name");
        if name.must_be_set(errors) && !names.insert(name.text().to_owned()) {
            name.duplicate(errors);
        }
    }
}

/// Checks the parts that both kinds of policies share: match conditions and variables. Returns the scope for their
/// other expressions.
pub(super) fn check_policy(policy: &ValueAt<'_>, errors: &mut Errors) -> AdmissionScope {
    let spec = policy.field("spec");
    let has_params = spec.field("paramKind").is_set();
    check_match_conditions(&spec.field("matchConditions"), has_params, errors);
    let mut scope = AdmissionScope::new(has_params).with_variables();
    for variable in spec.field("variables").items() {
        let expression = variable.field("expression");
        let text = expression.text().trim();
        if text.is_empty() {
            expression.required(MISSING, errors);
        } else if let Some(why) = scope.define_variable(variable.field("name").text(), text) {
            expression.invalid(&why, errors);
        }
    }
    scope
}
