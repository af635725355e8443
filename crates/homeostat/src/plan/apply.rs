//! Applies the change to the in-memory control plane, as `kubectl apply` and `kubectl delete` would.
//!
//! Objects are applied server-side by the field manager `kubectl`. Fields that `kubectl apply` owns from an earlier
//! client-side apply are handed over first (`adopt_client_side_fields`), so that a field that left the file is removed.

use kube::Client;
use serde_json::{Value, json};

use super::change::{Change, describe_object};
use super::error::PlanError;

/// The field manager of `kubectl apply --server-side`.
const MANAGER: &str = "kubectl";

/// The field manager of `kubectl apply`.
const CLIENT_SIDE_MANAGER: &str = "kubectl-client-side-apply";

/// A version that no object in memory reaches.
const NEVER_CURRENT: &str = "9000000000000000000";

/// The path and scope of the objects of a kind.
struct ServedKind {
    path: String,
    plural: String,
    is_namespaced: bool,
}

/// Applies the change.
pub(super) async fn make_change(client: &Client, change: &Change) -> Result<(), PlanError> {
    for object in &change.objects {
        let refuse = |message: String| PlanError::Refused { object: describe_object(object), message };
        let kind = find_kind(client, object).await.map_err(refuse)?;
        let mut object = object.clone();
        if !kind.is_namespaced
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("namespace");
        }
        let path = object_path(&kind, &object);
        let request = if change.is_delete {
            let options =
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
            http::Request::delete(path)
                .header("content-type", "application/json")
                .body(options.to_string().into_bytes())
        } else {
            let query = format!("fieldManager={MANAGER}&force=true&fieldValidation=Strict");
            http::Request::patch(format!("{path}?{query}"))
                .header("content-type", "application/apply-patch+yaml")
                .body(object.to_string().into_bytes())
        };
        let request = request.map_err(|error| refuse(error.to_string()))?;
        client.request::<Value>(request).await.map_err(|error| refuse(describe_refusal(error)))?;
    }
    Ok(())
}

fn describe_refusal(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Looks up in discovery where the objects of a kind are served.
async fn find_kind(client: &Client, object: &Value) -> Result<ServedKind, String> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let path = format!("{}/{version}", if version.contains('/') { "/apis" } else { "/api" });
    let unknown = || {
        format!("no kind {} is served in the version {version}", object["kind"].as_str().unwrap_or_default())
    };
    let request = http::Request::get(&path).body(Vec::new()).map_err(|error| error.to_string())?;
    let served: Value = client.request(request).await.map_err(|_| unknown())?;
    let mut resources = served["resources"].as_array().into_iter().flatten();
    let is_meant = |one: &&Value| {
        one["kind"] == object["kind"] && one["name"].as_str().is_some_and(|name| !name.contains('/'))
    };
    let found = resources.find(is_meant).ok_or_else(unknown)?;
    Ok(ServedKind {
        path,
        plural: found["name"].as_str().unwrap_or_default().to_owned(),
        is_namespaced: found["namespaced"] == true,
    })
}

fn object_path(kind: &ServedKind, object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let ServedKind { path, plural, is_namespaced } = kind;
    if *is_namespaced {
        format!("{path}/namespaces/{}/{plural}/{}", text("namespace"), text("name"))
    } else {
        format!("{path}/{plural}/{}", text("name"))
    }
}

/// Translates the versions of the change's objects, because the copy in memory numbers its revisions anew: that of the
/// cluster is removed, and any other becomes one that is refused as in the cluster.
pub(super) fn translate_versions(change: &mut Change, objects: &[Value]) {
    for object in &mut change.objects {
        let version = object["metadata"]["resourceVersion"].clone();
        let is_same = |one: &&Value| {
            let namespace = &one["metadata"]["namespace"];
            one["kind"] == object["kind"]
                && one["metadata"]["name"] == object["metadata"]["name"]
                && (namespace.is_null() || *namespace == object["metadata"]["namespace"])
        };
        let is_current =
            objects.iter().filter(is_same).any(|one| one["metadata"]["resourceVersion"] == version);
        match object["metadata"].as_object_mut() {
            Some(metadata) if is_current => drop(metadata.remove("resourceVersion")),
            Some(metadata) if metadata.contains_key("resourceVersion") => {
                metadata.insert("resourceVersion".to_owned(), NEVER_CURRENT.into());
            }
            _ => {}
        }
    }
}

/// In the cluster's objects that the change applies, transfers the fields owned by an earlier client-side apply to the
/// manager that applies now.
pub(super) fn adopt_client_side_fields(objects: &mut [Value], change: &Change) {
    let identity = |object: &Value| {
        let metadata = &object["metadata"];
        (object["kind"].clone(), metadata["namespace"].clone(), metadata["name"].clone())
    };
    let applied: Vec<_> = change.objects.iter().map(identity).collect();
    for object in objects {
        let (kind, namespace, name) = identity(object);
        let is_applied = applied
            .iter()
            .any(|one| one.0 == kind && one.2 == name && (namespace.is_null() || one.1 == namespace));
        let Some(Value::Array(entries)) = object["metadata"].get_mut("managedFields") else { continue };
        let has_applied =
            entries.iter().any(|entry| entry["manager"] == MANAGER && entry["operation"] == "Apply");
        if !is_applied || has_applied {
            continue;
        }
        for entry in entries {
            if entry["manager"] == CLIENT_SIDE_MANAGER && entry["operation"] == "Update" {
                entry["manager"] = MANAGER.into();
                entry["operation"] = "Apply".into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_cluster_is_accepted() {
        let map = |version: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "default", "resourceVersion": version}})
        };
        let check = |given: &str, expected: Value| {
            let mut change = Change::apply(vec![map(given)]);
            translate_versions(&mut change, &[map("7")]);
            assert_eq!(change.objects[0]["metadata"]["resourceVersion"], expected);
        };
        check("7", Value::Null);
        check("6", json!(NEVER_CURRENT));
    }
}
