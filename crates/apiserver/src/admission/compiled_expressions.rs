//! Compiled expressions of webhooks and policies, kept by their text: compiling takes longer than evaluating.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use homeostat_api::schema::{CelData, CelExpression, CelFailure};

/// The most expressions that are kept. A cluster has some hundred; beyond that all are compiled again.
const EXPRESSIONS_MAX: usize = 2000;

/// Compiled expressions by their text.
#[derive(Debug, Default)]
pub(super) struct Expressions(Mutex<HashMap<String, CompiledExpression>>);

/// An expression, or why it is none.
type CompiledExpression = Arc<Result<CelExpression, String>>;

impl Expressions {
    /// Evaluates an expression. Its cost is taken from the budget.
    pub(super) fn evaluate(
        &self,
        text: &str,
        variables: &[(&str, CelData)],
        budget: &mut u64,
    ) -> Result<CelData, CelFailure> {
        match &*self.compiled(text) {
            Ok(expression) => expression.evaluate(variables, budget),
            Err(why) => Err(CelFailure::Error(format!("compilation failed: {why}"))),
        }
    }

    fn compiled(&self, text: &str) -> CompiledExpression {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(text) {
            return Arc::clone(known);
        }
        let compiled = Arc::new(CelExpression::compile(text));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= EXPRESSIONS_MAX {
            all.clear();
        }
        all.insert(text.to_owned(), Arc::clone(&compiled));
        compiled
    }
}

/// Returns why an expression has no value, in the words of Kubernetes.
pub(super) fn failure_text(text: &str, failure: &CelFailure) -> String {
    match failure {
        CelFailure::Error(why) => format!("expression '{text}' resulted in error: {why}"),
        CelFailure::Budget => {
            "validation failed due to running out of cost budget, no further validation rules will be run"
                .to_owned()
        }
    }
}
