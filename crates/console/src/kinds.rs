//! The kinds that a viewer can list and watch, from the server's discovery documents.

use serde::Serialize;
use serde_json::Value;

use crate::api::{Refusal, ViewerApi};

/// Kinds that are shown only with the object they are about: in a list they would crowd out everything else.
const LEFT_OUT: &[&str] = &["events"];

/// The kinds that people look at first; they are sent first.
const FIRST: &[&str] =
    &["pods", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs"];

/// Kinds with many objects and no status; they are sent last, after everything that can fail.
const LAST: &[&str] = &["configmaps", "secrets", "serviceaccounts", "clusterroles", "clusterrolebindings"];

/// A kind that can be listed and watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchedKind {
    pub(crate) group: String,
    pub(crate) version: String,
    /// The plural, in lower case.
    pub(crate) resource: String,
    /// The name of the kind: `Deployment`.
    pub(crate) kind: String,
    pub(crate) is_namespaced: bool,
}

impl WatchedKind {
    /// Returns the page's name for the kind: `apps/deployments`, or `pods` in the core group.
    pub(crate) fn id(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.group, self.resource)
        }
    }

    /// Returns the path of the collection, in one namespace if there is one.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.resource),
            None => format!("{root}/{}", self.resource),
        }
    }

    fn order(&self) -> (usize, bool, String) {
        let place = FIRST.iter().position(|first| *first == self.resource).unwrap_or(FIRST.len());
        let place = place + usize::from(LAST.contains(&self.resource.as_str()));
        // Operators' kinds come before Kubernetes' own, whose groups have no dot or end in its domain.
        let is_built_in = !self.group.contains('.') || self.group.ends_with(".k8s.io");
        (place, is_built_in, self.id())
    }
}

/// Loads the kinds, starting with those that people look at first.
pub(crate) async fn load_kinds(api: &ViewerApi) -> Result<Vec<WatchedKind>, Refusal> {
    let mut kinds = kinds_of_document(&api.load_discovery("/api").await?);
    kinds.extend(kinds_of_document(&api.load_discovery("/apis").await?));
    kinds.sort_by_cached_key(WatchedKind::order);
    Ok(kinds)
}

/// Returns the kinds of one discovery document, each in the version that the server prefers.
fn kinds_of_document(document: &Value) -> Vec<WatchedKind> {
    let mut kinds: Vec<WatchedKind> = Vec::new();
    for group in array(&document["items"]) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in array(&group["versions"]) {
            for resource in array(&version["resources"]) {
                let found = watched_kind(name, text(&version["version"]), resource);
                let is_known = |kind: &WatchedKind| kinds.iter().any(|known| known.id() == kind.id());
                kinds.extend(found.filter(|kind| !is_known(kind)));
            }
        }
    }
    kinds
}

fn watched_kind(group: &str, version: &str, resource: &Value) -> Option<WatchedKind> {
    let name = text(&resource["resource"]);
    let can = |verb: &str| array(&resource["verbs"]).any(|one| one == verb);
    let is_shown = can("list") && can("watch") && !LEFT_OUT.contains(&name);
    is_shown.then(|| WatchedKind {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: name.to_owned(),
        kind: text(&resource["responseKind"]["kind"]).to_owned(),
        is_namespaced: resource["scope"] == "Namespaced",
    })
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_is_taken_once_in_the_preferred_version() {
        let resource = |name: &str, verbs: &[&str]| json!({"resource": name, "scope": "Namespaced", "verbs": verbs, "responseKind": {"kind": "K"}});
        let document = json!({"items": [{"metadata": {"name": "demo.dev"}, "versions": [
            {"version": "v2", "resources": [resource("things", &["get", "list", "watch"])]},
            {"version": "v1", "resources": [resource("things", &["list", "watch"]), resource("reviews", &["create"]), resource("events", &["list", "watch"])]},
        ]}]});
        let kinds = kinds_of_document(&document);
        assert_eq!(
            kinds.iter().map(|kind| kind.path(Some("a"))).collect::<Vec<_>>(),
            ["/apis/demo.dev/v2/namespaces/a/things"]
        );
    }
}
