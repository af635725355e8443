//! Returns warnings about a definition that requires formats which nothing checks.

use std::collections::HashSet;

use serde_json::Value;

use super::structural;
use crate::object::read::list_at;
use crate::schema::formats::FormatCheck;

/// Returns warnings for a new definition, or for the parts that an update adds to `old`.
pub fn definition_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut seen = old.map(unknown_formats).unwrap_or_default().into_iter().collect::<HashSet<_>>();
    let mut found = unknown_formats(new);
    found.retain(|format| seen.insert(*format));
    found.iter().map(|format| format!("unrecognized format {format:?}")).collect()
}

fn unknown_formats(definition: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for version in list_at(&definition["spec"], "versions") {
        gather(&version["schema"]["openAPIV3Schema"], &mut found);
    }
    found
}

fn gather<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    if let Some(format) = schema["format"].as_str().filter(|format| !format.is_empty()) {
        let known = match schema["type"].as_str() {
            None | Some("" | "string") => FormatCheck::of_text(format),
            Some("integer") => FormatCheck::of_integer(format),
            Some("number") => FormatCheck::of_number(format),
            Some(_) => None,
        };
        if known.is_none() {
            found.push(format);
        }
    }
    for below in structural::below(schema) {
        gather(below, found);
    }
}
