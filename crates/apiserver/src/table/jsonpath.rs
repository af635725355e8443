//! The JSONPath dialect of printer columns: fields, indexes, slices, wildcards, filters and recursive descent.
//!
//! **Invariant:** evaluation never fails loudly; what kubectl's evaluator calls an error is no result here, which
//! prints the same. Ranges, unions and text outside of paths are not part of columns and not parsed.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(Box<str>),
    Slice { start: Option<i64>, end: Option<i64>, step: usize },
    Index(i64),
    Wildcard,
    Recursive,
    Filter { left: Path, test: Option<(Comparison, Operand)> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    Path(Path),
}

/// In the order they must be looked for: longer ones first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Path {
    /// Parses a path as `.spec.list[0].name`; `None`: not a path of this dialect.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').or_else(|| rest.strip_prefix('@')).unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = step(rest, &mut steps)?;
        }
        Some(Self(steps))
    }

    /// All values the path leads to.
    pub(super) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }

    /// The first value the path leads to. The common path of fields only allocates nothing.
    pub(super) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut current = value;
        for step in &self.0 {
            let Step::Field(name) = step else { return self.find(value).into_iter().next() };
            current = current.get(&**name)?;
        }
        Some(current)
    }
}

/// Parses one step and gives back the rest.
fn step<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix("..") {
        steps.push(Step::Recursive);
        return if rest.starts_with('[') { Some(rest) } else { field(rest, steps) };
    }
    if let Some(rest) = text.strip_prefix('.') {
        return if rest.starts_with('[') || rest.is_empty() { Some(rest) } else { field(rest, steps) };
    }
    let inside = text.strip_prefix('[')?;
    let end = closing_bracket(inside)?;
    steps.push(bracket(inside[..end].trim())?);
    Some(&inside[end + 1..])
}

/// Parses a name; a backslash takes the next character as it is.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
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
        "*" => Step::Wildcard,
        _ => Step::Field(name.into()),
    };
    steps.push(step);
    Some(&text[end..])
}

/// Where the bracket that was opened closes: quotes and inner brackets are skipped.
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

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::Wildcard);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return parse_filter(filter);
    }
    if let Some(name) = quoted(text) {
        return Some(Step::Field(name.into()));
    }
    if !text.contains(':') {
        return text.parse().ok().map(Step::Index);
    }
    let mut bounds = text.splitn(3, ':').map(str::trim);
    let bound = |text: Option<&str>| match text {
        None | Some("") => Some(None),
        Some(number) => number.parse().ok().map(Some),
    };
    let (start, end, step) = (bound(bounds.next())?, bound(bounds.next())?, bound(bounds.next())?);
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    Some(Step::Slice { start, end, step })
}

fn quoted(text: &str) -> Option<&str> {
    let strip = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    strip('\'').or_else(|| strip('"'))
}

fn parse_filter(text: &str) -> Option<Step> {
    let Some((at, sign, comparison)) = find_comparison(text) else {
        return Some(Step::Filter { left: Path::parse(text)?, test: None });
    };
    let right = text[at + sign.len()..].trim();
    let operand = match quoted(right) {
        Some(text) => Operand::Literal(text.into()),
        None if right.starts_with('@') => Operand::Path(Path::parse(right)?),
        None => Operand::Literal(serde_json::from_str(right).ok()?),
    };
    Some(Step::Filter { left: Path::parse(&text[..at])?, test: Some((comparison, operand)) })
}

fn find_comparison(text: &str) -> Option<(usize, &'static str, Comparison)> {
    let found = COMPARISONS.iter().filter_map(|(sign, kind)| text.find(sign).map(|at| (at, *sign, *kind)));
    found.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(&**name).into_iter().collect(),
            Self::Index(index) => value.as_array().and_then(|list| nth(list, *index)).into_iter().collect(),
            Self::Slice { start, end, step } => value
                .as_array()
                .map_or_else(Vec::new, |list| slice(list, *start, *end).iter().step_by(*step).collect()),
            Self::Wildcard => children(value),
            Self::Recursive => descend(value),
            Self::Filter { left, test } => value.as_array().map_or_else(Vec::new, |list| {
                list.iter().filter(|item| passes(item, left, test.as_ref())).collect()
            }),
        }
    }
}

/// Negative numbers count from the end.
fn from_end(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn nth(list: &[Value], index: i64) -> Option<&Value> {
    list.get(from_end(index, list.len())?)
}

fn slice(list: &[Value], start: Option<i64>, end: Option<i64>) -> &[Value] {
    let start = from_end(start.unwrap_or(0), list.len());
    let end = end.map_or(Some(list.len()), |end| from_end(end, list.len()));
    start.zip(end).and_then(|(start, end)| list.get(start..end)).unwrap_or_default()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// The value and everything below it that has something below it.
fn descend(value: &Value) -> Vec<&Value> {
    let below = children(value);
    if below.is_empty() {
        return below;
    }
    std::iter::once(value).chain(below.into_iter().flat_map(descend)).collect()
}

fn passes(item: &Value, left: &Path, test: Option<&(Comparison, Operand)>) -> bool {
    let left = left.find(item);
    let Some((comparison, operand)) = test else { return !left.is_empty() };
    let right = match operand {
        Operand::Literal(value) => Some(value),
        Operand::Path(path) => path.first(item),
    };
    let ([left], Some(right)) = (&*left, right) else { return false };
    let order = compare(left, right);
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order.is_some_and(Ordering::is_ne),
        Comparison::Less => order.is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order.is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

/// Values of different types do not compare.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &[Value]) {
        let object = json!({
            "spec": {"l": ["x", "y", "z"], "n": 5, "a.b": "dotted", "m": {"p": 1, "q": 2}},
            "status": {"conditions": [
                {"type": "Other", "status": "x", "n": 1},
                {"type": "Ready", "status": "True", "n": 2}]}});
        let found: Vec<_> = Path::parse(path).expect("parses").find(&object).into_iter().cloned().collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_lead_where_kubectl_says() {
        check(".spec.n", &[json!(5)]);
        check("$.spec.n", &[json!(5)]);
        check(".spec.nope.deeper", &[]);
        check(".spec.l[0]", &[json!("x")]);
        check(".spec.l[-1]", &[json!("z")]);
        check(".spec.l[7]", &[]);
        check(".spec.l[*]", &[json!("x"), json!("y"), json!("z")]);
        check(".spec.l[1:]", &[json!("y"), json!("z")]);
        check(".spec.l[0:3:2]", &[json!("x"), json!("z")]);
        check(r".spec.a\.b", &[json!("dotted")]);
        check(".spec['a.b']", &[json!("dotted")]);
        check(".spec.m.*", &[json!(1), json!(2)]);
        check("..p", &[json!(1)]);
        check(r#".status.conditions[?(@.type=="Ready")].status"#, &[json!("True")]);
        check(".status.conditions[?(@.type=='Ready')].status", &[json!("True")]);
        check(".status.conditions[?(@.type!='Ready')].status", &[json!("x")]);
        check(".status.conditions[?(@.n>=2)].type", &[json!("Ready")]);
        check(".status.conditions[?(@.n)].n", &[json!(1), json!(2)]);
        check(".spec.n[0]", &[]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [".a[", ".a[x]", "a b", "..", ".a[?(@.x==)]", ".{a}"] {
            assert_eq!(Path::parse(text), None, "{text}");
        }
    }
}
