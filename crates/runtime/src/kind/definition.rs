//! The definition of a custom kind, as it is applied and printed: derived from the Rust type once per process.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::CustomResourceExt;
use serde_json::Value;

/// Definitions by the type they are derived from.
static DERIVED: Mutex<Option<HashMap<TypeId, Arc<Value>>>> = Mutex::new(None);

/// Returns the definition of a custom kind. It is derived once per process: that takes longer than the rest of a start, and
/// the simulator starts operators thousands of times.
pub(crate) fn definition_of<K: CustomResourceExt + 'static>() -> Arc<Value> {
    let mut derived = DERIVED.lock().unwrap_or_else(PoisonError::into_inner);
    let derived = derived.get_or_insert_default().entry(TypeId::of::<K>()).or_insert_with(|| {
        Arc::new(serde_json::to_value(K::crd()).expect("a definition made by the derive is plain data"))
    });
    Arc::clone(derived)
}
