//! Represents one RBAC rule and what it allows. This module contains only data and comparisons; `permission_coverage`
//! compares rules with each other.
//!
//! **Invariant:** nothing here widens a rule: a resource name does not cover its subresources, and an empty list
//! matches nothing (except `resourceNames`, where empty means all).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::RequestAttributes;
use super::rule_strings::RuleStrings;

/// The size of a string in a response beyond its own bytes: quotes, a comma, and its slot in memory.
const TEXT_BYTES: usize = 24;
/// The size of a rule in a response beyond its strings: the names of its lists.
const RULE_BYTES: usize = 100;
/// Matches every verb, group, resource or path.
pub(super) const ANY: &str = "*";

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// The allowed verbs.
    pub verbs: RuleStrings,
    /// The API groups it applies to.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub api_groups: RuleStrings,
    /// The resources it applies to: `pods`, `pods/log`, `*/scale`, `*`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub resources: RuleStrings,
    /// The names of objects it applies to; empty means all.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub resource_names: RuleStrings,
    /// The other paths it applies to: `/healthz`, `/metrics/*`.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "<[_]>::is_empty")]
    pub non_resource_urls: RuleStrings,
}

impl Rule {
    /// Returns whether the rule allows this.
    pub fn allows(&self, what: &RequestAttributes<'_>) -> bool {
        match *what {
            RequestAttributes::Resource { verb, group, resource, subresource, name, .. } => {
                has_or_any(&self.verbs, verb)
                    && has_or_any(&self.api_groups, group)
                    && has_resource(&self.resources, resource, subresource)
                    && (self.resource_names.is_empty() || self.resource_names.has(name))
            }
            RequestAttributes::Path { verb, path } => {
                has_or_any(&self.verbs, verb)
                    && self.non_resource_urls.iter().any(|pattern| path_matches(pattern, path))
            }
        }
    }

    /// Returns the approximate size of the rule in a response, in bytes: its strings, and the overhead of each, even of
    /// an empty one.
    pub(super) fn bytes(&self) -> usize {
        let Self { verbs, api_groups, resources, resource_names, non_resource_urls } = self;
        let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
        lists.into_iter().flatten().map(|text| text.len() + TEXT_BYTES).sum::<usize>() + RULE_BYTES
    }

    /// Formats the rule as Kubernetes prints it in refusals: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
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

/// Returns an upper bound for how many comparisons with these rules a decision about a resource takes, including one for
/// each rule.
pub(super) fn comparisons_of_rules(rules: &[Rule]) -> usize {
    let lists = |rule: &Rule| {
        let Rule { verbs, api_groups, resources, resource_names, .. } = rule;
        [verbs, api_groups, resources, resource_names].map(RuleStrings::comparisons).iter().sum::<usize>()
    };
    rules.iter().map(|rule| 1 + lists(rule)).sum()
}

/// Formats strings as Go prints a list of quoted strings: `["a" "b"]`.
pub(super) fn quoted<T: AsRef<str>>(texts: &[T]) -> String {
    let listed = texts.iter().map(|text| format!("{:?}", text.as_ref())).collect::<Vec<_>>();
    format!("[{}]", listed.join(" "))
}

fn has_or_any(list: &RuleStrings, wanted: &str) -> bool {
    list.has(ANY) || list.has(wanted)
}

/// Returns whether one of the patterns matches the resource.
fn has_resource(patterns: &RuleStrings, resource: &str, subresource: &str) -> bool {
    if patterns.is_short() {
        return patterns.iter().any(|one| resource_matches(one, resource, subresource));
    }
    // A review may contain any string. A pattern ends its resource at the first slash, so it never names one that contains
    // a slash.
    let can_be_named = !resource.contains('/');
    patterns.has(ANY)
        || if subresource.is_empty() {
            can_be_named && patterns.has(resource)
        } else {
            (can_be_named && patterns.has(&format!("{resource}/{subresource}")))
                || patterns.has(&format!("{ANY}/{subresource}"))
        }
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

/// Returns whether the pattern matches the path. A pattern that is passed as the path is matched by itself and by
/// wider patterns.
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
        let what =
            RequestAttributes::Resource { verb, group: "", resource, subresource, namespace: "a", name };
        assert_eq!(rule.allows(&what), expected, "{verb} {resource}/{subresource} {name}");
    }

    #[test]
    fn a_rule_allows_what_it_names_and_nothing_else() {
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

    /// A review may ask about a resource with a slash, which no pattern names.
    #[test]
    fn short_and_long_lists_match_the_same_resources() {
        let patterns = ["pods", "pods/log", "*/scale", "a/b/c", "*/b/c"];
        let rule = |fillers: usize| {
            let fillers = (0..fillers).map(|at| format!("filler{at}"));
            let resources: Vec<_> = patterns.iter().map(ToString::to_string).chain(fillers).collect();
            rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": resources}))
        };
        let (short, long) = (rule(0), rule(100));
        assert!(short.resources.is_short() && !long.resources.is_short());
        let texts = ["", "pods", "log", "pods/log", "scale", "a", "b", "a/b", "b/c", "c", "*", "a/b/c", "x"];
        for (resource, subresource) in texts.iter().flat_map(|one| texts.map(|other| (*one, other))) {
            let [short, long] =
                [&short, &long].map(|rule| has_resource(&rule.resources, resource, subresource));
            assert_eq!(short, long, "{resource:?} {subresource:?}");
        }
    }

    #[test]
    fn paths_match_exactly_or_by_a_trailing_star() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": [pattern]}));
            assert_eq!(
                rule.allows(&RequestAttributes::Path { verb: "get", path }),
                expected,
                "{pattern} {path}"
            );
        };
        check("/healthz", "/healthz", true);
        check("/healthz", "/healthz/x", false);
        check("/healthz/*", "/healthz/x", true);
        check("/healthz/*", "/healthz", false);
        check("*", "/anything", true);
    }
}
