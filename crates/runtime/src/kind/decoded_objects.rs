//! Keeps objects that were decoded before, by their text. The simulator starts thousands of operators a second that see
//! the same few objects, and decodes each version of one once.
//!
//! Nothing is kept unless the owner of the thread asks for it: a program that runs one operator never sees a text twice.
//!
//! **Invariant:** an object is found by its whole text and its type, so it is what decoding the text would have returned.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::KindInfo;
use super::object::Object;

/// The maximum number of bytes of text kept: several thousand versions of small objects.
const BYTES_MAX: usize = 16 * 1024 * 1024;

thread_local! {
    static IN_USE: RefCell<Option<DecodedObjects>> = const { RefCell::new(None) };
}

/// Decoded objects, to be used again by operators on the same thread.
#[derive(Default)]
pub struct DecodedObjects {
    kinds: HashMap<TypeId, HashMap<Box<str>, Arc<Object>, RandomState>>,
    bytes: usize,
}

impl DecodedObjects {
    /// Calls `run`; operators that it polls on this thread share the objects that they decode.
    pub fn share_within<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let outer = IN_USE.replace(Some(std::mem::take(self)));
        let result = run();
        *self = IN_USE.replace(outer).unwrap_or_default();
        result
    }
}

impl fmt::Debug for DecodedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedObjects").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Returns the object of this kind with this text, if it was decoded before.
pub(crate) fn get(info: &KindInfo, text: &str) -> Option<Arc<Object>> {
    IN_USE.with_borrow(|in_use| in_use.as_ref()?.kinds.get(&info.type_id)?.get(text).cloned())
}

/// Keeps a decoded object, if that is requested and there is room.
pub(crate) fn insert(info: &KindInfo, text: &str, object: &Arc<Object>) {
    IN_USE.with_borrow_mut(|in_use| {
        let Some(kept) = in_use.as_mut().filter(|kept| kept.bytes + text.len() <= BYTES_MAX) else { return };
        kept.bytes += text.len();
        kept.kinds.entry(info.type_id).or_default().insert(text.into(), Arc::clone(object));
    });
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;
    use crate::kind::info;

    #[test]
    fn objects_are_found_by_text_and_type_while_they_are_shared() {
        let text = r#"{"metadata":{"name":"a"}}"#;
        let (maps, secrets) = (info::<ConfigMap>(), info::<Secret>());
        let object = (maps.decode)(text).unwrap();
        insert(maps, text, &object);
        assert!(get(maps, text).is_none(), "nobody asked for it");
        let mut shared = DecodedObjects::default();
        shared.share_within(|| insert(maps, text, &object));
        assert!(get(maps, text).is_none(), "not any more");
        shared.share_within(|| {
            assert!(get(maps, text).is_some_and(|found| Arc::ptr_eq(&found, &object)));
            assert!(get(secrets, text).is_none() && get(maps, "{}").is_none());
        });
    }
}
