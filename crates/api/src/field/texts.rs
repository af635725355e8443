//! Collects messages about one object (unknown fields, duplicate keys, warnings) up to a limit.
//!
//! **Invariant:** never more than [`TEXTS_MAX`] messages and about [`TEXTS_BYTES_MAX`] bytes are kept. A path repeats
//! the names above it, so a single long name above many fields would make messages as large as the square of the body.

use std::ops::Deref;

use super::{PART_BYTES_MAX, cut_text};

/// The maximum number of messages: more than anyone reads. kube-apiserver's decoder stops at a hundred.
const TEXTS_MAX: usize = 1000;
/// The maximum number of bytes; the last message may exceed it.
const TEXTS_BYTES_MAX: usize = 64 * 1024;

/// Messages about one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedTexts {
    kept: Vec<String>,
    bytes: usize,
}

impl BoundedTexts {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there is no room left.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= TEXTS_MAX || self.bytes >= TEXTS_BYTES_MAX
    }

    /// Adds a message; calls `make` only if there is room.
    pub fn push_with(&mut self, make: impl FnOnce() -> String) {
        if self.is_full() {
            return;
        }
        let mut text = make();
        cut_text(&mut text, PART_BYTES_MAX);
        self.bytes += text.len();
        self.kept.push(text);
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        *self = Self::new();
    }
}

impl Deref for BoundedTexts {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.kept
    }
}

impl IntoIterator for BoundedTexts {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl From<BoundedTexts> for Vec<String> {
    fn from(texts: BoundedTexts) -> Self {
        texts.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_in_number_and_in_bytes() {
        let mut texts = BoundedTexts::new();
        (0..3 * TEXTS_MAX).for_each(|at| texts.push_with(|| at.to_string()));
        assert_eq!(texts.len(), TEXTS_MAX);
        let mut texts = BoundedTexts::new();
        let large = "x".repeat(1024 * 1024);
        (0..TEXTS_MAX).for_each(|_| texts.push_with(|| large.clone()));
        assert!(texts.iter().map(String::len).sum::<usize>() < 2 * TEXTS_BYTES_MAX);
    }
}
