//! Collects the errors of one object up to a limit.
//!
//! **Invariant:** never more than [`ERRORS_MAX`] errors and about [`ERRORS_BYTES_MAX`] bytes of text are kept,
//! however many are found. Further errors are counted but not written, so finding them costs next to nothing.

use std::ops::Deref;

use super::Error;

/// The maximum number of errors kept for one object: more than anyone reads. A single body may contain a million of
/// them.
const ERRORS_MAX: usize = 1000;
/// The maximum number of text bytes kept for one object; the last error may exceed it. The response repeats them once,
/// as causes.
const ERRORS_BYTES_MAX: usize = 128 * 1024;

/// The errors found in one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    kept: Vec<Error>,
    bytes: usize,
    left_out: usize,
}

impl Errors {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there is no room left. Callers check this before doing expensive work to
    /// describe an error.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= ERRORS_MAX || self.bytes >= ERRORS_BYTES_MAX
    }

    /// Returns how many errors were found but not kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Adds an error; writes it only if there is room.
    pub fn push(&mut self, error: impl Into<Error>) {
        self.push_with(|| error.into());
    }

    /// Adds an error; calls `make` only if there is room.
    pub fn push_with(&mut self, make: impl FnOnce() -> Error) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let error = make().cut();
        self.bytes += error.bytes();
        self.kept.push(error);
    }

    /// Adds several errors.
    pub fn extend<E: Into<Error>>(&mut self, errors: impl IntoIterator<Item = E>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Adds all errors of another collection.
    pub fn append(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.extend(other.kept);
    }

    /// Adds all errors a second time: Kubernetes runs some checks twice and reports the errors twice.
    pub fn repeat(&mut self) {
        self.append(self.clone());
    }
}

impl Deref for Errors {
    type Target = [Error];

    fn deref(&self) -> &[Error] {
        &self.kept
    }
}

impl<E: Into<Error>> From<E> for Errors {
    fn from(error: E) -> Self {
        let mut errors = Self::new();
        errors.push(error);
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::field::{FieldPath, PART_BYTES_MAX};

    #[test]
    fn no_more_than_so_many_are_kept_and_the_others_are_counted() {
        let mut errors = Errors::new();
        let path = FieldPath::Root;
        for at in 0..3 * ERRORS_MAX {
            errors.push(Error::required(&path.index(at), ""));
        }
        assert_eq!((errors.len(), errors.left_out()), (ERRORS_MAX, 2 * ERRORS_MAX));
        errors.repeat();
        assert_eq!((errors.len(), errors.left_out()), (ERRORS_MAX, 5 * ERRORS_MAX));
    }

    #[test]
    fn large_values_places_and_details_are_cut() {
        let large = "\u{e9}".repeat(1024 * 1024);
        let path = FieldPath::Root.key(&large);
        let list = Value::Array(vec![json!({"a": large}); 2]);
        let text = json!(large);
        for error in [
            Error::invalid(&path, &text, &large).written(),
            Error::duplicate(&path, &list).written(),
            Error::not_supported(&path, &Value::Null, &[&large, &large]).written(),
        ] {
            assert!(error.field.len() <= PART_BYTES_MAX + 8, "{}", error.field.len());
            assert!(error.body.len() <= 2 * PART_BYTES_MAX + 64, "{}", error.body.len());
            assert!(error.field.ends_with(" ...") && error.body.ends_with(" ..."));
        }
        let mut errors = Errors::new();
        for _ in 0..1000 {
            errors.push(Error::invalid(&path, &text, &large));
        }
        assert!(errors.iter().map(Error::bytes).sum::<usize>() < 2 * ERRORS_BYTES_MAX);
    }
}
