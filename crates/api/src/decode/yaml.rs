//! Parses YAML bodies as Kubernetes does: YAML 1.1 booleans (`yes`, `off`, `n` …, also in keys), and only the first
//! document.
//!
//! Aliases are bounded by the size of a body, so that a small document cannot grow into a large one.

use std::ops::Range;

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Options, with_deserializer_from_str_with_options};

use super::build::{DuplicateKeys, TOO_LARGE, ValueBuilder, WholeFloats};
use super::yaml_duplicates;
use crate::field::{BoundedTexts, FieldPath};
use crate::object::memory::{MEMORY_MAX, MemoryBudget};

/// The maximum depth, the same as for JSON.
const DEPTH_MAX: usize = 128;
/// The maximum number of nodes that aliases may add; no honest manifest repeats more.
const REPLAYED_EVENTS_MAX: usize = 100_000;

/// The number of bytes that a search for duplicate keys may parse. Each key found costs another pass, so only texts of
/// a few kilobytes are searched completely.
const SEARCHED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The text that a duplicate key is renamed to, followed by a number, so that the next one can be found.
const RENAMED: &str = "homeostat: renamed duplicate key ";

pub(super) fn parse(text: &str, duplicates: &DuplicateKeys) -> Result<Value, String> {
    let room = MemoryBudget::new(MEMORY_MAX);
    with_deserializer_from_str_with_options(first_document(text), options(), |parser| {
        builder(duplicates, &room).deserialize(parser)
    })
    .map_err(|error| format!("yaml: {error}"))
    .map_err(|error| if error.contains(TOO_LARGE) { TOO_LARGE.to_owned() } else { error })
}

/// Returns the message of Go's parser about duplicate keys.
pub(super) fn error_text(text: &str) -> Option<String> {
    yaml_duplicates::error_text(first_document(text), options())
}

/// Returns the message of Go's parser about duplicate keys in a text that has whole numbers as keys. Our parser
/// silently keeps the last of several such keys, so here it stops at each duplicate key, which is then renamed so that
/// the next one can be found.
pub(super) fn number_key_error_text(text: &str) -> Option<String> {
    let mut text = first_document(text).to_owned();
    let mut lines = BoundedTexts::new();
    let mut budget = SEARCHED_BYTES_MAX;
    while let Some(found) = first_duplicate(&text) {
        let shown = found.shown()?;
        lines.push_with(|| format!("line {}: key {shown} already set in map", found.line));
        budget = budget.saturating_sub(text.len());
        let Some(spelled) = found.range_in(&text).filter(|_| budget > 0 && !lines.is_full()) else { break };
        text.replace_range(spelled, &format!("\"{RENAMED}{}\"", lines.len()));
    }
    (!lines.is_empty()).then(|| format!("{}\n  {}", yaml_duplicates::INTRO, lines.join("\n  ")))
}

fn first_duplicate(text: &str) -> Option<DuplicateKey> {
    let room = MemoryBudget::new(MEMORY_MAX);
    let mut strict = options();
    strict.duplicate_keys = DuplicateKeyPolicy::Error;
    let read = with_deserializer_from_str_with_options(text, strict, |parser| {
        builder(&None, &room).deserialize(parser)
    });
    match read {
        Err(serde_saphyr::Error::DuplicateMappingKey { key: Some(key), location }) => {
            let line = usize::try_from(location.line()).ok()?;
            let column = usize::try_from(location.column()).ok()?;
            let is_quoted =
                offset_of(text, line, column).is_some_and(|offset| text[offset..].starts_with(['"', '\'']));
            Some(DuplicateKey { key, line, column, is_quoted })
        }
        _ => None,
    }
}

/// A duplicate key, and where it begins.
struct DuplicateKey {
    key: String,
    /// Both count from 1; columns are characters.
    line: usize,
    column: usize,
    is_quoted: bool,
}

impl DuplicateKey {
    /// Returns the key as Go prints it.
    fn shown(&self) -> Option<String> {
        if self.is_quoted {
            return Some(yaml_duplicates::printed_text(&self.key));
        }
        yaml_duplicates::printed_key(&self.key, options())
    }

    /// Returns the key's position in the text, unless it is written with escapes.
    fn range_in(&self, text: &str) -> Option<Range<usize>> {
        let start = offset_of(text, self.line, self.column)?;
        let quote = usize::from(self.is_quoted);
        let end = start + quote + self.key.len();
        (text.get(start + quote..end)? == self.key).then_some(start..end + quote)
    }
}

fn offset_of(text: &str, line: usize, column: usize) -> Option<usize> {
    let start = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum::<usize>();
    let (within, _) = text.get(start..)?.char_indices().nth(column.checked_sub(1)?)?;
    Some(start + within)
}

fn builder<'a>(duplicates: &'a DuplicateKeys, room: &'a MemoryBudget) -> ValueBuilder<'a> {
    ValueBuilder { path: &FieldPath::Root, duplicates, room, whole_floats: WholeFloats::Shorten }
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
