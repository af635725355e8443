//! The mark on an external resource says who manages it, and for which object. It is one line of text, so that any
//! label, tag or description can carry it.
//!
//! Any other text in place of a mark also means an owner: another tool's label, or one of our marks that the API
//! truncated. That owner cannot be determined, so the resource is never adopted and never deleted.

use std::fmt;
use std::str::FromStr;

use homeostat_core::Key;
use kube::Resource;

use crate::kind::{Kind, key};

/// The owner of an external resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The operator, or the identity set with [`Outside::identity`](super::Outside::identity).
    pub manager: String,
    /// The namespace of the object that desires the resource; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: an object that is created again under the same name is a different object.
    pub uid: String,
}

impl Mark {
    /// Returns the mark of a resource that `manager` maintains for this object.
    pub fn for_object<K: Resource>(manager: &str, object: &K) -> Self {
        let meta = object.meta();
        Self {
            manager: manager.to_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// Parses a mark. A text that is not a mark means that someone else has marked the resource.
    pub fn read(text: &str) -> Self {
        let unknown = || Self {
            manager: text.to_owned(),
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
        };
        text.parse().unwrap_or_else(|NotAMark| unknown())
    }

    /// Returns whether it is this manager's mark.
    pub(super) fn is_of(&self, manager: &str) -> bool {
        // Without a name, the text does not mark anything, even if it is the manager's own name.
        self.manager == manager && !self.name.is_empty()
    }

    /// Returns whether it is an empty text, which marks nothing.
    pub(super) fn is_blank(&self) -> bool {
        self.manager.trim().is_empty() && self.name.is_empty()
    }

    pub(super) fn key<K: Kind>(&self) -> Key {
        key::<K>(&self.namespace, &self.name)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            return f.write_str(&self.manager);
        }
        write!(f, "{}/{}/{}/{}", self.manager, self.namespace, self.name, self.uid)
    }
}

/// The text is not a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a mark is written manager/namespace/name/uid")]
pub struct NotAMark;

impl FromStr for Mark {
    type Err = NotAMark;

    fn from_str(text: &str) -> Result<Self, NotAMark> {
        let parts: Vec<&str> = text.split('/').collect();
        let [manager, namespace, name, uid] = parts[..] else { return Err(NotAMark) };
        if manager.is_empty() || name.is_empty() {
            return Err(NotAMark);
        }
        let [manager, namespace, name, uid] = [manager, namespace, name, uid].map(str::to_owned);
        Ok(Self { manager, namespace, name, uid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_one_line_and_reads_back() {
        let text = "shapes.demo.dev/default/foo/1-2-3";
        let mark: Mark = text.parse().unwrap();
        assert_eq!((mark.manager.as_str(), mark.name.as_str()), ("shapes.demo.dev", "foo"));
        assert_eq!(mark.to_string(), text);
        assert!("shapes.demo.dev//node/1".parse::<Mark>().is_ok(), "cluster-scoped");
        for other in ["", "k8s", "a/b/c", "a/b/c/d/e", "/ns/name/uid", "a/ns//uid"] {
            assert_eq!(other.parse::<Mark>(), Err(NotAMark), "{other}");
            let mark = Mark::read(other);
            assert_eq!((mark.to_string().as_str(), mark.is_blank()), (other, other.is_empty()));
            assert!(!mark.is_of(other) && !mark.is_of("a"), "whatever it says");
        }
        assert_eq!(Mark::read(text), mark);
        assert!(mark.is_of("shapes.demo.dev") && !mark.is_of("other"));
    }
}
