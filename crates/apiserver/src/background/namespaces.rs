//! Handles namespaces: gives each live namespace its default objects, and empties one that is being deleted.

use std::sync::Arc;
use std::time::Duration;

use homeostat_api::kinds::core::config_map::{CONFIG_MAP, ROOT_CA};
use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::object::conditions::set_condition;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::BackgroundTasks;
use super::bulk_deletion::remove_under;
use crate::admission::namespace_lifecycle;
use crate::backend::{Backend, key_of};
use crate::default_account::{create_default_account, ensure_object};
use crate::registry::ResourceTable;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::write_history::ServerTask;
use crate::yielding_work::YieldingWork;

/// The finalizer that stays in the spec of every namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// The annotation on the ConfigMap that holds the certificate authority.
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
     internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
     distributions of Kubernetes clusters.";

/// Reconciles a namespace.
pub(super) async fn reconcile(
    backend: &Backend,
    name: &str,
    tasks: BackgroundTasks,
    root_ca: &str,
) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&namespace_lifecycle::key(name)) else {
        backend.notices.remove_ending_namespace(name);
        return Ok(());
    };
    let object = encode::parse_entry(entry);
    let is_deleting = meta::is_deleting(&object);
    if is_deleting && tasks.namespace_deletion {
        backend.notices.add_ending_namespace(name);
        return terminate(backend, name).await;
    }
    if !is_deleting && tasks.namespace_defaults {
        return create_default_objects(backend, name, root_ca).await;
    }
    Ok(())
}

/// Returns how long a namespace has been marked for deletion; `None` if it is not.
pub(super) fn deletion_age(backend: &Backend, name: &str) -> Option<Duration> {
    let snapshot = backend.store.snapshot();
    let object = encode::parse_entry(snapshot.get(&namespace_lifecycle::key(name))?);
    let began: Timestamp = object["metadata"]["deletionTimestamp"].as_str()?.parse().ok()?;
    Some(Duration::try_from(backend.clock.now().duration_since(began)).unwrap_or_default())
}

/// Creates the objects that every namespace has, and restores the ConfigMap with the certificate authority.
async fn create_default_objects(backend: &Backend, name: &str, root_ca: &str) -> Result<(), Status> {
    create_default_account(backend, name).await?;
    let authority = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": ROOT_CA_DESCRIPTION}},
        "data": {"ca.crt": root_ca}});
    ensure_object(backend, name, &CONFIG_MAP, authority).await?;
    restore_root_ca(backend, name, root_ca).await
}

/// Restores the content of the ConfigMap with the certificate authority. Labels and other annotations stay.
async fn restore_root_ca(backend: &Backend, namespace: &str, root_ca: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.built_in(&CONFIG_MAP);
    let data = json!({"ca.crt": root_ca});
    update_stored_object(
        (backend, ServerTask::Namespaces),
        resource,
        &key_of(resource, namespace, ROOT_CA),
        |object| {
            let described = object["metadata"]["annotations"]["kubernetes.io/description"].as_str();
            if object["data"] == data && described.is_some_and(|text| !text.is_empty()) {
                return;
            }
            object["data"] = data.clone();
            object["metadata"]["annotations"]["kubernetes.io/description"] = ROOT_CA_DESCRIPTION.into();
        },
    )
    .await
}

/// The content that is left in a namespace.
#[derive(Default)]
struct RemainingContent {
    objects: Vec<String>,
    finalizers: std::collections::BTreeMap<String, usize>,
}

/// Deletes the contents of a namespace, Pods first; when nothing is left, removes its finalizer.
async fn terminate(backend: &Backend, name: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    let mut left = RemainingContent::default();
    let (pods, others): (Vec<_>, Vec<_>) =
        stored_resources(&table).into_iter().partition(|row| row.storage() == POD.storage());
    for resource in &pods {
        delete_contents(backend, resource, name, &mut left).await?;
    }
    if left.objects.is_empty() {
        for resource in &others {
            delete_contents(backend, resource, name, &mut left).await?;
        }
    }
    let namespaces = table.built_in(&NAMESPACE);
    let now = backend.now_text();
    let is_empty = left.objects.is_empty();
    update_stored_object(
        (backend, ServerTask::Namespaces),
        namespaces,
        &namespace_lifecycle::key(name),
        |object| {
            if is_empty {
                let finalizers = object["spec"]["finalizers"].as_array().into_iter().flatten();
                let finalizers = finalizers.filter(|one| *one != FINALIZER).cloned().collect::<Vec<_>>();
                object["spec"]["finalizers"] = finalizers.into();
            }
            write_conditions(object, &left, &now);
        },
    )
    .await
}

