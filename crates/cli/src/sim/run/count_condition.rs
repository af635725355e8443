//! Conditions of a scenario: how many objects of a resource there may be. Small on purpose: anything that needs more
//! than counting belongs in an operator's own tests.

use std::collections::BTreeMap;
use std::fmt;

use homeostat_core::Key;
use homeostat_core::canonical_state::resource_of_key;
use homeostat_core::selector::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A condition on the number of objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CountCondition {
    /// The resource as kubectl writes it: `configmaps`, `pages.demo.dev`.
    count: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// A label selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
    /// Fields that must have these values, by their paths: `data.text: hello`.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exactly: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_most: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<usize>,
}

impl CountCondition {
    /// Rejects a condition that has no number, or whose selector cannot be parsed.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.exactly.is_none() && self.at_most.is_none() && self.at_least.is_none() {
            let count = &self.count;
            return Err(format!("the condition on {count:?} has no number: add exactly, atMost or atLeast"));
        }
        if self.count.chars().any(char::is_uppercase) {
            let count = &self.count;
            return Err(format!(
                "count names the resource as kubectl does (\"configmaps\", \"pages.demo.dev\"), not {count:?}"
            ));
        }
        let selector = self.selector.as_deref().unwrap_or_default();
        LabelSelector::parse(selector)
            .map_err(|error| format!("the selector {selector:?} cannot be parsed: {error}"))?;
        Ok(())
    }

    /// Returns whether an object of this resource can change the count.
    pub(super) fn concerns(&self, key: &Key) -> bool {
        resource_of_key(key) == self.count
    }

    /// Returns the number of matching objects if it violates the condition.
    pub(super) fn violation<'a>(&self, objects: impl Iterator<Item = (&'a Key, &'a Value)>) -> Option<usize> {
        let selector = self.selector.as_deref().unwrap_or_default();
        let selector = LabelSelector::parse(selector).unwrap_or_else(|_| LabelSelector::everything());
        let count = objects.filter(|(key, object)| self.matches(key, object, &selector)).count();
        let holds = self.exactly.is_none_or(|wanted| count == wanted)
            && self.at_most.is_none_or(|most| count <= most)
            && self.at_least.is_none_or(|least| count >= least);
        (!holds).then_some(count)
    }

    fn matches(&self, key: &Key, object: &Value, selector: &LabelSelector) -> bool {
        let labels = &object["metadata"]["labels"];
        self.concerns(key)
            && self.namespace.as_deref().is_none_or(|namespace| key.namespace() == namespace)
            && self.name.as_deref().is_none_or(|name| key.name() == name)
            && selector.matches(|label| labels.get(label).and_then(Value::as_str))
            && self.fields.iter().all(|(path, wanted)| field(object, path) == Some(wanted))
    }
}

/// Returns the field at a path of names and positions: `spec.ports.0.port`.
fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

impl fmt::Display for CountCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [("exactly", self.exactly), ("at most", self.at_most), ("at least", self.at_least)];
        let wanted: Vec<String> = numbers
            .iter()
            .filter_map(|(word, number)| number.map(|number| format!("{word} {number}")))
            .collect();
        write!(f, "{} {}", wanted.join(" and "), self.count)?;
        for (word, text) in [("in", &self.namespace), ("named", &self.name), ("with", &self.selector)] {
            if let Some(text) = text {
                write!(f, " {word} {text}")?;
            }
        }
        for (path, value) in &self.fields {
            write!(f, " where {path} is {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(condition: &str, expected: Option<usize>) {
        let condition: CountCondition = serde_saphyr::from_str(condition).unwrap();
        condition.check().unwrap();
        let objects = [
            (
                Key::new("", "configmaps", "a", "one"),
                json!({"metadata": {"labels": {"app": "x"}}, "data": {"k": "v"}}),
            ),
            (Key::new("", "configmaps", "b", "two"), json!({"metadata": {}})),
            (Key::new("crd:demo.dev", "pages", "a", "home"), json!({"metadata": {}})),
        ];
        assert_eq!(condition.violation(objects.iter().map(|(key, object)| (key, object))), expected);
    }

    #[test]
    fn objects_are_counted_by_resource_namespace_name_labels_and_fields() {
        check("{count: configmaps, exactly: 2}", None);
        check("{count: configmaps, atMost: 1}", Some(2));
        check("{count: configmaps, namespace: a, exactly: 1}", None);
        check("{count: configmaps, name: two, atLeast: 1}", None);
        check("{count: configmaps, selector: app=x, exactly: 1}", None);
        check("{count: configmaps, selector: app!=x, exactly: 0}", Some(1));
        check("{count: configmaps, where: {data.k: v}, exactly: 1}", None);
        check("{count: pages.demo.dev, exactly: 1}", None);
        check("{count: pages, exactly: 0}", None);
    }

    #[test]
    fn one_that_cannot_be_meant_is_refused() {
        let told = |text: &str| serde_saphyr::from_str::<CountCondition>(text).unwrap().check().unwrap_err();
        assert!(told("{count: configmaps}").contains("add exactly, atMost or atLeast"));
        assert!(told("{count: ConfigMap, exactly: 1}").contains("as kubectl does"));
        assert!(told("{count: pods, selector: 'a in', exactly: 1}").contains("cannot be parsed"));
    }
}
