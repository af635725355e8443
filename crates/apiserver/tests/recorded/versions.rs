//! Represents a resourceVersion as it was served, marked within a normalised document with the resource it belongs to.
//!
//! The comparison orders versions of one resource against each other, so a plain text is not enough. The mark is a
//! character that no response contains, which lets normalised documents stay plain JSON.

use serde_json::Value;

/// A character of the private use area: no response contains it.
const MARK: char = '\u{e000}';

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServedVersion {
    /// Group and resource.
    pub(crate) scope: String,
    pub(crate) text: String,
}

impl ServedVersion {
    pub(crate) fn write(&self) -> String {
        format!("{MARK}{}{MARK}{}", self.scope, self.text)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let (scope, text) = text.strip_prefix(MARK)?.split_once(MARK)?;
        Some(Self { scope: scope.into(), text: text.into() })
    }

    pub(crate) fn number(&self) -> Option<u64> {
        number(&self.text)
    }
}

/// Returns the number, if the text is nothing but decimal digits.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

/// Returns a value as a report shows it: text unquoted and on one line, versions as they were served.
pub(crate) fn show(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.replace('\n', "\\n"));
    let mut parts = text.split(MARK);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    while let (Some(_scope), Some(rest)) = (parts.next(), parts.next()) {
        shown.push_str(rest);
    }
    shown
}
