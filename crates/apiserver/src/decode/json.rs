//! JSON bodies. The parser is serde_json (it refuses more than 128 levels); only its complaints are turned into the
//! ones Go gives, which people know.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::error::Category;

use super::build::{Build, Duplicates};
use crate::field::Path;

pub(super) fn parse(text: &str, duplicates: &Duplicates) -> Result<Value, String> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let build = Build { path: &Path::Root, duplicates };
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
    if message.starts_with("recursion limit exceeded") {
        return "exceeded max depth".into();
    }
    match at(text, error) {
        Some(found) if message.starts_with("key must be a string") => {
            format!("invalid character {} looking for beginning of object key string", quoted(found))
        }
        Some(found) if message.starts_with("expected value") => {
            format!("invalid character {} looking for beginning of value", quoted(found))
        }
        Some(found) => format!("invalid character {} in literal ({message})", quoted(found)),
        None => message,
    }
}

/// The character the parser stopped at.
fn at(text: &str, error: &serde_json::Error) -> Option<char> {
    let line = text.split('\n').nth(error.line().checked_sub(1)?)?;
    line.get(error.column().checked_sub(1)?..)?.chars().next()
}

fn quoted(found: char) -> String {
    format!("{found:?}")
}
