//! Catches panics in user code that runs in our own tasks: mappings, predicates, indexes, decoders. A panic on one
//! object is reported, and must harm neither the other objects nor the task.
//!
//! Reconcilers and handlers are not called through this module: their panics count as failures of a run
//! (`reconcile_once`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the user's code; a panic becomes its message.
///
/// State that the code shares with others may be half changed after a panic; state that we share with it is consistent,
/// because it never changes our state while one of our locks is held.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| message_of(&*panic))
}

/// Describes a panic in a reconciler, handler or world.
pub(crate) fn describe_panic(panic: &(dyn Any + Send)) -> String {
    format!("the reconciler panicked: {}", message_of(panic))
}

/// Returns the message of a panic.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    message
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        assert_eq!(catch_panic(|| -> u8 { panic!("odd") }), Err("odd".to_owned()));
        assert_eq!(catch_panic(|| -> u8 { panic!("{} odd", 1) }), Err("1 odd".to_owned()));
        assert_eq!(catch_panic(|| -> u8 { std::panic::panic_any(7) }), Err("without a message".to_owned()));
    }
}
