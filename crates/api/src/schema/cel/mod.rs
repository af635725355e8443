//! Handles the CEL rules of a definition (`x-kubernetes-validations`): they are checked when the definition is written,
//! and evaluated for each object.
//!
//! A definition's rules are type-checked and their cost is estimated ([`rule_errors`]); the rules of a served kind are
//! compiled once and evaluated within a budget ([`CelRules`]). The grammar is the `cel` crate's and most functions are
//! kube-cel's; types, costs, evaluation and messages are implemented here, because they are part of the API.

mod admission_scope;
mod authorizer;
mod call_cost_estimate;
mod calls;
mod check;
mod check_rules;
mod cost_estimate;
mod cost_limits;
mod defaults;
mod eval;
mod evaluate_rules;
mod expand;
mod expression;
mod lists;
mod overloads;
mod policy_types;
mod program;
mod resolve_schema;

mod rule;
mod size;
mod source;
mod text_limit;
mod types;
mod unify;
mod value;

pub use admission_scope::{AdmissionScope, CelResultType};
pub use authorizer::{
    AuthorizationAnswer, AuthorizationQuestion, AuthorizationTarget, CelAuthorizer, ResourceTarget,
};
pub use check_rules::rule_errors;
pub use expression::{CelData, CelExpression, CelFailure};
pub use policy_types::{CheckedKind, ExpressionWarning, ParameterSchema, expression_warnings};

use serde_json::Value;

use self::program::CompiledSchema;
use self::source::on_deep_stack;
use crate::field::{Error, ErrorType, Errors};

/// The schema keyword that holds rules.
const KEY: &str = "x-kubernetes-validations";

/// The compiled rules of one version of a custom kind.
#[derive(Debug)]
pub struct CelRules(CompiledSchema);

impl CelRules {
    /// Compiles the rules of a schema; `None` if it has none.
    pub fn compile(schema: &Value) -> Option<Self> {
        has_rules(schema).then(|| Self(on_deep_stack(|| CompiledSchema::read(schema))))
    }

    /// Evaluates the rules on a new object, or on one that replaces `old`.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Errors {
        evaluate_rules::evaluate_rules(&self.0, new, old)
    }

    /// Evaluates the rules on an object that already has errors. If those errors mean that values violate the schema,
    /// the rules are not evaluated, and an error says so instead.
    pub fn validate_after(&self, errors: &mut Errors, new: &Value, old: Option<&Value>) {
        if !errors.iter().any(|error| is_blocking(error.kind)) {
            return errors.append(self.validate(new, old));
        }
        let body = "Invalid value: null: some validation rules were not checked because the object was invalid; \
                    correct the existing errors to complete validation";
        errors.push(Error { kind: ErrorType::Invalid, field: "<nil>".to_owned(), body: body.to_owned() });
    }
}

fn is_blocking(kind: ErrorType) -> bool {
    matches!(
        kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key(KEY) || fields.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(test)]
mod accepted_rules_tests;
#[cfg(test)]
mod evaluate_rules_tests;
#[cfg(test)]
mod tests;
