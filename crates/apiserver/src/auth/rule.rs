//! One RBAC rule and what it allows. Pure data and comparisons; which rules cover which is `coverage`'s.
//!
//! **Invariant:** nothing here widens a rule: a resource name does not cover its subresources, an empty list matches
//! nothing (except `resourceNames`, where empty means all).

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serialize};

use super::Attributes;

/// Matches every verb, group, resource or path.
pub(super) const ANY: &str = "*";

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// What may be done.
    #[serde(deserialize_with = "null_is_empty")]
    pub verbs: Vec<Box<str>>,
    /// In which API groups.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<Box<str>>,
    /// To which resources: `pods`, `pods/log`, `*/scale`, `*`.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Box<str>>,
    /// To which objects; empty: all.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<Box<str>>,
    /// To which other paths: `/healthz`, `/metrics/*`.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<Box<str>>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<Box<str>>, D::Error> {
    Option::<Vec<Box<str>>>::deserialize(value).map(Option::unwrap_or_default)
}

impl Rule {
    /// Does the rule allow this?
    pub fn allows(&self, what: &Attributes<'_>) -> bool {
        match *what {
            Attributes::Resource { verb, group, resource, subresource, name, .. } => {
                has_or_any(&self.verbs, verb)
                    && has_or_any(&self.api_groups, group)
                    && self.resources.iter().any(|one| resource_matches(one, resource, subresource))
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
            Attributes::Path { verb, path } => {
                has_or_any(&self.verbs, verb)
                    && self.non_resource_urls.iter().any(|pattern| path_matches(pattern, path))
            }
        }
    }

    /// The bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let Self { verbs, api_groups, resources, resource_names, non_resource_urls } = self;
        let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
        lists.into_iter().flatten().map(|text| text.len()).sum()
    }

    /// As Kubernetes prints it in refusals: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    pub(super) fn shown(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let mut text = String::from("{");
        for (name, values) in fields.into_iter().filter(|(_, values)| !values.is_empty()) {
            let comma = if text.len() > 1 { ", " } else { "" };
            write!(text, "{comma}{name}:{}", quoted(values)).expect("writing to a string cannot fail");
        }
        text.push('}');
        text
    }
}

/// Texts as Go prints a list of quoted strings: `["a" "b"]`.
pub(super) fn quoted<T: AsRef<str>>(texts: &[T]) -> String {
    let listed = texts.iter().map(|text| format!("{:?}", text.as_ref())).collect::<Vec<_>>();
    format!("[{}]", listed.join(" "))
}

fn has(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|one| &**one == wanted)
}

fn has_or_any(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|one| &**one == ANY || &**one == wanted)
}

fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == ANY {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((parent, sub)) => {
            !subresource.is_empty() && sub == subresource && (parent == ANY || parent == resource)
        }
    }
}

/// Does the pattern mean the path? A pattern as a path is meant by itself and by those that mean more.
pub(super) fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: serde_json::Value) -> Rule {
        serde_json::from_value(value).unwrap()
    }

    #[track_caller]
    fn check(rule: &Rule, verb: &str, resource: &str, name: &str, expected: bool) {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let what = Attributes::Resource { verb, group: "", resource, subresource, namespace: "a", name };
        assert_eq!(rule.allows(&what), expected, "{verb} {resource}/{subresource} {name}");
    }

    #[test]
    fn a_rule_allows_what_it_names_and_nothing_beside() {
        let pods = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}));
        check(&pods, "get", "pods", "x", true);
        check(&pods, "get", "pods/log", "x", false);
        check(&pods, "list", "pods", "", false);
        check(&pods, "get", "pod", "x", false);
        let log = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods/log", "*/scale"]}));
        check(&log, "get", "pods/log", "x", true);
        check(&log, "get", "pods", "x", false);
        check(&log, "get", "things/scale", "x", true);
        check(&log, "get", "scale", "x", false);
        let named = rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["*"],
            "resourceNames": ["one"]}));
        check(&named, "get", "pods/log", "one", true);
        check(&named, "get", "pods", "two", false);
        check(&named, "list", "pods", "", false);
        check(&named, "list", "pods", "one", true);
        check(
            &rule(json!({"verbs": null, "apiGroups": [""], "resources": ["pods"]})),
            "get",
            "pods",
            "",
            false,
        );
    }

    #[test]
    fn paths_match_exactly_or_by_a_trailing_star() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": [pattern]}));
            assert_eq!(rule.allows(&Attributes::Path { verb: "get", path }), expected, "{pattern} {path}");
        };
        check("/healthz", "/healthz", true);
        check("/healthz", "/healthz/x", false);
        check("/healthz/*", "/healthz/x", true);
        check("/healthz/*", "/healthz", false);
        check("*", "/anything", true);
    }
}
