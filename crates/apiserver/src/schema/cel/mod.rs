//! The rules a definition states in CEL (`x-kubernetes-validations`): checked when it is written, judged per object.
//!
//! A definition's rules are type-checked and their cost is estimated ([`faults`]); those of a served kind are
//! compiled once and evaluated within a budget ([`Cel`]). The grammar is the `cel` crate's and most functions are
//! kube-cel's; types, costs, evaluation and the words are here, because they are part of the API.

mod call_cost;
mod calls;
mod check;
mod cost;
mod defaults;
mod eval;
mod expand;
mod faults;
mod judge;
mod lists;
mod made;
mod overloads;
mod program;
mod rule;
mod size;
mod source;
mod types;
mod unify;
mod value;

pub use faults::faults;

use serde_json::Value;

use self::program::Node;
use self::source::on_deep_stack;
use crate::field::{Error, Errors, Kind};

/// The key rules stand under.
const KEY: &str = "x-kubernetes-validations";

/// The compiled rules of one version of a custom kind.
#[derive(Debug)]
pub struct Cel(Node);

impl Cel {
    /// The rules of a schema; `None` when it states none.
    pub fn compile(schema: &Value) -> Option<Self> {
        has_rules(schema).then(|| Self(on_deep_stack(|| Node::read(schema))))
    }

    /// What the rules say about a new object, or about one that replaces `old`.
    pub fn judge(&self, new: &Value, old: Option<&Value>) -> Errors {
        judge::judge(&self.0, new, old)
    }

    /// Judges an object about which something was found already. After errors that make the values other than the
    /// schema promises, rules are not evaluated, and that is said instead.
    pub fn judge_after(&self, errors: &mut Errors, new: &Value, old: Option<&Value>) {
        if !errors.iter().any(|error| is_blocking(error.kind)) {
            return errors.append(self.judge(new, old));
        }
        let body = "Invalid value: null: some validation rules were not checked because the object was invalid; \
                    correct the existing errors to complete validation";
        errors.push(Error { kind: Kind::Invalid, field: "<nil>".to_owned(), body: body.to_owned() });
    }
}

fn is_blocking(kind: Kind) -> bool {
    matches!(kind, Kind::NotSupported | Kind::Required | Kind::TooLong | Kind::TooMany | Kind::TypeInvalid)
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key(KEY) || fields.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(test)]
mod accepted;
#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod tests;
