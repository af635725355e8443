//! Says why a reconcile failed, and what follows from that. Any error becomes a fault with `?` and is retried with
//! backoff; two functions change that: [`terminal`] and [`retry_after`].
//!
//! ```
//! use std::time::Duration;
//! use homeostat_runtime::{Fault, retry_after, terminal};
//!
//! fn classify(error: std::io::Error) -> Fault {
//!     match error.kind() {
//!         std::io::ErrorKind::TimedOut => retry_after(Duration::from_secs(10), error), // it says when
//!         std::io::ErrorKind::InvalidInput => terminal(error),                         // only an edit cures it
//!         _ => error.into(),                                                           // back-off
//!     }
//! }
//! # classify(std::io::Error::other("x"));
//! ```

use std::any::Any;
use std::fmt;
use std::time::Duration;

use homeostat_core::Key;

use crate::error::{BoxError, Error};
use crate::panics::describe_panic;
use crate::queue::Outcome;

/// The result type of reconcilers.
pub type Result<T = crate::Action, E = Fault> = std::result::Result<T, E>;

/// A failed reconcile. It is deliberately not an `Error` itself, so that every error converts into it.
pub struct Fault {
    class: Class,
    error: BoxError,
    /// Whether the reconciler recorded its own event about it.
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Backoff,
    After(Duration),
    Terminal,
    Panic,
}

/// Returns a fault that only a change to the object can resolve: it is not retried until the object is edited, and the
/// object's status says so.
pub fn terminal(error: impl Into<BoxError>) -> Fault {
    Fault::new(Class::Terminal, error)
}

/// Returns a fault that is retried after this time instead of the usual backoff.
pub fn retry_after(after: Duration, error: impl Into<BoxError>) -> Fault {
    Fault::new(Class::After(after), error)
}

impl Fault {
    fn new(class: Class, error: impl Into<BoxError>) -> Self {
        Self { class, error: error.into(), is_told: false }
    }

    /// Returns whether the reconciler recorded its own warning about it, so that no other warning is needed.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    pub(crate) fn set_told(&mut self) {
        self.is_told = true;
    }

    /// Returns the fault of a reconciler that panicked.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        Self::panic(describe_panic(panic))
    }

    pub(crate) fn panic(message: String) -> Self {
        Self::new(Class::Panic, message)
    }

    /// Returns whether a retry is pointless until the object changes.
    pub fn is_terminal(&self) -> bool {
        self.class == Class::Terminal
    }

    /// Returns whether the reconciler panicked.
    pub fn is_panic(&self) -> bool {
        self.class == Class::Panic
    }

    /// Returns whether the cause is an object that belongs to someone else. Only a person can resolve that, so it is
    /// reported at once.
    pub(crate) fn is_conflict_of_owners(&self) -> bool {
        matches!(self.error.downcast_ref(), Some(crate::Error::NotOurs { .. }))
    }

    /// Returns the error itself.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.error
    }

    /// Returns the error and its causes in one line.
    pub fn chain(&self) -> String {
        crate::error::chain(&*self.error)
    }

    /// Returns whether the fault is part of normal operation: the object or its namespace is gone, or another write got
    /// there first.
    pub(crate) fn is_expected(&self, key: &Key, failures: u32) -> bool {
        /// How often in a row a write may come too late: an object that is being deleted loses its children one by one.
        const LATE_MAX: u32 = 3;
        let Some(error) = self.error.downcast_ref::<Error>() else { return false };
        let is_late = error.is_conflict() || error.is_not_found();
        (failures < LATE_MAX && is_late) || error.is_loss_of(key) || error.is_namespace_ending()
    }

    /// Returns whether the only cause is that the API server could not be reached, so that the fault is resolved once
    /// the server is back.
    pub(crate) fn is_cut_off(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*self.error);
        while let Some(error) = cause {
            let is_unanswered = match error.downcast_ref() {
                Some(kube::Error::HyperError(_)) => true,
                // A request that we refused ourselves did not fail because of the server.
                Some(kube::Error::Service(cause)) => !cause.is::<Error>(),
                _ => false,
            };
            if is_unanswered || error.downcast_ref::<Error>().is_some_and(Error::is_cut_off) {
                return self.class == Class::Backoff;
            }
            cause = error.source();
        }
        false
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self.class {
            Class::Backoff | Class::Panic => Outcome::Failed,
            Class::After(after) => Outcome::RetryAfter(after),
            Class::Terminal => Outcome::Terminal,
        }
    }
}

impl<E: Into<BoxError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::new(Class::Backoff, error)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.class, self.chain())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_error_converts() {
        fn parse() -> Result<i32> {
            Ok("x".parse::<i32>()?)
        }
        fn text() -> Result<()> {
            Err("just words")?;
            Ok(())
        }
        assert_eq!(parse().unwrap_err().outcome(), Outcome::Failed);
        assert_eq!(text().unwrap_err().to_string(), "just words");
        assert_eq!(terminal("no").outcome(), Outcome::Terminal);
        let minute = Duration::from_secs(60);
        assert_eq!(retry_after(minute, "busy").outcome(), Outcome::RetryAfter(minute));
    }

    #[test]
    fn a_server_out_of_reach_is_told_from_an_error_of_the_object() {
        #[derive(Debug, thiserror::Error)]
        #[error("making the child")]
        struct Wrapped(#[source] Error);
        let refused = |code| {
            let status = Box::new(kube::core::Status::failure("no", "Testing").with_code(code));
            Fault::from(Error::Api { verb: "apply", target: "x".into(), status })
        };
        let gone = || Error::Transport { verb: "apply", target: "x".into(), source: "reset".into() };
        for (fault, expected) in [
            (Fault::from(gone()), true),
            (Wrapped(gone()).into(), true),
            (refused(503), true),
            (refused(500), false),
            (refused(409), false),
            ("the object is odd".into(), false),
            (terminal(gone()), false),
        ] {
            assert_eq!(fault.is_cut_off(), expected, "{fault}");
        }
    }
    #[test]
    fn what_goes_with_its_namespace_is_no_news() {
        let key = Key::new("", "pods", "shop", "web");
        let check = |target: &str, status: serde_json::Value, failures: u32, expected: bool| {
            let status = Box::new(serde_json::from_value(status.clone()).unwrap());
            let fault = Fault::from(Error::Api { verb: "patch", target: target.into(), status });
            assert_eq!(fault.is_expected(&key, failures), expected, "{fault} {failures}");
        };
        let ending = json!({"code": 403, "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
        check("other", ending, 9, true);
        check("other", json!({"code": 403}), 0, false);
        check("other", json!({"code": 404, "details": {"kind": "namespaces"}}), 9, true);
        check(key.as_str(), json!({"code": 404}), 9, true);
        for code in [404, 409] {
            check("other", json!({"code": code}), 0, true);
            check("other", json!({"code": code}), 3, false);
        }
    }
}
