//! Cuts `metadata.managedFields` out of the text of an object before it is decoded: they make up half of a typical
//! object's text, and most of the small allocations.
//!
//! The text is cut instead of wrapping the decoder's deserializer, because every type would be compiled a second time
//! for the wrapper.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::json_scan::{ScannedField, fields, first, skip_space};

const METADATA: &str = "\"metadata\"";
const MANAGED_FIELDS: &str = "\"managedFields\"";

/// Returns the text of an object without its managed fields.
pub(crate) fn without_managed_fields(text: &str) -> Cow<'_, str> {
    let mentioned = memmem::find(text.as_bytes(), MANAGED_FIELDS.as_bytes());
    match mentioned.and_then(|_| managed_fields(text)) {
        None => Cow::Borrowed(text),
        Some(cut) => Cow::Owned([&text[..cut.start], &text[cut.end..]].concat()),
    }
}

/// Returns the range of the managed fields, including one comma.
fn managed_fields(text: &str) -> Option<Range<usize>> {
    let metadata = fields(text, first(text)).find(|field| text[field.name.clone()] == *METADATA)?;
    let mut before = None;
    for ScannedField { name, value } in fields(text, metadata.value.start) {
        if text[name.clone()] == *MANAGED_FIELDS {
            let end = skip_space(text.as_bytes(), value.end);
            return Some(match (before, text.as_bytes().get(end)) {
                (_, Some(b',')) => name.start..end + 1,
                (Some(before), _) => before..value.end,
                (None, _) => name.start..value.end,
            });
        }
        before = Some(value.end);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_managed_fields(text), expected);
    }

    #[test]
    fn managed_fields_are_cut_and_nothing_else() {
        check(r#"{"metadata":{"managedFields":[{"f:a":{}}],"uid":"u"}}"#, r#"{"metadata":{"uid":"u"}}"#);
        check(r#"{"metadata":{"uid":"u" , "managedFields":[]}}"#, r#"{"metadata":{"uid":"u"}}"#);
        check(r#"{"metadata":{ "managedFields" : null }}"#, r#"{"metadata":{  }}"#);
        let kept = [
            r#"{"metadata":{"labels":{"managedFields":"mine"}},"data":{"managedFields":"kept"}}"#,
            r#"{"data":{"metadata":{"managedFields":[]}}}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":"managedFields"}"#,
        ];
        for text in kept {
            check(text, text);
        }
    }
}
