//! YAML bodies, read as Kubernetes reads them: YAML 1.1 booleans (`yes`, `off`, `n` …, in keys too), the first
//! document only.
//!
//! Aliases are bounded by the size of a body, so that a small document cannot grow into a large one.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Options, with_deserializer_from_str_with_options};

use super::build::{Build, Duplicates, TOO_LARGE};
use super::yaml_duplicates;
use crate::field::Path;
use crate::object::memory::{MEMORY_MAX, Room};

/// As deep as JSON may be.
const DEPTH_MAX: usize = 128;
/// What aliases may add: more nodes than this no honest manifest repeats.
const REPLAYED_EVENTS_MAX: usize = 100_000;

pub(super) fn parse(text: &str, duplicates: &Duplicates) -> Result<Value, String> {
    let room = Room::new(MEMORY_MAX);
    with_deserializer_from_str_with_options(first_document(text), options(), |parser| {
        Build { path: &Path::Root, duplicates, room: &room }.deserialize(parser)
    })
    .map_err(|error| format!("yaml: {error}"))
    .map_err(|error| if error.contains(TOO_LARGE) { TOO_LARGE.to_owned() } else { error })
}

/// What Go's parser says of keys that come twice.
pub(super) fn complaint(text: &str) -> Option<String> {
    yaml_duplicates::complaint(first_document(text), options())
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

/// The text up to the separator after the first document.
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
