//! Reads query parameters one by one without building a map: most requests have only a few, and the caller needs one of
//! them.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Returns the first value of a query parameter, decoded; `None` if it is absent.
pub fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    parameters(query).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Returns all query parameters, decoded, in order. As in Go, a pair with a semicolon or a broken escape is skipped.
pub fn parameters(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let readable = |pair: &&str| !pair.is_empty() && !pair.contains(';') && !has_broken_escape(pair);
    query.split('&').filter(readable).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    })
}

/// Returns whether the text contains a percent sign that does not start a valid escape.
pub fn has_broken_escape(text: &str) -> bool {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).any(|rest| !is_escape(rest))
}

fn decode(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(text).decode_utf8_lossy()
}
