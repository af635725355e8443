//! Evaluates the expressions of a policy for one request and one parameter, within one budget.

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::resource::Resource;
use homeostat_api::schema::{CelData, CelFailure};
use serde_json::{Value, json};

use crate::admission::AdmissionRequest;
use crate::admission::compiled_expressions::{Expressions, failure_text};
use crate::admission::request::is_kind;
use crate::admission::webhook::{convert_between, describe, described};

/// The most that one policy may cost for one request, binding and parameter, as in Kubernetes.
const BUDGET: u64 = 10_000_000;

/// The cost of a variable for each one before it: with this, some two thousand of them use up the budget.
const VARIABLE_COST: u64 = 4;

/// The variables of one evaluation, and what is left of its budget.
pub(super) struct PolicyEvaluation<'a> {
    expressions: &'a Expressions,
    variables: Vec<(&'static str, CelData)>,
    budget: u64,
}

impl<'a> PolicyEvaluation<'a> {
    /// Prepares the variables: `object`, `oldObject`, `request`, `params`, `namespaceObject` and `variables`.
    pub(super) fn new(
        request: &'a AdmissionRequest<'_>,
        resource: &Resource,
        object: &Value,
        parameter: &Value,
        policy: &Value,
    ) -> Self {
        let shown = |object: &Value| convert_between(request.resource, resource, object);
        let mut facts = described(&describe(request, object));
        facts["resource"] =
            json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let namespace = if request.namespace.is_empty() || is_kind(request.resource, &NAMESPACE) {
            Value::Null
        } else {
            request.load(&NAMESPACE, "", request.namespace).unwrap_or_default()
        };
        let variables = vec![
            ("object", CelData::from_json(&shown(object))),
            ("oldObject", CelData::from_json(&request.old.map(shown).unwrap_or_default())),
            ("request", CelData::from_json(&facts)),
            ("params", CelData::from_json(parameter)),
            ("namespaceObject", CelData::from_json(&namespace)),
            ("variables", CelData::from_fields(&[])),
        ];
        let expressions = request.admission.expressions();
        let mut evaluation = Self { expressions, variables, budget: BUDGET };
        evaluation.define_variables(&policy["spec"]["variables"]);
        evaluation
    }

    /// Evaluates the variables of a policy in order. One that has no value is absent; expressions that use it fail.
    fn define_variables(&mut self, variables: &Value) {
        let mut known = Vec::new();
        for variable in variables.as_array().into_iter().flatten() {
            let text = |field: &str| variable[field].as_str().unwrap_or_default();
            // Each takes a copy of the names of those before it, so their number costs.
            self.budget = self.budget.saturating_sub(known.len() as u64 * VARIABLE_COST);
            if let Ok(value) = self.evaluate(text("expression")) {
                known.push((text("name").to_owned(), value));
                if let Some((_, data)) = self.variables.last_mut() {
                    *data = CelData::from_fields(&known);
                }
            }
        }
    }

    /// Evaluates an expression.
    pub(super) fn evaluate(&mut self, text: &str) -> Result<CelData, String> {
        let value = self.expressions.evaluate(text, &self.variables, &mut self.budget);
        if matches!(value, Err(CelFailure::Budget)) {
            self.budget = 0;
        }
        value.map_err(|failure| failure_text(text, &failure))
    }

    /// Returns whether all match conditions hold. If none is false and one fails, that is the failure.
    pub(super) fn conditions_match(&mut self, policy: &Value) -> Result<bool, String> {
        let mut errors = Vec::new();
        for condition in policy["spec"]["matchConditions"].as_array().into_iter().flatten() {
            let text = condition["expression"].as_str().unwrap_or_default();
            match self.evaluate(text).map(|value| value.as_bool()) {
                Ok(Some(false)) => return Ok(false),
                Ok(Some(true)) => {}
                Ok(None) => errors.push("cel expression must evaluate to a bool".to_owned()),
                Err(why) => errors.push(why),
            }
        }
        match &*errors {
            [] => Ok(true),
            [one] => Err(one.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }
}
