//! Reads the kinds that a server serves, and finds the one that a word on the command line refers to: `deploy`,
//! `Deployment`, `deployments.apps`.

use homeostat_core::Key;
use kube::Client;
use serde_json::Value;

use super::api_reads::{self, AnswerForm};
use crate::error::Error;

/// A kind that the server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) kind: String,
    singular: String,
    short_names: Vec<String>,
    pub(super) is_namespaced: bool,
    pub(super) can_list: bool,
}

impl ServedKind {
    /// Returns the path of its objects in a namespace; or of all of them if the namespace is empty.
    pub(super) fn path(&self, namespace: &str) -> String {
        let Self { group, version, resource, .. } = self;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespace {
            namespace if self.is_namespaced && !namespace.is_empty() => {
                format!("{root}/namespaces/{namespace}/{resource}")
            }
            _ => format!("{root}/{resource}"),
        }
    }

    /// Returns the key of the object with this name.
    pub(super) fn key(&self, namespace: &str, name: &str) -> Key {
        let namespace = if self.is_namespaced { namespace } else { "" };
        Key::new(&self.group, &self.resource, namespace, name)
    }

    /// Returns the path of one object. The name is escaped: it comes from the command line.
    pub(super) fn object_path(&self, key: &Key) -> String {
        format!("{}/{}", self.path(&escape(key.namespace())), escape(key.name()))
    }

    fn is_meant(&self, word: &str, group: Option<&str>) -> bool {
        let is_name =
            [&self.resource, &self.singular, &self.kind].iter().any(|name| name.eq_ignore_ascii_case(word))
                || self.short_names.iter().any(|name| name.eq_ignore_ascii_case(word));
        is_name && group.is_none_or(|group| group.eq_ignore_ascii_case(&self.group))
    }
}

/// Checks that a word may be the name of an object, according to the rules that Kubernetes has for all names.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let is_bad = |letter: char| letter.is_whitespace() || letter.is_control() || "/%?#&\\".contains(letter);
    match name {
        "" | "." | ".." => Err(Error::Usage(format!("{name:?} is not the name of {what}"))),
        _ if name.len() > 253 => Err(Error::Usage(format!("the name of {what} has more than 253 letters"))),
        _ => match name.chars().find(|letter| is_bad(*letter)) {
            Some(letter) => {
                Err(Error::Usage(format!("{name:?} is not the name of {what}: no name contains {letter:?}")))
            }
            None => Ok(()),
        },
    }
}

/// Escapes everything in a part of a path or query that may have a special meaning there.
pub(super) fn escape(part: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte);
    let letters = part.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    letters.collect()
}

/// Asks the server for its kinds, each in its preferred version.
pub(super) async fn load(client: &Client) -> Result<Vec<ServedKind>, Error> {
    let mut kinds = Vec::new();
    for path in ["/api", "/apis"] {
        let document: Value = api_reads::get(client, path, AnswerForm::Discovery).await?;
        for group in document["items"].as_array().into_iter().flatten() {
            kinds.extend(kinds_of_group(group));
        }
    }
    if kinds.is_empty() {
        return Err(Error::Invalid(
            "the server does not say which kinds it has: it lacks aggregated discovery".to_owned(),
        ));
    }
    Ok(kinds)
}

fn kinds_of_group(group: &Value) -> Vec<ServedKind> {
    let name = group["metadata"]["name"].as_str().unwrap_or_default();
    let mut kinds: Vec<ServedKind> = Vec::new();
    for version in group["versions"].as_array().into_iter().flatten() {
        for resource in version["resources"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
            let kind = ServedKind {
                group: name.to_owned(),
                version: text(&version["version"]),
                resource: text(&resource["resource"]),
                kind: text(&resource["responseKind"]["kind"]),
                singular: text(&resource["singularResource"]),
                short_names: texts(&resource["shortNames"]),
                is_namespaced: resource["scope"] == "Namespaced",
                can_list: texts(&resource["verbs"]).iter().any(|verb| verb == "list"),
            };
            if !kinds.iter().any(|known| known.resource == kind.resource) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// Finds the kind that a word refers to.
pub(super) fn find<'a>(kinds: &'a [ServedKind], word: &str) -> Result<&'a ServedKind, Error> {
    let (plain, group) = word.split_once('.').map_or((word, None), |(plain, group)| (plain, Some(group)));
    kinds.iter().find(|kind| kind.is_meant(plain, group)).ok_or_else(|| {
        Error::Usage(format!("the server has no kind {word}; `kubectl api-resources` lists its kinds"))
    })
}

/// Finds the kind that an owner reference names.
pub(super) fn find_owner<'a>(
    kinds: &'a [ServedKind],
    api_version: &str,
    kind: &str,
) -> Option<&'a ServedKind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    kinds.iter().find(|served| served.group == group && served.kind == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_checked_and_escaped() {
        for name in ["web", "web-1.a", "system:node", "Ünïcode"] {
            assert!(check_name("an object", name).is_ok(), "{name}");
        }
        for name in ["", "..", "web?x=1", "a/b", "a%2fb", "a b", "a#b", &"x".repeat(254)] {
            assert!(check_name("an object", name).is_err(), "{name}");
        }
        assert_eq!(escape("system:node?x=ü"), "system:node%3Fx%3D%C3%BC");
    }

    #[test]
    fn a_kind_has_many_names() {
        let group = json!({"metadata": {"name": "apps"}, "versions": [
            {"version": "v1", "resources": [{
                "resource": "deployments", "singularResource": "deployment", "shortNames": ["deploy"],
                "scope": "Namespaced", "verbs": ["get", "list"], "responseKind": {"kind": "Deployment"},
            }]},
            {"version": "v1beta1", "resources": [{"resource": "deployments", "responseKind": {"kind": "Deployment"}}]},
        ]});
        let kinds = kinds_of_group(&group);
        assert_eq!(kinds.len(), 1);
        for word in ["deploy", "Deployment", "deployments", "deployments.apps", "deployment.apps"] {
            let kind = find(&kinds, word).unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!(kind.path("a"), "/apis/apps/v1/namespaces/a/deployments");
        }
        assert!(find(&kinds, "deployments.extensions").is_err());
        assert_eq!(kinds[0].path(""), "/apis/apps/v1/deployments");
    }
}
