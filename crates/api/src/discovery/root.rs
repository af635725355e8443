//! Builds the paths that `/` lists, and the APIService objects that represent the served versions.

use serde_json::{Value, json};

use super::{ServedGroup, ServedVersion, order};

/// Paths that exist regardless of what is served.
const FIXED_PATHS: [&str; 12] = [
    "/api",
    "/api/v1",
    "/apis",
    "/healthz",
    "/healthz/ping",
    "/livez",
    "/livez/ping",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/readyz/ping",
    "/version",
];
/// Marks APIServices that the server manages itself.
pub const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

pub(super) fn paths(groups: &[ServedGroup]) -> Value {
    let named = groups.iter().filter(|group| !group.name.is_empty());
    let mut paths: Vec<_> = named
        .flat_map(|group| {
            let versions =
                group.versions.iter().map(|version| format!("/apis/{}/{}", group.name, version.name));
            std::iter::once(format!("/apis/{}", group.name)).chain(versions)
        })
        .chain(FIXED_PATHS.map(str::to_owned))
        .collect();
    paths.sort_unstable();
    json!({ "paths": paths })
}

/// Returns the APIServices of the served versions; their own group has none.
pub(super) fn api_services(groups: &[ServedGroup]) -> Vec<Value> {
    groups
        .iter()
        .filter(|group| &*group.name != "apiregistration.k8s.io")
        .flat_map(|group| group.versions.iter().map(|version| api_service(group, version)))
        .collect()
}

fn api_service(group: &ServedGroup, version: &ServedVersion) -> Value {
    let priority = order::priority(&group.name);
    let managed = if group.is_built_in() { "onstart" } else { "true" };
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": format!("{}.{}", version.name, group.name),
            "labels": { MANAGED_LABEL: managed },
        },
        "spec": {
            "group": group.name,
            "version": version.name,
            "groupPriorityMinimum": priority.group,
            "versionPriority": priority.version,
        },
        "status": { "conditions": [{
            "type": "Available",
            "status": "True",
            "reason": "Local",
            "message": "Local APIServices are always available",
        }] },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_version_has_a_path_and_a_service() {
        let rows: Vec<_> = crate::kinds::built_in_rows().into_iter().map(Arc::new).collect();
        let groups = order::grouped(&rows);
        let listed = paths(&groups)["paths"].clone();
        let listed = listed.as_array().expect("a list");
        assert!(
            ["/api/v1", "/apis/apps", "/apis/autoscaling/v1"]
                .iter()
                .all(|path| listed.contains(&json!(path)))
        );
        let services = api_services(&groups);
        let core = &services[0];
        assert_eq!(core["metadata"]["name"], "v1.");
        assert_eq!(core["spec"]["groupPriorityMinimum"], 18000);
    }
}
