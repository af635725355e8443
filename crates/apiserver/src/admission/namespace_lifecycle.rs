//! NamespaceLifecycle: objects can only be created in a namespace that exists and is not being deleted, and some
//! namespaces cannot be deleted.
//!
//! Besides refusing writes, [`check_create`] returns a condition for the commit, so that a namespace that is deleted
//! at the same moment cannot gain another object.

use homeostat_api::kinds::authorization::local_subject_access_review::LOCAL_SUBJECT_ACCESS_REVIEW;
use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::{ResourceName, Status};
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use homeostat_store::Expect;
use serde_json::Value;

use super::plugin::{Mutate, Plugin};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};
use crate::backend::Backend;
use crate::stored::encode;

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Now(admit),
    ..Plugin::new(NAME, |resource| {
        (resource.namespaced && !is_kind(resource, &LOCAL_SUBJECT_ACCESS_REVIEW))
            || is_kind(resource, &NAMESPACE)
    })
};

/// The name of the plugin.
pub(crate) const NAME: &str = "NamespaceLifecycle";
/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// The storage of namespaces.
const STORAGE: ResourceIdentity<'static> = NAMESPACE.storage();

/// Returns the key of a namespace.
pub(crate) fn key(name: &str) -> Key {
    STORAGE.key("", name)
}

fn admit(request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
    match request.operation {
        Operation::Delete => check_delete(request),
        Operation::Create if request.resource.namespaced => {
            let name = request.shown_name(object);
            check_create(request.backend, request.resource, request.namespace, name).map(drop)
        }
        _ => Ok(()),
    }
}

/// Refuses to delete a namespace that every cluster needs.
fn check_delete(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if is_kind(request.resource, &NAMESPACE) && IMMORTAL.contains(&request.name) {
        return Err(Status::forbidden(
            &request.resource.about(request.name),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// Checks that an object may be created here. Returns the condition that must still hold at commit time.
pub(crate) fn check_create(
    backend: &Backend,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<(Key, Expect)>, Status> {
    if !resource.namespaced {
        return Ok(None);
    }
    let key = key(namespace);
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&key) else {
        return Err(Status::not_found(&ResourceName { group: "", resource: "namespaces", name: namespace }));
    };
    // The cheap test comes first: only an object that contains this word can be marked for deletion.
    let may_end = memchr::memmem::find(&entry.bytes, b"\"deletionTimestamp\"").is_some();
    if may_end && meta::is_deleting(&encode::parse_entry(entry)) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        return Err(Status::forbidden(&resource.about(name), &why).caused(
            "NamespaceTerminating",
            message,
            "metadata.namespace",
        ));
    }
    Ok(Some((key, Expect::At(entry.revision))))
}
