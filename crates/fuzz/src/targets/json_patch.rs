//! JSON patches: the result equals that of a simple implementation, which copies the document for every operation.
//!
//! Input: `{"object": any, "patch": [operations]}`.

use homeostat_api::object::depth::{DEPTH_MAX, is_deeper};
use homeostat_api::patch::json::JsonPatch;
use serde_json::{Value, json};

use super::merge_patch::{seeds_of, shape};
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require, require_equal};

pub(crate) struct JsonPatches;

impl Target for JsonPatches {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let mut seeds = seeds_of(corpus, &corpus.json_patches);
        let object = json!({"a": {"b": [1, {"c": "d"}, 3]}, "e": "f", "~/": null});
        for operation in [
            json!({"op": "add", "path": "/a/b/-", "value": {"x": [1]}}),
            json!({"op": "remove", "path": "/a/b/-1"}),
            json!({"op": "replace", "path": "/a/b/1/c", "value": null}),
            json!({"op": "move", "from": "/a/b", "path": "/e"}),
            json!({"op": "copy", "from": "/a", "path": "/a/b/0"}),
            json!({"op": "test", "path": "/~0~1", "value": null}),
            json!({"op": "replace", "path": "", "value": {}}),
        ] {
            seeds.push(json!({"object": object, "patch": [operation]}));
        }
        seeds
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "add",
            "remove",
            "replace",
            "move",
            "copy",
            "test",
            "op",
            "path",
            "from",
            "value",
            "/a",
            "/a/b",
            "/a/b/0",
            "/a/b/-",
            "/a/b/-1",
            "/metadata/labels",
            "/e",
            "/",
            "",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let (object, patch) = (&input["object"], &input["patch"]);
        let parsed = match JsonPatch::parse(patch.clone()) {
            Ok(parsed) => parsed,
            Err(status) => return Ok(vec![status.message]),
        };
        let mut patched = object.clone();
        let found = parsed.apply(&mut patched).map(|()| patched);
        let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
        let expected = operations.iter().try_fold(object.clone(), perform);
        let verbs: Vec<_> =
            operations.iter().take(3).map(|one| one["op"].to_string().replace('"', "")).collect();
        let feature = format!("{} {} {}", verbs.join(" "), found.is_ok(), shape(object, 3));
        match (found, expected) {
            (Ok(found), Some(expected)) => require_equal("a JSON patch", &found, &expected)?,
            (Ok(found), None) => return Err(format!("a JSON patch that cannot be performed: {found}")),
            // Only our implementation has limits.
            (Err(_), Some(expected)) => {
                require(is_beyond_limits(object, &expected, operations), || {
                    format!("a possible JSON patch: {expected}")
                })?;
            }
            (Err(_), None) => {}
        }
        Ok(vec![feature])
    }
}

/// Returns whether a limit explains a refusal: the depth of values and paths, or the size of the result.
fn is_beyond_limits(object: &Value, result: &Value, operations: &[Value]) -> bool {
    let slashes = |operation: &Value| operation["path"].as_str().unwrap_or_default().matches('/').count();
    let values: usize = operations.iter().map(|one| one["value"].to_string().len()).sum();
    is_deeper(result, DEPTH_MAX / 4)
        || is_deeper(object, DEPTH_MAX / 4)
        || operations
            .iter()
            .any(|one| slashes(one) > DEPTH_MAX / 4 || is_deeper(&one["value"], DEPTH_MAX / 4))
        || result.to_string().len() > object.to_string().len() + values + (1 << 20)
}

/// Performs one operation on a copy; `None` if it is not possible.
fn perform(document: Value, operation: &Value) -> Option<Value> {
    let path = operation["path"].as_str()?;
    let value = operation["value"].clone();
    let from = || operation["from"].as_str().and_then(segments);
    match operation["op"].as_str()? {
        "replace" if path.is_empty() => (value.is_object() || value.is_array()).then_some(value),
        "test" if path.is_empty() => (document == value).then_some(document),
        "add" => put(document, &segments(path)?, value, true),
        "replace" => put(document, &segments(path)?, value, false),
        "remove" => take(document, &segments(path)?).map(|(rest, _)| rest),
        "test" => (look(&document, &segments(path)?)? == value).then_some(document),
        "move" => {
            let (rest, moved) = take(document, &from()?)?;
            put(rest, &segments(path)?, moved, true)
        }
        "copy" => {
            let copied = look(&document, &from()?)?;
            put(document, &segments(path)?, copied, true)
        }
        _ => None,
    }
}

/// Splits a pointer; anything before the first slash is ignored.
fn segments(pointer: &str) -> Option<Vec<String>> {
    let mut parts = pointer.split('/');
    parts.next()?;
    // Escaped tildes become a marker first, a character that no input contains.
    let unescaped =
        |part: &str| part.replace("~0", "\u{10ffff}").replace("~1", "/").replace('\u{10ffff}', "~");
    let parts: Vec<_> = parts.map(unescaped).collect();
    (!parts.is_empty()).then_some(parts)
}

/// Returns the position that a segment names among `count` positions, counted from the end if negative.
fn position(segment: &str, count: usize) -> Option<usize> {
    let number: i64 = segment.parse().ok()?;
    let count = i64::try_from(count).ok()?;
    let at = if number < 0 { count.checked_add(number)? } else { number };
    (0..count).contains(&at).then(|| usize::try_from(at).ok()).flatten()
}

/// Returns the value at a path; an absent last key is null.
fn look(document: &Value, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let child = match document {
        Value::Object(fields) if rest.is_empty() => {
            return Some(fields.get(first).cloned().unwrap_or_default());
        }
        Value::Object(fields) => fields.get(first)?,
        Value::Array(items) => items.get(position(first, items.len())?)?,
        _ => return None,
    };
    if rest.is_empty() { Some(child.clone()) } else { look(child, rest) }
}

fn put(document: Value, path: &[String], value: Value, is_inserted: bool) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    match document {
        Value::Object(mut fields) => {
            let new = if rest.is_empty() {
                value
            } else {
                put(fields.get(first)?.clone(), rest, value, is_inserted)?
            };
            fields.insert(first.clone(), new);
            Some(Value::Object(fields))
        }
        Value::Array(mut items) => {
            match (rest.is_empty(), is_inserted) {
                (true, true) if first == "-" => items.push(value),
                (true, true) => items.insert(position(first, items.len() + 1)?, value),
                (true, false) => {
                    let at = position(first, items.len())?;
                    items[at] = value;
                }
                (false, _) => {
                    let at = position(first, items.len())?;
                    items[at] = put(items[at].clone(), rest, value, is_inserted)?;
                }
            }
            Some(Value::Array(items))
        }
        _ => None,
    }
}

fn take(document: Value, path: &[String]) -> Option<(Value, Value)> {
    let (first, rest) = path.split_first()?;
    match document {
        Value::Object(mut fields) => {
            let child = fields.remove(first)?;
            if rest.is_empty() {
                return Some((Value::Object(fields), child));
            }
            let (left, taken) = take(child, rest)?;
            fields.insert(first.clone(), left);
            Some((Value::Object(fields), taken))
        }
        Value::Array(mut items) => {
            let at = position(first, items.len())?;
            if rest.is_empty() {
                let taken = items.remove(at);
                return Some((Value::Array(items), taken));
            }
            let (left, taken) = take(items[at].take(), rest)?;
            items[at] = left;
            Some((Value::Array(items), taken))
        }
        _ => None,
    }
}
