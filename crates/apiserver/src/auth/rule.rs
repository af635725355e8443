//! One RBAC rule: what it allows, and which rules it covers. Pure data and comparisons.
//!
//! **Invariant:** nothing here widens a rule: a resource name does not cover its subresources, an empty list matches
//! nothing (except `resourceNames`, where empty means all).

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serialize};

use super::Attributes;

/// Matches every verb, group, resource or path.
const ANY: &str = "*";

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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

    /// The same permissions as rules of one verb, one resource, one name each.
    pub(super) fn atoms(&self) -> Vec<Self> {
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    self.resource_atoms(group, resource, verb, &mut atoms);
                }
            }
        }
        for path in &self.non_resource_urls {
            atoms.extend(self.verbs.iter().map(|verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![path.clone()],
                ..Self::default()
            }));
        }
        atoms
    }

    fn resource_atoms(&self, group: &str, resource: &str, verb: &str, atoms: &mut Vec<Self>) {
        let atom = Self {
            verbs: vec![verb.into()],
            api_groups: vec![group.into()],
            resources: vec![resource.into()],
            ..Self::default()
        };
        if self.resource_names.is_empty() {
            atoms.push(atom);
        } else {
            atoms.extend(
                self.resource_names
                    .iter()
                    .map(|name| Self { resource_names: vec![name.clone()], ..atom.clone() }),
            );
        }
    }

    /// Does this rule include everything the atom permits?
    pub(super) fn covers(&self, atom: &Self) -> bool {
        let names_covered = self.resource_names.is_empty()
            || (!atom.resource_names.is_empty()
                && atom.resource_names.iter().all(|name| has(&self.resource_names, name)));
        names_covered
            && atom.verbs.iter().all(|verb| has_or_any(&self.verbs, verb))
            && atom.api_groups.iter().all(|group| has_or_any(&self.api_groups, group))
            && atom.resources.iter().all(|resource| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                self.resources.iter().any(|one| resource_matches(one, resource, subresource))
            })
            && atom
                .non_resource_urls
                .iter()
                .all(|path| self.non_resource_urls.iter().any(|pattern| path_matches(pattern, path)))
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

fn path_matches(pattern: &str, path: &str) -> bool {
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

    #[test]
    fn covering_respects_names_and_subresources() {
        let check = |owner: serde_json::Value, asked: serde_json::Value, expected: bool| {
            let owner = rule(owner);
            assert_eq!(
                rule(asked.clone()).atoms().iter().all(|atom| owner.covers(atom)),
                expected,
                "{asked}"
            );
        };
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let one = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]});
        check(all.clone(), pods.clone(), true);
        check(pods.clone(), all.clone(), false);
        check(pods.clone(), one.clone(), true);
        check(one.clone(), pods.clone(), false);
        check(one.clone(), one, true);
        check(all, json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}), false);
    }
}
