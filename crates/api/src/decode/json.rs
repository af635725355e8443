//! Parses JSON bodies with serde_json (which rejects more than 128 levels). Only its errors are translated into the
//! familiar messages of Go's decoder, and unpaired surrogates are replaced as in Go.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::error::Category;

use super::build::{DuplicateKeys, TOO_LARGE, ValueBuilder, WholeFloats};
use crate::field::FieldPath;
use crate::object::memory::{MEMORY_MAX, MemoryBudget};

/// The length of `\uXXXX`.
const ESCAPE_BYTES: usize = 6;

pub(super) fn parse(
    text: &str,
    duplicates: &DuplicateKeys,
    whole_floats: WholeFloats,
) -> Result<Value, String> {
    let parsed = parse_exactly(text, duplicates, whole_floats);
    if parsed.is_ok() {
        return parsed;
    }
    let Some(mended) = replace_unpaired_surrogates(text) else { return parsed };
    if let Some(duplicates) = duplicates {
        duplicates.borrow_mut().clear();
    }
    parse_exactly(&mended, duplicates, whole_floats)
}

/// Replaces each unpaired surrogate with the replacement character. Returns `None` if there is none.
fn replace_unpaired_surrogates(text: &str) -> Option<String> {
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        let start = at + found;
        let Some(code) = code_unit_at(text, start) else {
            // Another escape: a backslash and one character.
            at = (start + 2).min(text.len());
            continue;
        };
        at = start + ESCAPE_BYTES;
        match code {
            0xD800..0xDC00 if code_unit_at(text, at).is_some_and(|next| (0xDC00..0xE000).contains(&next)) => {
                at += ESCAPE_BYTES;
            }
            0xD800..0xE000 => {
                mended.push_str(&text[copied..start]);
                mended.push_str(r"\ufffd");
                copied = at;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return None;
    }
    mended.push_str(&text[copied..]);
    Some(mended)
}

/// Returns the code unit of the escape `\uXXXX` that begins at `at`.
fn code_unit_at(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix(r"\u")?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

fn parse_exactly(text: &str, duplicates: &DuplicateKeys, whole_floats: WholeFloats) -> Result<Value, String> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let room = MemoryBudget::new(MEMORY_MAX);
    let build = ValueBuilder { path: &FieldPath::Root, duplicates, room: &room, whole_floats };
    let value = build.deserialize(&mut parser).map_err(|error| error_text(text, &error))?;
    match trailing_error(text, &parser.end()) {
        None => Ok(value),
        Some(found) => Err(format!("invalid character {} after top-level value", quoted(found))),
    }
}

fn trailing_error(text: &str, end: &Result<(), serde_json::Error>) -> Option<char> {
    let error = end.as_ref().err()?;
    Some(character_at_error(text, error).unwrap_or_default())
}

fn error_text(text: &str, error: &serde_json::Error) -> String {
    if error.classify() == Category::Eof {
        return "unexpected end of JSON input".into();
    }
    let message = error.to_string();
    if message.starts_with(TOO_LARGE) {
        return TOO_LARGE.into();
    }
    if message.starts_with("recursion limit exceeded") {
        return "exceeded max depth".into();
    }
    let Some(found) = character_at_error(text, error) else { return message };
    let is_close = found == '}';
    let place = match message.split(" at line ").next().unwrap_or_default() {
        "key must be a string" => "looking for beginning of object key string",
        "trailing comma" if is_close => "looking for beginning of object key string",
        "expected value" | "trailing comma" => "looking for beginning of value",
        "expected `:`" => "after object key",
        "expected `,` or `}`" => "after object key:value pair",
        "expected `,` or `]`" => "after array element",
        "invalid number" => "in numeric literal",
        "invalid escape" => "in string escape code",
        "control character (\\u0000-\\u001F) found while parsing a string" => "in string literal",
        "expected ident" => return literal_error(text, error, found).unwrap_or(message),
        _ => return message,
    };
    format!("invalid character {} {place}", quoted(found))
}

/// Returns the error for a word that begins like `null`, `true` or `false` but continues differently.
fn literal_error(text: &str, error: &serde_json::Error, found: char) -> Option<String> {
    let before = text.get(..error_offset(text, error)?)?;
    ["null", "true", "false"].into_iter().find_map(|word| {
        let read = (1..word.len()).rev().find(|read| before.ends_with(&word[..*read]))?;
        let next = word[read..].chars().next()?;
        let (found, next) = (quoted(found), quoted(next));
        Some(format!("invalid character {found} in literal {word} (expecting {next})"))
    })
}

/// Returns the character at which the parser stopped.
fn character_at_error(text: &str, error: &serde_json::Error) -> Option<char> {
    text.get(error_offset(text, error)?..)?.chars().next()
}

/// Returns the offset of that character. serde_json reports an unexpected line break as the start of the next line.
fn error_offset(text: &str, error: &serde_json::Error) -> Option<usize> {
    let lines = text.split_inclusive('\n').take(error.line().checked_sub(1)?);
    let start = lines.map(str::len).sum::<usize>();
    (start + error.column()).checked_sub(1)
}

fn quoted(found: char) -> String {
    format!("{found:?}")
}
