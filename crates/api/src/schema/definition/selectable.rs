//! Validates the selectable fields of a definition, and the paths that rules refer to: simple paths that must lead to a
//! declared field.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{Error, Errors, FieldPath};
use crate::object::read::string_at;

/// The maximum number of fields that Kubernetes indexes per version.
const FIELDS_MAX: usize = 8;

pub(super) fn validate(fields: &[Value], schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = path.index(index);
        let at = at.field("jsonPath");
        let json_path = string_at(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let shown = Value::from(json_path);
        let found = match find(schema, json_path, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(Error::invalid(&at, &shown, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if json_path.starts_with(".metadata.") {
            errors.push(Error::invalid(&at, &shown, "must not point to fields in metadata"));
        }
        if !matches!(string_at(found, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(&at, &shown, detail));
        }
        if !seen.insert(json_path) {
            errors.push(Error::duplicate(&at, &shown));
        }
    }
    if seen.len() > FIELDS_MAX {
        errors.push(Error::too_many(path, seen.len(), FIELDS_MAX));
    }
}

/// Returns the schema that a path like `.spec.color` or `.spec['a.b']` leads to.
pub(super) fn find<'a>(schema: &'a Value, path: &str, allow_brackets: bool) -> Result<&'a Value, String> {
    let mut rest = path;
    let mut found = schema;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return Err("unexpected end of JSON path".into());
            }
            (after[..end].to_owned(), &after[end..])
        } else if let Some(after) = rest.strip_prefix('[') {
            if !allow_brackets {
                return Err("array notation is not allowed".into());
            }
            quoted(after)?
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        };
        found = step(found, &name)?;
        rest = after;
    }
    Ok(found)
}

/// Returns the name in `'name']`, and the rest of the text.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let inner = text.strip_prefix('\'').ok_or("expected single quoted string")?;
    let mut name = String::new();
    let mut letters = inner.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            '\'' => {
                let after = inner[at + 1..].strip_prefix(']').ok_or("expected ]")?;
                return Ok((name, after));
            }
            other => name.push(other),
        }
    }
    Err("unexpected end of JSON path".into())
}

fn step<'a>(schema: &'a Value, name: &str) -> Result<&'a Value, String> {
    let found = match &schema["properties"] {
        Value::Object(properties) => properties.get(name),
        _ => Some(&schema["additionalProperties"]).filter(|additional| additional.is_object()),
    };
    found.ok_or_else(|| "does not refer to a valid field".into())
}
