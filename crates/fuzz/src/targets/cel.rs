//! CEL expressions: every expression that compiles ends within its budget and returns the same value every time.
//!
//! Input: `{"text": expression, "object": any, "budget": number}`.

use homeostat_api::schema::{AdmissionScope, CelData, CelExpression, CelFailure, CelResultType};
use serde_json::{Value, json};

use super::text_of;
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require, require_equal};

/// The budget of a policy.
const BUDGET_MAX: u64 = 10_000_000;

pub(crate) struct Cel;

impl Target for Cel {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let object = json!({"metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {"replicas": 3, "list": [1, 2, 3],
            "texts": ["a", "b"], "cpu": "500m", "time": "2026-01-02T03:04:05Z", "ip": "10.0.0.1", "url": "https://a.b/c?d=e"}});
        let made = [
            "object.spec.replicas <= 5 && has(object.metadata.labels)",
            "object.spec.list.all(x, x > 0) || object.spec.texts.exists(t, t.startsWith('a'))",
            "object.spec.list.map(x, x * 2).filter(y, y > 2).size() == 2",
            "quantity(object.spec.cpu).isLessThan(quantity('1'))",
            "timestamp(object.spec.time).getFullYear() + int('17')",
            "object.metadata.name.matches('^[a-z]+$') ? {'a': [1u, 2.5, b'x']} : null",
            "url(object.spec.url).getHost() + ip(object.spec.ip).family().string()",
            "duration('1h').getMinutes() + [1, 2, 3].sum() + object.spec.texts.join('-').size()",
            "object.?spec.?none.orValue('x').lowerAscii().replace('x', 'y').split('')",
            "cel.bind(x, [1, 2], x + x).isSorted()",
        ];
        let rules = corpus.words.iter().filter(|word| word.contains("self.") || word.contains("object."));
        let texts = made.iter().map(|text| (*text).to_owned());
        let rules = rules.map(|rule| rule.replace("self", "object"));
        texts.chain(rules).map(|text| json!({"text": text, "object": object, "budget": BUDGET_MAX})).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "object",
            "object.spec",
            "object.spec.list",
            ".all(x, ",
            ".exists(x, ",
            ".map(x, ",
            ".filter(x, ",
            ")",
            "(",
            "[",
            "]",
            " + ",
            " - ",
            " * ",
            " / ",
            " % ",
            " == ",
            " in ",
            " && ",
            " || ",
            "!",
            " ? ",
            " : ",
            "'a'",
            "1",
            "1u",
            "2.5",
            "b'x'",
            "null",
            "has(",
            "size(",
            ".size()",
            "string(",
            "int(",
            "uint(",
            "double(",
            "bytes(",
            "type(",
            "dyn(",
            "duration('1h')",
            "timestamp('2026-01-02T03:04:05Z')",
            "quantity('1Ki')",
            ".matches('(a+)+$')",
            ".split('')",
            ".join('')",
            ".replace('a', 'aa')",
            ".substring(1)",
            ".indexOf('a')",
            ".charAt(0)",
            ".format([1])",
            "'%s %d'",
            "url('https://a')",
            "ip('::1')",
            "cidr('10.0.0.0/8')",
            "semver('1.2.3')",
            "9223372036854775807",
            "-9223372036854775808",
            "18446744073709551615u",
            "x",
            "{",
            "}",
            ".?",
            "optional.of(",
            ".orValue(",
            "sets.contains(",
            "object.metadata.name",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let text = text_of(input, "text");
        let fault = AdmissionScope::new(false).fault(text, CelResultType::Any);
        let checked =
            format!("checked {}", fault.as_deref().map_or("", |why| why.lines().next().unwrap_or_default()));
        let expression = match CelExpression::compile(text) {
            Ok(expression) => expression,
            Err(why) => {
                require(fault.is_some(), || format!("accepted and does not compile: {why}"))?;
                return Ok(vec![checked]);
            }
        };
        let variables = [("object", CelData::from_json(&input["object"]))];
        let budget = input["budget"].as_u64().unwrap_or(BUDGET_MAX).min(BUDGET_MAX);
        let evaluate = || {
            let mut left = budget;
            let value = expression.evaluate(&variables, None, &mut left);
            (value.map(|value| value.to_json()), left)
        };
        // The first evaluation also pays for compiling the literal patterns, which are kept.
        let _ = evaluate();
        let (value, left) = evaluate();
        require(left <= budget, || format!("the budget grew: {left} of {budget}"))?;
        require_equal("evaluated twice", &(comparable(&value), left), &{
            let (value, left) = evaluate();
            (comparable(&value), left)
        })?;
        let outcome = match &value {
            Ok(value) => format!(
                "value {}",
                value.as_ref().map_or_else(String::new, |v| super::merge_patch::shape(v, 1))
            ),
            Err(CelFailure::Error(why)) => format!("error {why}"),
            Err(CelFailure::Budget) => "budget".to_owned(),
        };
        Ok(vec![checked, outcome])
    }
}

/// Returns the result as text, because NaN is not equal to itself but prints the same.
fn comparable(value: &Result<Option<Value>, CelFailure>) -> String {
    format!("{value:?}")
}