fn stored_resources(table: &ResourceTable) -> Vec<Arc<Resource>> {
    table.stored().into_values().filter(|row| row.namespaced && row.allows("delete")).cloned().collect()
}

async fn delete_contents(
    backend: &Backend,
    resource: &Resource,
    namespace: &str,
    left: &mut RemainingContent,
) -> Result<(), Status> {
    let prefix = resource.storage().prefix_in(namespace);
    remove_under((backend, ServerTask::Namespaces), resource, &prefix).await?;
    let snapshot = backend.store.snapshot();
    let (mut count, mut work) = (0, YieldingWork::default());
    for entry in snapshot.range(&prefix, "") {
        count += 1;
        work.add(entry.bytes.len()).await;
        for finalizer in meta::finalizers(&encode::parse_entry(entry)) {
            *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    if count > 0 {
        left.objects.push(describe_remaining(&resource.plural, &resource.group, count));
    }
    Ok(())
}

/// Describes the remaining objects of a resource as kube-controller-manager does: with the dot even if there is no
/// group.
fn describe_remaining(plural: &str, group: &str, count: usize) -> String {
    format!("{plural}.{group} has {count} resource instances")
}

/// Records the progress of the deletion in the conditions.
fn write_conditions(object: &mut Value, left: &RemainingContent, now: &str) {
    let fine = [
        [
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ],
        [
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ],
        [
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ],
    ];
    for condition in fine {
        set_condition(object, condition, now);
    }
    if left.objects.is_empty() {
        let message = "All content successfully removed";
        set_condition(object, ["NamespaceContentRemaining", "False", "ContentRemoved", message], now);
    } else {
        let mut objects = left.objects.clone();
        objects.sort_unstable();
        let message = format!("Some resources are remaining: {}", objects.join(", "));
        set_condition(object, ["NamespaceContentRemaining", "True", "SomeResourcesRemain", &message], now);
    }
    if left.finalizers.is_empty() {
        let message = "All content-preserving finalizers finished";
        set_condition(
            object,
            ["NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", message],
            now,
        );
    } else {
        let listed =
            left.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        let listed = listed.collect::<Vec<_>>().join(", ");
        let message = format!("Some content in the namespace has finalizers remaining: {listed}");
        set_condition(
            object,
            ["NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", &message],
            now,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status, reason and message of a condition.
    fn condition(object: &Value, r#type: &str) -> String {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|one| one["type"] == r#type).unwrap_or_default();
        format!("{} {} {}", found["status"], found["reason"], found["message"]).replace('"', "")
    }

    #[test]
    fn conditions_tell_what_is_left() {
        let objects =
            vec![describe_remaining("secrets", "", 2), describe_remaining("deployments", "apps", 1)];
        let mut left = RemainingContent { objects, ..RemainingContent::default() };
        left.finalizers.insert("demo.dev/keep".to_owned(), 3);
        let mut object = json!({});
        write_conditions(&mut object, &left, "2027-01-15T08:00:00Z");
        assert_eq!(
            condition(&object, "NamespaceContentRemaining"),
            "True SomeResourcesRemain Some resources are remaining: deployments.apps has 1 resource instances, \
             secrets. has 2 resource instances"
        );
        assert_eq!(
            condition(&object, "NamespaceFinalizersRemaining"),
            "True SomeFinalizersRemain Some content in the namespace has finalizers remaining: demo.dev/keep in 3 resource instances"
        );
        write_conditions(&mut object, &RemainingContent::default(), "2027-01-15T08:00:00Z");
        assert_eq!(
            condition(&object, "NamespaceContentRemaining"),
            "False ContentRemoved All content successfully removed"
        );
        assert_eq!(
            condition(&object, "NamespaceFinalizersRemaining"),
            "False ContentHasNoFinalizers All content-preserving finalizers finished"
        );
        assert_eq!(object["status"]["conditions"].as_array().map(Vec::len), Some(5));
    }
}
