//! Stored values are encoded bytes with a hole for the revision of their commit.
//!
//! The API server encodes an object once, before its `resourceVersion` is known. [`Value`] is that encoding plus the
//! position of the hole; the store fills it at commit, so a read returns the stored bytes and nothing is encoded twice.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use homeostat_core::{Key, Revision};

/// Encoded bytes, with at most one hole for the decimal revision.
#[derive(Clone, Debug)]
pub struct Value {
    /// The encoding without the revision.
    pub bytes: Bytes,
    /// Where in `bytes` the decimal revision is inserted; `None` if there is no hole.
    pub hole: Option<u32>,
    /// A number that the writer stores along with the bytes. The store does not interpret it.
    pub tag: u8,
    /// The parsed view of the bytes, if the writer already has it; see [`Entry::view`].
    pub view: Option<Arc<dyn Any + Send + Sync>>,
}

impl Value {
    /// Creates a value without a hole.
    pub fn plain(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), hole: None, tag: 0, view: None }
    }

    /// Returns the bytes as of `revision`, and the position of its digits.
    pub fn fill(&self, revision: Revision) -> (Bytes, Option<(u32, u32)>) {
        let Some(hole) = self.hole else { return (self.bytes.clone(), None) };
        let digits = revision.to_string();
        let at = hole as usize;
        let mut filled = BytesMut::with_capacity(self.bytes.len() + digits.len());
        filled.put_slice(&self.bytes[..at]);
        filled.put_slice(digits.as_bytes());
        filled.put_slice(&self.bytes[at..]);
        let end = u32::try_from(at + digits.len()).expect("values are far below 4 GiB");
        (filled.freeze(), Some((hole, end)))
    }
}

/// A value as stored on disk, with the revision filled in.
pub(crate) struct StoredValue {
    pub(crate) bytes: Bytes,
    pub(crate) digits: Option<(u32, u32)>,
    pub(crate) tag: u8,
}

/// One stored object as of one revision. Shared by the map, history, readers and watchers.
#[derive(Debug)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The revision of the commit that wrote this version.
    pub revision: Revision,
    /// The encoding, with the revision filled in.
    pub bytes: Bytes,
    /// Where the digits of the revision are in `bytes`.
    pub digits: Option<(u32, u32)>,
    /// The number that the writer stored along with the bytes.
    pub tag: u8,
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Entry {
    /// Creates the version of `key` that the commit `revision` writes.
    pub fn new(key: Key, revision: Revision, value: &Value) -> Self {
        let (bytes, digits) = value.fill(revision);
        let view = value.view.clone().map_or_else(OnceLock::new, OnceLock::from);
        Self { key, revision, bytes, digits, tag: value.tag, view }
    }

    /// Creates an entry from its stored form.
    pub(crate) fn stored(key: Key, revision: Revision, stored: StoredValue) -> Self {
        let StoredValue { bytes, digits, tag } = stored;
        Self { key, revision, bytes, digits, tag, view: OnceLock::new() }
    }

    /// Returns a parsed view of the bytes, which is created at most once and cached. All callers of one store must use
    /// the same type.
    pub fn view<T: Send + Sync + 'static>(&self, make: impl FnOnce(&Self) -> T) -> Arc<T> {
        let view = self.view.get_or_init(|| Arc::new(make(self)));
        Arc::clone(view).downcast().expect("one store has one type of view")
    }

    /// Returns the bytes with a different revision in the hole, as three slices; a deletion event shows the last state
    /// like this.
    pub fn restamped(&self, revision: Revision) -> [Bytes; 3] {
        let Some((from, to)) = self.digits else { return [self.bytes.clone(), Bytes::new(), Bytes::new()] };
        [
            self.bytes.slice(..from as usize),
            Bytes::from(revision.to_string()),
            self.bytes.slice(to as usize..),
        ]
    }

    /// Returns the value as it was committed, with its hole.
    pub fn value(&self) -> Value {
        let Some((from, to)) = self.digits else {
            return Value { tag: self.tag, ..Value::plain(self.bytes.clone()) };
        };
        let mut bytes = BytesMut::with_capacity(self.bytes.len());
        bytes.put_slice(&self.bytes[..from as usize]);
        bytes.put_slice(&self.bytes[to as usize..]);
        Value { bytes: bytes.freeze(), hole: Some(from), tag: self.tag, view: None }
    }
}
