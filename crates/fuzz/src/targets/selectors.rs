//! Label and field selectors: a printed selector parses to the same one, and matching agrees with a simple evaluation.
//!
//! Input: `{"label": text, "field": text, "labels": {name: value}}`.

use std::collections::BTreeMap;

use homeostat_core::selector::{FieldSelector, LabelSelector, Operator, Requirement};
use serde_json::{Value, json};

use super::text_of;
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require_equal};

pub(crate) struct Selectors;

impl Target for Selectors {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let labels = json!({"a": "b", "app": "web", "n": "17", "x": "", "tier.io/y": "z"});
        let made =
            ["a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b,,c)", "n>1,n<20", "x=,tier.io/y"];
        let texts = corpus.selectors.iter().map(String::as_str).chain(made);
        texts.map(|text| json!({"label": text, "field": text, "labels": labels})).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "a",
            "app",
            " in (",
            " notin (",
            ")",
            "!=",
            "==",
            "=",
            ">",
            "<",
            "!",
            ",",
            "metadata.name",
            "\\,",
            "17",
            " ",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let labels: BTreeMap<&str, &str> = input["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect();
        Ok(vec![
            check_labels(text_of(input, "label"), &labels)?,
            check_fields(text_of(input, "field"), &labels)?,
        ])
    }
}

fn check_labels(text: &str, labels: &BTreeMap<&str, &str>) -> Result<String, Violation> {
    let selector = match LabelSelector::parse(text) {
        Ok(selector) => selector,
        Err(error) => return Ok(format!("label {error}")),
    };
    let printed = selector.to_string();
    require_equal("a printed label selector", &LabelSelector::parse(&printed), &Ok(selector.clone()))?;
    let expected = selector.requirements().iter().all(|one| is_met(one, labels));
    let found = selector.matches(|name| labels.get(name).copied());
    require_equal("matching of labels", &found, &expected)?;
    for requirement in selector.requirements() {
        if let Some(value) = selector.exact(requirement.key()) {
            let alone: BTreeMap<_, _> = [(requirement.key(), value)].into();
            let first = selector.requirements().iter().find(|one| one.key() == requirement.key());
            require_equal("the exact value", &first.is_some_and(|one| is_met(one, &alone)), &true)?;
        }
    }
    let operators: Vec<_> =
        selector.requirements().iter().map(|one| format!("{:?}", one.operator())).collect();
    Ok(format!("labels {found} {}", operators.join(" ")))
}

/// Evaluates a requirement as the documentation of Kubernetes describes it.
fn is_met(requirement: &Requirement, labels: &BTreeMap<&str, &str>) -> bool {
    let actual = labels.get(requirement.key()).copied();
    let listed = |text: &str| requirement.values().iter().filter(|value| &***value == text).count() > 0;
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = requirement.values().first().and_then(|value| number(value));
    match requirement.operator() {
        Operator::Exists => actual.is_some(),
        Operator::DoesNotExist => actual.is_none(),
        Operator::Equals | Operator::DoubleEquals | Operator::In => actual.is_some_and(listed),
        Operator::NotEquals | Operator::NotIn => !actual.is_some_and(listed),
        Operator::GreaterThan => {
            matches!((actual.and_then(number), bound), (Some(one), Some(two)) if one > two)
        }
        Operator::LessThan => matches!((actual.and_then(number), bound), (Some(one), Some(two)) if one < two),
    }
}

fn check_fields(text: &str, fields: &BTreeMap<&str, &str>) -> Result<String, Violation> {
    let selector = match FieldSelector::parse(text) {
        Ok(selector) => selector,
        Err(error) => return Ok(format!("field {error}")),
    };
    let printed = selector.to_string();
    require_equal("a printed field selector", &FieldSelector::parse(&printed), &Ok(selector.clone()))?;
    let actual = |name: &str| fields.get(name).copied().unwrap_or("");
    let is_met = |term: &homeostat_core::selector::FieldTerm| {
        if term.is_equal { actual(&term.field) == &*term.value } else { actual(&term.field) != &*term.value }
    };
    let found = selector.matches(actual);
    require_equal("matching of fields", &found, &selector.terms().iter().all(is_met))?;
    Ok(format!("fields {found} {}", selector.terms().len().min(4)))
}
