//! Evaluates the expressions of a policy for one request and one parameter, within one budget.

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::resource::Resource;
use homeostat_api::schema::{CelData, CelFailure};
use homeostat_api::status::Status;
use serde_json::{Value, json};

use crate::admission::AdmissionRequest;
use crate::admission::compiled_expressions::{ExpressionCache, failure_text};
use crate::admission::request::is_kind;
use crate::admission::webhook::{convert_between, describe, described};

/// The maximum cost of one policy for one request, binding and parameter, as in Kubernetes.
const POLICY_COST_MAX: u64 = 10_000_000;

/// The cost of a variable for each variable before it. With it, about two thousand variables use up the budget.
const VARIABLE_COST: u64 = 4;

/// The name of the object in expressions.
const OBJECT: &str = "object";

/// The objects of a request, in the version that a policy matches.
pub(super) struct ShownObjects {
    pub(super) object: Value,
    /// Null if there is none.
    old: Value,
}

impl ShownObjects {
    /// Converts the objects of a request.
    pub(super) async fn convert(
        request: &AdmissionRequest<'_>,
        resource: &Resource,
        object: &Value,
    ) -> Result<Self, Status> {
        let object = convert_between(request, request.resource, resource, object).await?;
        let old = match request.old {
            Some(old) => convert_between(request, request.resource, resource, old).await?,
            None => Value::Null,
        };
        Ok(Self { object, old })
    }
}

/// The variables of one evaluation, and the rest of its budget.
pub(super) struct PolicyEvaluation<'a> {
    request: &'a AdmissionRequest<'a>,
    expressions: &'a ExpressionCache,
    variables: Vec<(&'static str, CelData)>,
    budget: u64,
}

impl<'a> PolicyEvaluation<'a> {
    /// Prepares the variables that expressions see: `object`, `oldObject`, `request`, `params`, `namespaceObject`,
    /// `authorizer`, and no `variables` yet.
    pub(super) fn new(
        request: &'a AdmissionRequest<'a>,
        resource: &Resource,
        shown: &ShownObjects,
        parameter: &Value,
    ) -> Self {
        let mut facts = described(&describe(request, &shown.object));
        facts["resource"] =
            json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let namespace = if request.namespace.is_empty() || is_kind(request.resource, &NAMESPACE) {
            Value::Null
        } else {
            request.load(&NAMESPACE, "", request.namespace).unwrap_or_default()
        };
        let mut variables = vec![
            (OBJECT, CelData::from_json(&shown.object)),
            ("oldObject", CelData::from_json(&shown.old)),
            ("request", CelData::from_json(&facts)),
            ("params", CelData::from_json(parameter)),
            ("namespaceObject", CelData::from_json(&namespace)),
        ];
        variables.extend(request.authorizer_variables(&shown.object));
        variables.push(("variables", CelData::from_fields(&[])));
        let expressions = request.admission.expressions();
        Self { request, expressions, variables, budget: POLICY_COST_MAX }
    }

    /// Replaces the object that expressions see.
    pub(super) fn set_object(&mut self, object: &Value) {
        if let Some((_, data)) = self.variables.iter_mut().find(|(name, _)| *name == OBJECT) {
            *data = CelData::from_json(object);
        }
    }

    /// Evaluates the variables of a policy in order. A variable without a value stays undefined, and expressions that
    /// use it fail.
    pub(super) fn define_variables(&mut self, variables: &Value) {
        let mut known = Vec::new();
        for variable in variables.as_array().into_iter().flatten() {
            let text = |field: &str| variable[field].as_str().unwrap_or_default();
            // Each variable copies the names of those before it, so their number is charged.
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
        let value = self.expressions.evaluate(text, &self.variables, self.request, &mut self.budget);
        if matches!(value, Err(CelFailure::Budget)) {
            self.budget = 0;
        }
        value.map_err(|failure| failure_text(text, &failure))
    }

    /// Returns whether all match conditions hold. Returns the failure if none is false and one fails.
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
