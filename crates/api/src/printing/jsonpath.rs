//! Parses the JSONPath dialect of printer columns: fields, indexes, slices, wildcards, filters and recursive descent.
//!
//! **Invariant:** for any text, parsing takes time and stack proportional to [`STEPS_MAX`] and [`FILTER_DEPTH_MAX`].
//! Ranges, unions and text outside paths do not occur in columns and are not parsed. `evaluate` evaluates the paths.

use serde_json::Value;

use crate::object::depth::DEPTH_MAX;

/// The maximum number of steps of a path. At least one of two consecutive steps leads a level deeper, so a longer path
/// leads nowhere in any object that can be stored.
const STEPS_MAX: usize = 2 * DEPTH_MAX;
/// The maximum nesting of filters. People nest filters one level deep; each level is parsed and evaluated by recursion.
const FILTER_DEPTH_MAX: usize = 8;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(pub(super) Vec<PathStep>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Field(Box<str>),
    Slice { start: Option<i64>, end: Option<i64>, step: usize },
    Index(i64),
    Wildcard,
    Recursive,
    Filter { left: JsonPath, test: Option<(FilterComparison, FilterOperand)> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FilterComparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilterOperand {
    Literal(Value),
    Path(JsonPath),
}

/// The comparisons in the order they are tried, longer ones first.
const COMPARISONS: [(&str, FilterComparison); 6] = [
    ("==", FilterComparison::Equal),
    ("!=", FilterComparison::NotEqual),
    ("<=", FilterComparison::LessOrEqual),
    (">=", FilterComparison::GreaterOrEqual),
    ("<", FilterComparison::Less),
    (">", FilterComparison::Greater),
];

impl JsonPath {
    /// Parses a path such as `.spec.list[0].name`. Returns `None` if it is not a path in this dialect, or leads
    /// nowhere.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::parse_inside(text, 0)
    }

    /// Parses a path inside `depth` filters.
    fn parse_inside(text: &str, depth: usize) -> Option<Self> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').or_else(|| rest.strip_prefix('@')).unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = step(rest, &mut steps, depth)?;
            if steps.len() > STEPS_MAX {
                return None;
            }
        }
        Some(Self(steps))
    }
}

/// Parses one step and returns the rest of the text.
fn step<'a>(text: &'a str, steps: &mut Vec<PathStep>, depth: usize) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix("..") {
        steps.push(PathStep::Recursive);
        return if rest.starts_with('[') { Some(rest) } else { field(rest, steps) };
    }
    if let Some(rest) = text.strip_prefix('.') {
        return if rest.starts_with('[') || rest.is_empty() { Some(rest) } else { field(rest, steps) };
    }
    let inside = text.strip_prefix('[')?;
    let end = closing_bracket(inside)?;
    steps.push(bracket(inside[..end].trim(), depth)?);
    Some(&inside[end + 1..])
}

/// Parses a name; a backslash escapes the next character.
fn field<'a>(text: &'a str, steps: &mut Vec<PathStep>) -> Option<&'a str> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            ' ' | '{' | '}' | '(' | ')' | ']' | '|' => return None,
            _ => name.push(character),
        }
    }
    let step = match &*name {
        "" => return None,
        "*" => PathStep::Wildcard,
        _ => PathStep::Field(name.into()),
    };
    steps.push(step);
    Some(&text[end..])
}

/// Returns the position of the bracket that closes the open one; quotes and inner brackets are skipped.
fn closing_bracket(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'[') => depth += 1,
            (None, b']') if depth == 0 => return Some(at),
            (None, b']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str, depth: usize) -> Option<PathStep> {
    if text == "*" {
        return Some(PathStep::Wildcard);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return (depth < FILTER_DEPTH_MAX).then(|| parse_filter(filter, depth + 1)).flatten();
    }
    if let Some(name) = quoted(text) {
        return Some(PathStep::Field(name.into()));
    }
    if !text.contains(':') {
        return text.parse().ok().map(PathStep::Index);
    }
    let mut bounds = text.splitn(3, ':').map(str::trim);
    let bound = |text: Option<&str>| match text {
        None | Some("") => Some(None),
        Some(number) => number.parse().ok().map(Some),
    };
    let (start, end, step) = (bound(bounds.next())?, bound(bounds.next())?, bound(bounds.next())?);
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    Some(PathStep::Slice { start, end, step })
}

fn quoted(text: &str) -> Option<&str> {
    let strip = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    strip('\'').or_else(|| strip('"'))
}

/// Parses the content of a filter that is itself `depth` filters deep.
fn parse_filter(text: &str, depth: usize) -> Option<PathStep> {
    let Some((at, sign, comparison)) = find_comparison(text) else {
        return Some(PathStep::Filter { left: JsonPath::parse_inside(text, depth)?, test: None });
    };
    let right = text[at + sign.len()..].trim();
    let operand = match quoted(right) {
        Some(text) => FilterOperand::Literal(text.into()),
        None if right.starts_with('@') => FilterOperand::Path(JsonPath::parse_inside(right, depth)?),
        None => FilterOperand::Literal(serde_json::from_str(right).ok()?),
    };
    Some(PathStep::Filter {
        left: JsonPath::parse_inside(&text[..at], depth)?,
        test: Some((comparison, operand)),
    })
}

fn find_comparison(text: &str) -> Option<(usize, &'static str, FilterComparison)> {
    let found = COMPARISONS.iter().filter_map(|(sign, kind)| text.find(sign).map(|at| (at, *sign, *kind)));
    found.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [".a[", ".a[x]", "a b", "..", ".a[?(@.x==)]", ".{a}"] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }

    #[test]
    fn paths_longer_than_any_object_is_deep_are_refused() {
        let path = |steps: usize| format!(".l{}", "[0]".repeat(steps));
        assert!(JsonPath::parse(&path(STEPS_MAX - 1)).is_some());
        assert_eq!(JsonPath::parse(&path(200_000)), None);
    }

    /// Each level is a nested call: a definition could contain enough of them to overflow the stack.
    #[test]
    fn filters_inside_filters_are_refused_beyond_a_depth() {
        let path = |depth: usize| format!(".l{}{}", "[?(@".repeat(depth), ")]".repeat(depth));
        assert!(JsonPath::parse(&path(FILTER_DEPTH_MAX)).is_some());
        assert_eq!(JsonPath::parse(&path(FILTER_DEPTH_MAX + 1)), None);
        assert_eq!(JsonPath::parse(&path(200_000)), None);
    }
}
