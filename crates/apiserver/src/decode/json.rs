//! JSON bodies. The parser is serde_json (it refuses more than 128 levels); only its complaints are turned into the
//! ones Go gives, which people know, and half of a surrogate pair is replaced as Go replaces it.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::error::Category;

use super::build::{Build, Duplicates, TOO_LARGE};
use crate::field::Path;
use crate::object::memory::{MEMORY_MAX, Room};

/// The length of `\uXXXX`.
const ESCAPE_BYTES: usize = 6;

pub(super) fn parse(text: &str, duplicates: &Duplicates) -> Result<Value, String> {
    let parsed = parse_exactly(text, duplicates);
    if parsed.is_ok() {
        return parsed;
    }
    let Some(mended) = mended(text) else { return parsed };
    if let Some(duplicates) = duplicates {
        duplicates.borrow_mut().clear();
    }
    parse_exactly(&mended, duplicates)
}

/// The text with each half of a surrogate pair that lacks the other written as the replacement character. `None`:
/// there is no such half.
fn mended(text: &str) -> Option<String> {
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        let start = at + found;
        let Some(code) = escaped(text, start) else {
            // Another escape: a backslash and one character.
            at = (start + 2).min(text.len());
            continue;
        };
        at = start + ESCAPE_BYTES;
        match code {
            0xD800..0xDC00 if escaped(text, at).is_some_and(|next| (0xDC00..0xE000).contains(&next)) => {
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

/// The number of the escape `\uXXXX` that begins here.
fn escaped(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix(r"\u")?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

fn parse_exactly(text: &str, duplicates: &Duplicates) -> Result<Value, String> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let room = Room::new(MEMORY_MAX);
    let build = Build { path: &Path::Root, duplicates, room: &room };
    let value = build.deserialize(&mut parser).map_err(|error| complaint(text, &error))?;
    match trailing(text, &parser.end()) {
        None => Ok(value),
        Some(found) => Err(format!("invalid character {} after top-level value", quoted(found))),
    }
}

fn trailing(text: &str, end: &Result<(), serde_json::Error>) -> Option<char> {
    let error = end.as_ref().err()?;
    Some(at(text, error).unwrap_or_default())
}

fn complaint(text: &str, error: &serde_json::Error) -> String {
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
    let Some(found) = at(text, error) else { return message };
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
        "expected ident" => return literal(text, error, found).unwrap_or(message),
        _ => return message,
    };
    format!("invalid character {} {place}", quoted(found))
}

/// A word that begins like `null`, `true` or `false` and goes on otherwise.
fn literal(text: &str, error: &serde_json::Error, found: char) -> Option<String> {
    let before = text.get(..offset(text, error)?)?;
    ["null", "true", "false"].into_iter().find_map(|word| {
        let read = (1..word.len()).rev().find(|read| before.ends_with(&word[..*read]))?;
        let next = word[read..].chars().next()?;
        let (found, next) = (quoted(found), quoted(next));
        Some(format!("invalid character {found} in literal {word} (expecting {next})"))
    })
}

/// The character the parser stopped at.
fn at(text: &str, error: &serde_json::Error) -> Option<char> {
    text.get(offset(text, error)?..)?.chars().next()
}

/// Where that is. A line break that makes no sense is reported as the start of the next line.
fn offset(text: &str, error: &serde_json::Error) -> Option<usize> {
    let lines = text.split_inclusive('\n').take(error.line().checked_sub(1)?);
    let start = lines.map(str::len).sum::<usize>();
    (start + error.column()).checked_sub(1)
}

fn quoted(found: char) -> String {
    format!("{found:?}")
}
