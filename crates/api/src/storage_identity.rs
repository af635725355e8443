//! Says where the objects of a resource are stored: the resource's identity in the store, from which every key is
//! built.
//!
//! Built-in objects are stored under `group/resource/…`, custom ones under `crd:group/resource/…`. Code that treats one
//! kind specially (permissions, addresses of Services, namespaces, garbage collection) compares the
//! [`ResourceIdentity`], never group and name alone.
//!
//! **Invariant:** no API group contains a colon, so a key of a custom object is never a key of a built-in object. A new
//! kind of key space requires a new format of the data folder: see the server's `data_migrations`.

use std::borrow::Cow;

use homeostat_core::{Key, Prefix};

/// The first part of the keys of custom objects.
const CUSTOM: &str = "crd:";

/// Identifies the objects of a built-in or custom resource by group and plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceIdentity<'a> {
    /// Compiled in.
    BuiltIn(&'a str, &'a str),
    /// Defined by a CustomResourceDefinition.
    Custom(&'a str, &'a str),
}

impl<'a> ResourceIdentity<'a> {
    /// Returns the storage that a key belongs to.
    pub fn of_key(key: &'a Key) -> Self {
        match key.group().strip_prefix(CUSTOM) {
            Some(group) => Self::Custom(group, key.resource()),
            None => Self::BuiltIn(key.group(), key.resource()),
        }
    }

    /// Returns the API group.
    pub fn group(self) -> &'a str {
        let (Self::BuiltIn(group, _) | Self::Custom(group, _)) = self;
        group
    }

    /// Returns the plural name.
    pub fn plural(self) -> &'a str {
        let (Self::BuiltIn(_, plural) | Self::Custom(_, plural)) = self;
        plural
    }

    /// Returns the key of an object; `namespace` is empty for cluster-scoped ones.
    pub fn key(self, namespace: &str, name: &str) -> Key {
        Key::new(&self.segment(), self.plural(), namespace, name)
    }

    /// Returns the prefix of all objects.
    pub fn prefix(self) -> Prefix {
        Prefix::resource(&self.segment(), self.plural())
    }

    /// Returns the prefix of the objects of one namespace.
    pub fn prefix_in(self, namespace: &str) -> Prefix {
        Prefix::namespace(&self.segment(), self.plural(), namespace)
    }

    /// Returns the first segment of the keys.
    fn segment(self) -> Cow<'a, str> {
        match self {
            Self::BuiltIn(group, _) => group.into(),
            Self::Custom(group, _) => format!("{CUSTOM}{group}").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_storage_and_the_two_spaces_never_meet() {
        let built_in = ResourceIdentity::BuiltIn("rbac.authorization.k8s.io", "clusterrolebindings");
        let custom = ResourceIdentity::Custom("rbac.authorization.k8s.io", "clusterrolebindings");
        for storage in [built_in, custom, ResourceIdentity::BuiltIn("", "pods")] {
            let key = storage.key("a", "x");
            assert_eq!(ResourceIdentity::of_key(&key), storage);
            assert!(storage.prefix().covers(&key) && storage.prefix_in("a").covers(&key));
        }
        assert!(!built_in.prefix().covers(&custom.key("a", "x")));
        assert!(!custom.prefix().covers(&built_in.key("a", "x")));
    }
}
