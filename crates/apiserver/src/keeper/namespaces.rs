//! Namespaces: while they live each has its default objects; when they end, everything in them goes first.

use std::sync::Arc;

use homeostat_store::{Error as StoreError, Op};
use serde_json::{Value, json};

use super::definitions::remove_under;
use crate::backend::{Backend, key_of, refusal};
use crate::kinds::core::config_map::CONFIG_MAP;
use crate::kinds::core::namespace::NAMESPACE;
use crate::kinds::core::pod::POD;
use crate::kinds::core::service_account::SERVICE_ACCOUNT;
use crate::kinds::declaration::Kind;
use crate::namespace;
use crate::object::conditions::set_condition;
use crate::object::{encode, meta};
use crate::registry::Table;
use crate::resource::Resource;
use crate::rewrite::rewrite;
use crate::status::Status;
use crate::verbs::stamp_new;

/// The finalizer every namespace has in its spec until it is empty.
const FINALIZER: &str = "kubernetes";

/// The ConfigMap in which Pods find the certificate authority of this server.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";
/// What it is annotated with.
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
     internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
     distributions of Kubernetes clusters.";

/// Looks at a namespace.
pub(super) async fn look_at(backend: &Backend, name: &str, root_ca: &str) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&namespace::key(name)) else {
        backend.notices.set_namespace_ending(name, false);
        return Ok(());
    };
    let object = encode::decode(entry);
    if meta::is_deleting(&object) {
        backend.notices.set_namespace_ending(name, true);
        return end(backend, name).await;
    }
    furnish(backend, name, root_ca).await
}

/// Makes the objects every namespace has, and puts back what was changed of the certificate authority.
async fn furnish(backend: &Backend, name: &str, root_ca: &str) -> Result<(), Status> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    ensure(backend, name, &SERVICE_ACCOUNT, account).await?;
    let authority = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": ROOT_CA_DESCRIPTION}},
        "data": {"ca.crt": root_ca}});
    ensure(backend, name, &CONFIG_MAP, authority).await?;
    restore_root_ca(backend, name, root_ca).await
}

/// Makes the ConfigMap of the certificate authority say what it should. Labels and other annotations stay.
async fn restore_root_ca(backend: &Backend, namespace: &str, root_ca: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.of_declared(&CONFIG_MAP);
    let data = json!({"ca.crt": root_ca});
    rewrite(backend, resource, &key_of(resource, namespace, ROOT_CA), |object| {
        let described = object["metadata"]["annotations"]["kubernetes.io/description"].as_str();
        if object["data"] == data && described.is_some_and(|text| !text.is_empty()) {
            return;
        }
        object["data"] = data.clone();
        object["metadata"]["annotations"]["kubernetes.io/description"] = ROOT_CA_DESCRIPTION.into();
    })
    .await
}

async fn ensure(backend: &Backend, namespace: &str, kind: &Kind, mut object: Value) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.of_declared(kind);
    let key = key_of(resource, namespace, meta::name(&object));
    if backend.store.snapshot().get(&key).is_some() {
        return Ok(());
    }
    stamp_new(backend, resource, namespace, &mut object);
    match backend.commit(key, None, Op::Put(encode::encode(resource, &object))).await {
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(refusal(&error)),
    }
}

/// What is left in a namespace.
#[derive(Default)]
struct Left {
    objects: Vec<String>,
    finalizers: std::collections::BTreeMap<String, usize>,
}

/// Empties a namespace, Pods first; when nothing is left, lets it go.
async fn end(backend: &Backend, name: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    let mut left = Left::default();
    let (pods, others): (Vec<_>, Vec<_>) =
        stored(&table).into_iter().partition(|row| row.storage() == POD.storage());
    for resource in &pods {
        empty(backend, resource, name, &mut left).await?;
    }
    if left.objects.is_empty() {
        for resource in &others {
            empty(backend, resource, name, &mut left).await?;
        }
    }
    let namespaces = table.of_declared(&NAMESPACE);
    let now = backend.now_text();
    let is_empty = left.objects.is_empty();
    rewrite(backend, namespaces, &namespace::key(name), |object| {
        if is_empty {
            let finalizers = object["spec"]["finalizers"].as_array().into_iter().flatten();
            let finalizers = finalizers.filter(|one| *one != FINALIZER).cloned().collect::<Vec<_>>();
            object["spec"]["finalizers"] = finalizers.into();
        }
        report(object, &left, &now);
    })
    .await
}

fn stored(table: &Table) -> Vec<Arc<Resource>> {
    table.stored().into_values().filter(|row| row.namespaced && row.allows("delete")).cloned().collect()
}

async fn empty(
    backend: &Backend,
    resource: &Resource,
    namespace: &str,
    left: &mut Left,
) -> Result<(), Status> {
    let prefix = resource.storage().prefix_in(namespace);
    remove_under(backend, resource, &prefix).await?;
    let snapshot = backend.store.snapshot();
    let mut count = 0;
    for entry in snapshot.range(&prefix, "") {
        count += 1;
        for finalizer in meta::finalizers(&encode::decode(entry)) {
            *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    if count > 0 {
        left.objects.push(format!("{}. has {count} resource instances", resource.about("").qualified()));
    }
    Ok(())
}

/// Says in the conditions how far the end has come.
fn report(object: &mut Value, left: &Left, now: &str) {
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
        let message = format!("Some resources are remaining: {}", left.objects.join(", "));
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
