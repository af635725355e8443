//! The identity of an object consists of its group, resource, namespace and name, in one spelling.
//!
//! A [`Key`] is the text `group/resource/namespace/name`, always four segments; the core group and the namespace of a
//! cluster-scoped object are empty. Keys sort as Kubernetes lists do: by namespace, then name, bytewise. A [`Prefix`]
//! is a key cut after a whole segment. `Display` omits empty segments: `pods/default/web`.
//!
//! **Invariant:** a stored key has exactly four segments, so that it can be parsed back. A key made from a name with a
//! slash is not [well-formed](Key::is_well_formed): it does not name an object, and no store accepts it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The unique name of one object. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates the key of an object. `namespace` is empty for cluster-scoped kinds, `group` for the core group.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(group.len() + resource.len() + namespace.len() + name.len() + 3);
        for (index, segment) in [group, resource, namespace, name].into_iter().enumerate() {
            if index > 0 {
                text.push('/');
            }
            text.push_str(segment);
        }
        Self(text.into())
    }

    /// Parses the text form; `None` unless it has exactly four segments.
    pub fn parse(text: &str) -> Option<Self> {
        has_four_segments(text).then(|| Self(text.into()))
    }

    /// Returns whether it has four segments: it has more if any of its parts contains a slash.
    pub fn is_well_formed(&self) -> bool {
        has_four_segments(&self.0)
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the API group, empty for the core group.
    pub fn group(&self) -> &str {
        self.segment(0)
    }

    /// Returns the plural resource name.
    pub fn resource(&self) -> &str {
        self.segment(1)
    }

    /// Returns the namespace, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.segment(2)
    }

    /// Returns the object's name.
    pub fn name(&self) -> &str {
        self.segment(3)
    }

    fn segment(&self, index: usize) -> &str {
        self.0.split('/').nth(index).expect("a key has at least four segments by construction")
    }
}

fn has_four_segments(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'/').count() == 3
}

/// Writes the form that people use: without an empty group or namespace. Machines use [`as_str`](Key::as_str).
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.split('/').filter(|segment| !segment.is_empty()).enumerate() {
            f.write_str(if index > 0 { "/" } else { "" })?;
            f.write_str(segment)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("a key is group/resource/namespace/name"))
    }
}

/// A prefix that covers all keys of one resource, or of one namespace of it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Covers every object of a group, of all its resources. It does not name a topic, so it cannot be watched.
    pub fn group(group: &str) -> Self {
        Self(format!("{group}/").into())
    }

    /// Covers every object of a resource, in all namespaces.
    pub fn resource(group: &str, resource: &str) -> Self {
        Self(format!("{group}/{resource}/").into())
    }

    /// Covers every object of a resource in one namespace (empty: the cluster-scoped ones).
    pub fn namespace(group: &str, resource: &str, namespace: &str) -> Self {
        Self(format!("{group}/{resource}/{namespace}/").into())
    }

    /// Returns the text form, ending in `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the key lies under this prefix.
    pub fn covers(&self, key: &Key) -> bool {
        key.as_str().starts_with(&*self.0)
    }

    /// Returns the `group/resource/` part, which names the resource.
    pub fn topic(&self) -> &str {
        let end = self.0.match_indices('/').nth(1).map_or(self.0.len(), |(at, _)| at + 1);
        &self.0[..end]
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_its_segments() {
        let key = Key::new("apps", "deployments", "default", "web");
        assert_eq!(key.as_str(), "apps/deployments/default/web");
        assert_eq!(
            (key.group(), key.resource(), key.namespace(), key.name()),
            ("apps", "deployments", "default", "web")
        );
        assert_eq!(Key::parse(key.as_str()), Some(key));
        assert_eq!(Key::parse("apps/deployments/web"), None);
        assert!(
            Key::new("", "pods", "a", "x").is_well_formed()
                && !Key::new("", "pods", "a", "x/y").is_well_formed()
        );
    }

    #[test]
    fn people_read_no_empty_segments() {
        let shown = |group, namespace| Key::new(group, "things", namespace, "x").to_string();
        assert_eq!(shown("demo.dev", "a"), "demo.dev/things/a/x");
        assert_eq!(shown("", "a"), "things/a/x");
        assert_eq!(shown("", ""), "things/x");
    }

    #[test]
    fn a_prefix_covers_whole_segments_only() {
        let prefix = Prefix::namespace("", "pods", "a");
        assert!(prefix.covers(&Key::new("", "pods", "a", "x")));
        assert!(!prefix.covers(&Key::new("", "pods", "ab", "x")));
        assert_eq!(prefix.topic(), "/pods/");
    }
}
