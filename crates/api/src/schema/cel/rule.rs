//! Parses and compiles one entry of `x-kubernetes-validations`.
//!
//! A definition's rules are compiled with types and a cost estimate when it is written ([`Rule::check`]), and without
//! them when its objects are served: rules that were checked once need no second check.

use cel::IdedExpr;
use kube_cel::cel;
use serde::Deserialize;

use super::check::{CheckedExpression, check};
use super::cost_estimate::estimate;
use super::expand::expand;
use super::source::parse;
use super::types::{CelType, DeclaredType};

/// A rule as the definition writes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    #[serde(rename = "rule")]
    pub(super) text: String,
    pub(super) message: String,
    pub(super) message_expression: String,
    pub(super) reason: Option<String>,
    pub(super) field_path: String,
    pub(super) optional_old_self: Option<bool>,
}

/// The result of checking a rule; errors are complete messages.
#[derive(Debug, Default)]
pub(super) struct RuleFindings {
    pub(super) fault: Option<String>,
    /// The maximum cost of one evaluation.
    pub(super) cost: u64,
    pub(super) uses_old_self: bool,
    pub(super) message_fault: Option<String>,
    pub(super) message_cost: Option<u64>,
}

impl Rule {
    /// Checks the rule for values of this type.
    pub(super) fn check(&self, declared: &std::sync::Arc<DeclaredType>) -> RuleFindings {
        let mut findings = RuleFindings::default();
        if self.text.trim().is_empty() {
            return findings;
        }
        match self.expression(&self.text, declared) {
            Err(fault) => findings.fault = Some(format!("compilation failed: {fault}")),
            Ok((_, checked)) if !matches!(checked.result, CelType::Bool) => {
                findings.fault = Some("cel expression must evaluate to a bool".to_owned());
            }
            Ok((expr, checked)) => {
                findings.cost = estimate(&expr, &checked, declared);
                findings.uses_old_self = checked.uses_old_self;
                self.check_message(declared, &mut findings);
            }
        }
        findings
    }

    fn check_message(&self, declared: &std::sync::Arc<DeclaredType>, findings: &mut RuleFindings) {
        if self.message_expression.is_empty() {
            return;
        }
        match self.expression(&self.message_expression, declared) {
            Err(fault) => {
                findings.message_fault = Some(format!("messageExpression compilation failed: {fault}"));
            }
            Ok((_, checked)) if !matches!(checked.result, CelType::String) => {
                findings.message_fault = Some("messageExpression must evaluate to a string".to_owned());
            }
            Ok((expr, checked)) => findings.message_cost = Some(estimate(&expr, &checked, declared)),
        }
    }

    fn expression(
        &self,
        text: &str,
        declared: &std::sync::Arc<DeclaredType>,
    ) -> Result<(IdedExpr, CheckedExpression), String> {
        let expr = expand(parse(text)?);
        let this = declared.type_of();
        let old =
            if self.optional_old_self == Some(true) { CelType::optional(this.clone()) } else { this.clone() };
        let checked = check(&expr, text, &this, &old)?;
        Ok((expr, checked))
    }

    /// Returns the rule as Kubernetes prints it next to an error.
    pub(super) fn shown(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let or_null = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
        let shown = format!(
            r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
            text(&self.text),
            text(&self.message),
            text(&self.message_expression),
            or_null(self.reason.as_deref().map(text)),
            text(&self.field_path),
            or_null(self.optional_old_self.map(|is| is.to_string())),
        );
        // Go's JSON encoder escapes these three characters.
        shown.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}
