//! Finds the bounds of values in the text of a JSON document without decoding them: where a field is, and where a value
//! ends.
//!
//! It assumes that the text is JSON and checks only quotes, brackets and commas. If it is not JSON, the decoder refuses
//! it afterwards; this code never panics and always terminates.

use std::ops::Range;

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScannedField {
    /// Its name, with the quotes.
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
}

/// Returns the fields of the object that begins at `start`; empty if there is no object.
pub(super) fn fields(text: &str, start: usize) -> impl Iterator<Item = ScannedField> {
    let text = text.as_bytes();
    let mut next = entry(text, start, b'{');
    std::iter::from_fn(move || {
        let name = next?..end_of_string(text, next?)?;
        let colon = skip_space(text, name.end);
        let start = skip_space(text, colon + usize::from(text.get(colon) == Some(&b':')));
        let value = start..end_of_value(text, start)?;
        next = following(text, value.end);
        Some(ScannedField { name, value })
    })
}

/// Returns the items of the list that begins at `start`; empty if there is no list.
pub(super) fn items(text: &str, start: usize) -> impl Iterator<Item = Range<usize>> {
    let text = text.as_bytes();
    let mut next = entry(text, start, b'[');
    std::iter::from_fn(move || {
        let item = next?..end_of_value(text, next?)?;
        next = following(text, item.end);
        Some(item)
    })
}

/// Returns where the first value of the document begins.
pub(super) fn first(text: &str) -> usize {
    skip_space(text.as_bytes(), 0)
}

/// Returns where the first entry of an object or list begins.
fn entry(text: &[u8], start: usize, bracket: u8) -> Option<usize> {
    (text.get(start) == Some(&bracket)).then(|| skip_space(text, start + 1)).filter(|at| !is_end(text, *at))
}

/// Returns where the entry after this one begins.
fn following(text: &[u8], end: usize) -> Option<usize> {
    let comma = skip_space(text, end);
    (text.get(comma) == Some(&b',')).then(|| skip_space(text, comma + 1))
}

fn is_end(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), None | Some(b'}' | b']'))
}

pub(super) fn skip_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Returns the end of the string whose quote is at `start`.
fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + usize::from(text.get(start) == Some(&b'"'));
    if at == start {
        return None;
    }
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Returns the end of the value that begins at `start`.
fn end_of_value(text: &[u8], start: usize) -> Option<usize> {
    match text.get(start)? {
        b'"' => end_of_string(text, start),
        b'{' | b'[' => end_of_brackets(text, start),
        _ => {
            let rest = text[start..].iter();
            let is_plain = |byte: &&u8| !matches!(byte, b',' | b'}' | b']') && !byte.is_ascii_whitespace();
            Some(start + rest.take_while(is_plain).count()).filter(|end| *end > start)
        }
    }
}

fn end_of_brackets(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match text.get(at)? {
            b'"' => {
                at = end_of_string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_items_are_found() {
        let text = r#" { "a" : [1, "x]\"", {"b": {}}] , "c":null,"d":-1.5e3 } "#;
        let found: Vec<_> = fields(text, first(text)).map(|field| &text[field.value]).collect();
        assert_eq!(found, [r#"[1, "x]\"", {"b": {}}]"#, "null", "-1.5e3"]);
        let list = text.find('[').expect("a list");
        let found: Vec<_> = items(text, list).map(|item| &text[item]).collect();
        assert_eq!(found, ["1", r#""x]\"""#, r#"{"b": {}}"#]);
        assert_eq!(fields("{}", 0).count() + items("[ ]", 0).count() + items("{}", 0).count(), 0);
    }

    #[test]
    fn what_is_no_json_ends_the_search() {
        for text in
            ["", "{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":[", "{\"a\":\"\\", "{a:1}", "{\"a\"]1}", "{,}"]
        {
            assert!(fields(text, 0).count() <= 1, "{text}");
        }
    }
}
