//! Caches the compiled expressions of webhooks and policies by their source: compiling takes longer than evaluating.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use homeostat_api::schema::{CelAuthorizer, CelData, CelExpression, CelFailure};

/// The maximum number of cached expressions. A cluster uses a few hundred; when the cache is full, it is emptied.
const EXPRESSIONS_MAX: usize = 2000;

/// Compiled expressions by their source.
#[derive(Debug, Default)]
pub(super) struct ExpressionCache(Mutex<HashMap<String, CompiledExpression>>);

/// A compiled expression, or the reason it does not compile.
type CompiledExpression = Arc<Result<CelExpression, String>>;

impl ExpressionCache {
    /// Evaluates an expression and subtracts its cost from the budget. Does not evaluate anything once the budget is
    /// used up.
    pub(super) fn evaluate(
        &self,
        text: &str,
        variables: &[(&str, CelData)],
        authorizer: &dyn CelAuthorizer,
        budget: &mut u64,
    ) -> Result<CelData, CelFailure> {
        if *budget == 0 {
            return Err(CelFailure::Budget);
        }
        match &*self.compiled(text) {
            Ok(expression) => expression.evaluate(variables, Some(authorizer), budget),
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

/// Describes why an expression has no value, with Kubernetes' wording.
pub(super) fn failure_text(text: &str, failure: &CelFailure) -> String {
    match failure {
        CelFailure::Error(why) => format!("expression '{text}' resulted in error: {why}"),
        CelFailure::Budget => {
            "validation failed due to running out of cost budget, no further validation rules will be run"
                .to_owned()
        }
    }
}
