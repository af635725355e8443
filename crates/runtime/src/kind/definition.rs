//! Derives the definition of a custom kind, as it is applied and printed, from the Rust type once per process.

use std::any::TypeId;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use kube::CustomResourceExt;
use serde_json::Value;

/// Definitions by the type they are derived from.
static DERIVED: Mutex<Option<HashMap<TypeId, Arc<Definition>>>> = Mutex::new(None);

/// The definition of a custom kind, and its encoded form.
#[derive(Debug, PartialEq)]
pub(crate) struct Definition {
    value: Value,
    encoded: Vec<u8>,
}

impl Definition {
    fn new(value: Value) -> Self {
        Self { encoded: value.to_string().into_bytes(), value }
    }

    /// Returns it as JSON.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl Deref for Definition {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// Returns the definition of a custom kind. It is derived once per process: this takes longer than the rest of the
/// startup, and the simulator starts operators thousands of times.
pub(crate) fn definition_of<K: CustomResourceExt + 'static>() -> Arc<Definition> {
    let mut derived = DERIVED.lock().unwrap_or_else(PoisonError::into_inner);
    let derived = derived.get_or_insert_default().entry(TypeId::of::<K>()).or_insert_with(|| {
        let value = serde_json::to_value(K::crd()).expect("a definition made by the derive is plain data");
        Arc::new(Definition::new(value))
    });
    Arc::clone(derived)
}
