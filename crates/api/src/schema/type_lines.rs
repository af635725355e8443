//! Reads the schemas of built-in types from data files (`facts/schemas.txt`, `facts/descriptions.zz`), so that a
//! program does not need the schema code of the typed API crate.
//!
//! There is one line per type, sorted by full name: the name, its kind (`group/version/kind`, or `-` for a type that
//! only occurs in others), and its JSON schema. A description is a number there: the line of `descriptions.zz` that has
//! the text. The test `built_in_schemas` builds both files from the typed API crate and fails if they differ from the
//! committed ones.

use std::sync::LazyLock;

use serde_json::{Map, Value};

const SCHEMAS: &str = include_str!("../../facts/schemas.txt");
const DESCRIPTIONS: &[u8] = include_bytes!("../../facts/descriptions.zz");

/// Larger than the descriptions, so that a damaged file is rejected instead of filling the memory.
const DESCRIPTIONS_BYTES_MAX: usize = 8 << 20;

/// A built-in type.
pub(super) struct BuiltInType {
    /// Full name: `io.k8s.api.apps.v1.Deployment`.
    pub(super) name: &'static str,
    /// Group, version and kind, if the type occurs on its own as a request or response body.
    pub(super) kind: Option<(&'static str, &'static str, &'static str)>,
    json: &'static str,
}

static LINES: LazyLock<Vec<BuiltInType>> =
    LazyLock::new(|| SCHEMAS.lines().map(BuiltInType::parse).collect());

impl BuiltInType {
    fn parse(line: &'static str) -> Self {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("the test that makes the file writes three words to a line");
        let (name, kind, json) = (word(), word(), word());
        Self { name, kind: parse_kind(kind), json }
    }

    /// Returns the schema, with numbers in place of descriptions.
    fn schema(&self) -> Value {
        serde_json::from_str(self.json).expect("the test that makes the file writes JSON")
    }
}

fn parse_kind(text: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let (group, rest) = text.split_once('/')?;
    let (version, kind) = rest.split_once('/')?;
    Some((group, version, kind))
}

/// Returns all types, by name.
pub(super) fn types() -> &'static [BuiltInType] {
    &LINES
}

/// Returns the position of a type among [`types`].
pub(super) fn position_of_type(name: &str) -> Option<usize> {
    LINES.binary_search_by_key(&name, |line| line.name).ok()
}

/// Returns the position of a kind's type among [`types`].
pub(super) fn position_of_kind(group: &str, version: &str, kind: &str) -> Option<usize> {
    LINES.iter().position(|line| line.kind == Some((group, version, kind)))
}

/// Returns the schemas of these types and of all types they refer to, by full name, without descriptions.
pub(super) fn closure(positions: impl IntoIterator<Item = usize>) -> Map<String, Value> {
    let mut found = Map::new();
    let mut open: Vec<&'static str> = positions.into_iter().map(|at| LINES[at].name).collect();
    while let Some(name) = open.pop() {
        if found.contains_key(name) {
            continue;
        }
        let at = position_of_type(name)
            .expect("the test that makes the file writes every type that is referred to");
        let schema = LINES[at].schema();
        collect_references(&schema, &mut open);
        found.insert(name.to_owned(), schema);
    }
    found
}

/// Returns the schemas of these types and of all types they refer to, by full name, with descriptions.
pub(super) fn described_closure(positions: impl IntoIterator<Item = usize>) -> Map<String, Value> {
    let mut found = closure(positions);
    let texts = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(DESCRIPTIONS, DESCRIPTIONS_BYTES_MAX)
        .expect("the test that makes the file compresses it");
    let texts: Vec<&[u8]> = texts.split(|byte| *byte == b'\n').collect();
    found.values_mut().for_each(|schema| describe(schema, &texts));
    found
}

/// Replaces the numbers of descriptions with their text. A property may also be called `description`, but its value is
/// not a number.
fn describe(schema: &mut Value, texts: &[&[u8]]) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                let line = value.as_u64().and_then(|line| usize::try_from(line).ok());
                match line.filter(|_| name == "description").and_then(|line| texts.get(line)) {
                    Some(text) => {
                        *value = serde_json::from_slice(text).expect("each line is a JSON string");
                    }
                    None => describe(value, texts),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| describe(item, texts)),
        _ => {}
    }
}

fn collect_references(schema: &Value, open: &mut Vec<&'static str>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| name == "$ref") {
                    Some(reference) => open.extend(referred_type(reference)),
                    None => collect_references(value, open),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, open)),
        _ => {}
    }
}

/// Returns the type's name from the file, so that nothing is copied.
fn referred_type(reference: &str) -> Option<&'static str> {
    let name = reference.rsplit('/').next()?;
    position_of_type(name).map(|at| LINES[at].name)
}
