//! Parses paths into JSON documents: `a.b[0]`, `a[*].b`, `a["dotted.key"]`, `a[name=x].c`.
//!
//! Scenario files use them to capture, ignore and pick values. A malformed path is a mistake in a scenario, so it
//! panics.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

static SEGMENT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"^(?:\.?([^.\[\]]+)|\[\*\]|\[(-?\d+)\]|\["([^"]*)"\]|\[([^\]=]+)=([^\]]*)\])"#;
    Regex::new(pattern).unwrap()
});

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Segment {
    Key(String),
    Index(i64),
    /// Every element of a list or every value of an object.
    All,
    /// The elements of a list whose value at the path is this text.
    Where(Vec<Segment>, String),
}

pub(crate) fn parse_path(text: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let found =
            SEGMENT.captures(rest).unwrap_or_else(|| panic!("the path {text} is malformed at {rest}"));
        let group = |at: usize| found.get(at).map(|part| part.as_str());
        segments.push(match (group(1).or(group(3)), group(2), group(4)) {
            (Some(key), ..) => Segment::Key(key.to_owned()),
            (_, Some(index), _) => Segment::Index(index.parse().unwrap()),
            (.., Some(path)) => Segment::Where(parse_path(path), group(5).unwrap_or_default().to_owned()),
            _ => Segment::All,
        });
        rest = &rest[found[0].len()..];
    }
    segments
}

/// Returns the first value at the path.
pub(crate) fn get<'a>(node: &'a Value, path: &str) -> Option<&'a Value> {
    find(node, &parse_path(path)).into_iter().next()
}

/// Returns all values at the path, in order.
pub(crate) fn find<'a>(node: &'a Value, path: &[Segment]) -> Vec<&'a Value> {
    let Some((first, rest)) = path.split_first() else { return vec![node] };
    match node {
        Value::Object(map) => match first {
            Segment::Key(key) => map.get(key).map(|value| find(value, rest)).unwrap_or_default(),
            Segment::All => map.values().flat_map(|value| find(value, rest)).collect(),
            _ => Vec::new(),
        },
        Value::Array(list) => {
            selected(list, first).into_iter().flat_map(|index| find(&list[index], rest)).collect()
        }
        _ => Vec::new(),
    }
}

/// Removes all values at the path.
pub(crate) fn remove(node: &mut Value, path: &[Segment]) {
    let Some((first, rest)) = path.split_first() else { return };
    match node {
        Value::Object(map) => {
            let keys: Vec<String> = match first {
                Segment::Key(key) => map.contains_key(key).then(|| key.clone()).into_iter().collect(),
                Segment::All => map.keys().cloned().collect(),
                _ => Vec::new(),
            };
            for key in keys {
                if rest.is_empty() {
                    map.remove(&key);
                } else {
                    remove(&mut map[&key], rest);
                }
            }
        }
        Value::Array(list) => {
            for index in selected(list, first).into_iter().rev() {
                if rest.is_empty() {
                    list.remove(index);
                } else {
                    remove(&mut list[index], rest);
                }
            }
        }
        _ => {}
    }
}

/// Returns the indices of a list that one segment selects.
fn selected(list: &[Value], segment: &Segment) -> Vec<usize> {
    match segment {
        Segment::Key(_) => Vec::new(),
        Segment::All => (0..list.len()).collect(),
        Segment::Index(index) => {
            let length = i64::try_from(list.len()).unwrap();
            let index = if *index < 0 { *index + length } else { *index };
            usize::try_from(index).ok().filter(|index| *index < list.len()).into_iter().collect()
        }
        Segment::Where(path, text) => {
            let is_meant = |item: &Value| find(item, path).first().is_some_and(|value| plain(value) == *text);
            (0..list.len()).filter(|index| is_meant(&list[*index])).collect()
        }
    }
}

/// Returns a text as it is and anything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &Value) {
        let document = json!({"a": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "b": {"c.d": 3, "e": 4}});
        let found: Vec<Value> = find(&document, &parse_path(path)).into_iter().cloned().collect();
        assert_eq!(Value::from(found), *expected, "{path}");
    }

    #[test]
    fn paths_find_what_they_name() {
        check("a[0].v", &json!([1]));
        check("a[-1].v", &json!([2]));
        check("a[2].v", &json!([]));
        check("a[*].name", &json!(["x", "y"]));
        check("a[name=y].v", &json!([2]));
        check("a[v=1].name", &json!(["x"]));
        check(r#"b["c.d"]"#, &json!([3]));
        check("b[*]", &json!([3, 4]));
        check("a.name", &json!([]));
    }

    #[test]
    fn paths_remove_what_they_name() {
        let mut document = json!({"a": [{"v": 1, "w": 2}, {"v": 3}], "b": 1});
        remove(&mut document, &parse_path("a[*].v"));
        remove(&mut document, &parse_path("a[1]"));
        remove(&mut document, &parse_path("b.c"));
        assert_eq!(document, json!({"a": [{"w": 2}], "b": 1}));
    }
}
