//! What namespaces mean for the objects in them: they must exist, and nothing is created in one that is being
//! deleted.

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::{ResourceName, Status};
use homeostat_api::storage::Storage;
use homeostat_core::Key;
use homeostat_store::Expect;

use crate::backend::Backend;
use crate::stored::encode;

/// The storage of namespaces.
const STORAGE: Storage<'static> = NAMESPACE.storage();

/// Returns the key of a namespace.
pub(crate) fn key(name: &str) -> Key {
    STORAGE.key("", name)
}

/// Checks that an object may be created here. Returns the condition that must still hold when it is committed.
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
    // The cheap test comes first: only an object that contains the word can be marked.
    let may_end = memchr::memmem::find(&entry.bytes, b"\"deletionTimestamp\"").is_some();
    if may_end && meta::is_deleting(&encode::decode(entry)) {
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
