//! What namespaces mean to the objects in them: they must exist, and nothing new begins in one that ends.

use homeostat_core::Key;
use homeostat_store::Expect;

use crate::backend::Backend;
use crate::kinds::core::namespace::NAMESPACE;
use crate::object::{encode, meta};
use crate::resource::Resource;
use crate::status::{About, Status};
use crate::storage::Storage;

/// Where namespaces are kept.
const STORAGE: Storage<'static> = NAMESPACE.storage();

/// The key of a namespace.
pub(crate) fn key(name: &str) -> Key {
    STORAGE.key("", name)
}

/// May an object begin here? Gives what must still hold when it is committed.
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
        return Err(Status::not_found(&About { group: "", resource: "namespaces", name: namespace }));
    };
    // Cheap test first: only an object that carries the word can be marked.
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
