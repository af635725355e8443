//! Represents objects without their type. The runtime works on these, so that it is compiled once and not for every
//! kind.
//!
//! **Invariant:** code that turns an object back into a type got it from a cache, a request or a relation of that same
//! type. They deliberately lack `Debug` and `Clone`: each would compile more code per kind, and nothing here needs
//! them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use homeostat_core::Revision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde_json::Value;

use super::{Kind, parse_revision};

/// An object of any kind.
pub(crate) type Object = dyn ErasedObject;

/// A test on an object.
pub(crate) type ObjectTest = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// The operations that every object supports, whatever its type.
pub(crate) trait ErasedObject: Any + Send + Sync {
    /// Returns its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Returns the object as JSON.
    fn to_json(&self) -> serde_json::Result<Value>;
}

impl<K: Kind> ErasedObject for K {
    fn metadata(&self) -> &ObjectMeta {
        Resource::meta(self)
    }

    fn to_json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

impl dyn ErasedObject {
    /// Returns its metadata.
    pub(crate) fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    /// Returns its resourceVersion; zero if it has none or it is not a number.
    pub(crate) fn revision(&self) -> Revision {
        parse_revision(self.metadata().resource_version.as_deref())
    }

    /// Returns the object as its own type.
    pub(crate) fn as_type<K: 'static>(&self) -> &K {
        let any: &dyn Any = self;
        any.downcast_ref().expect(MIXED_UP)
    }
}

impl fmt::Debug for dyn ErasedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = self.metadata();
        f.debug_struct("Object")
            .field("namespace", &meta.namespace)
            .field("name", &meta.name)
            .field("resource_version", &meta.resource_version)
            .finish_non_exhaustive()
    }
}

/// Returns the object as its own type.
pub(crate) fn downcast_object<K: Kind>(object: Arc<Object>) -> Arc<K> {
    let any: Arc<dyn Any + Send + Sync> = object;
    any.downcast().expect(MIXED_UP)
}

/// Returns the objects as their own type.
pub(crate) fn downcast_objects<K: Kind>(objects: Vec<Arc<Object>>) -> Vec<Arc<K>> {
    objects.into_iter().map(downcast_object).collect()
}

/// Why a downcast cannot fail.
const MIXED_UP: &str = "objects are kept and asked for by the same type";
