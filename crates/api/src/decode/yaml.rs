//! Parses YAML bodies as Kubernetes does: YAML 1.1 booleans (`yes`, `off`, `n` …, also in keys), and only the first
//! document.
//!
//! Aliases are bounded by the size of a body, so that a small document cannot grow into a large one.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Options, with_deserializer_from_str_with_options};

use super::build::{DuplicateKeys, TOO_LARGE, ValueBuilder};
use super::yaml_duplicates;
use crate::field::FieldPath;
use crate::object::memory::{MEMORY_MAX, MemoryBudget};

/// The maximum depth, the same as for JSON.
const DEPTH_MAX: usize = 128;
/// The maximum number of nodes that aliases may add; no honest manifest repeats more.
const REPLAYED_EVENTS_MAX: usize = 100_000;

pub(super) fn parse(text: &str, duplicates: &DuplicateKeys) -> Result<Value, String> {
    let room = MemoryBudget::new(MEMORY_MAX);
    with_deserializer_from_str_with_options(first_document(text), options(), |parser| {
        ValueBuilder { path: &FieldPath::Root, duplicates, room: &room }.deserialize(parser)
    })
    .map_err(|error| format!("yaml: {error}"))
    .map_err(|error| if error.contains(TOO_LARGE) { TOO_LARGE.to_owned() } else { error })
}

/// Returns what Go's parser says about duplicate keys.
pub(super) fn error_text(text: &str) -> Option<String> {
    yaml_duplicates::error_text(first_document(text), options())
}

/// Returns what Go's parser says about the first duplicate key in a text whose keys are whole numbers. Our parser
/// silently keeps the last of those, so here it stops at the first duplicate.
pub(super) fn number_key_error_text(text: &str) -> Option<String> {
    let room = MemoryBudget::new(MEMORY_MAX);
    let mut strict = options();
    strict.duplicate_keys = DuplicateKeyPolicy::Error;
    let read = with_deserializer_from_str_with_options(first_document(text), strict, |parser| {
        ValueBuilder { path: &FieldPath::Root, duplicates: &None, room: &room }.deserialize(parser)
    });
    match read {
        Err(serde_saphyr::Error::DuplicateMappingKey { key: Some(key), location }) => {
            yaml_duplicates::error_text_about_key(&key, location.line(), options())
        }
        _ => None,
    }
}

fn options() -> Options {
    let mut limits = AliasLimits::default();
    limits.max_total_replayed_events = REPLAYED_EVENTS_MAX;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        alias_limits: limits,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// Returns the text up to the separator after the first document.
fn first_document(text: &str) -> &str {
    let is_separator = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let mut has_content = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if has_content && is_separator(line) {
            return &text[..at];
        }
        has_content |= !is_separator(line) && !line.trim().is_empty() && !line.trim_start().starts_with('#');
        at += line.len();
    }
    text
}
