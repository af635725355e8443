//! Field errors say what is wrong with an object, and where. They become the causes of a 422.
//!
//! A [`FieldPath`] is a linked list on the stack, so validating a good object allocates nothing; it becomes text only
//! when an [`Error`] is written. The messages are Kubernetes' own, because both programs and people match on them.
//!
//! **Invariant:** for any object, the errors are bounded in number and in bytes, and so is the cost of writing them:
//! [`Errors`] ignores further errors when it is full, and no part of a message is longer than `PART_BYTES_MAX`.

mod errors;
mod texts;

use std::fmt::{self, Write as _};

use serde_json::Value;

pub use errors::Errors;
pub use texts::BoundedTexts;

/// The maximum length of a path, value or detail in one error message. Kubernetes repeats whole values, but a value may
/// be a megabyte long and nobody reads more of it than this.
const PART_BYTES_MAX: usize = 16 * 1024;
/// Marks where a string was cut.
const CUT_MARK: &str = " ...";

/// The path of a value in an object.
#[derive(Clone, Copy, Debug)]
pub enum FieldPath<'a> {
    /// The object itself.
    Root,
    /// A named field.
    Field(&'a FieldPath<'a>, &'a str),
    /// An element of a list.
    Index(&'a FieldPath<'a>, usize),
    /// A key of a map, printed in brackets.
    Key(&'a FieldPath<'a>, &'a str),
}

impl<'a> FieldPath<'a> {
    /// Returns the path of the field `name`.
    #[must_use]
    pub fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Field(self, name)
    }

    /// Returns the path of the element `at` of a list.
    #[must_use]
    pub fn index(&'a self, at: usize) -> FieldPath<'a> {
        FieldPath::Index(self, at)
    }

    /// Returns the path of the key `name` of a map.
    #[must_use]
    pub fn key(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Key(self, name)
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, name) => f.write_str(name),
            FieldPath::Field(parent, name) => write!(f, "{parent}.{name}"),
            FieldPath::Index(parent, at) => write!(f, "{parent}[{at}]"),
            FieldPath::Key(parent, name) => write!(f, "{parent}[{name}]"),
        }
    }
}

/// The type of an error: the `reason` of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum ErrorType {
    Required,
    Invalid,
    Duplicate,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    TypeInvalid,
    Internal,
}

impl ErrorType {
    /// Returns the `reason` of a cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// One error at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Its type.
    pub kind: ErrorType,
    /// The path as text; `<nil>` is never printed.
    pub field: String,
    /// The text after the path: `Required value: name or generateName is required`.
    pub body: String,
}

/// An error that has not been formatted yet: printing the path and the value is the costly part, and [`Errors`] does it
/// only while there is room.
#[derive(Clone, Copy, Debug)]
pub struct PendingError<'a> {
    kind: ErrorType,
    path: &'a FieldPath<'a>,
    head: &'static str,
    value: Option<&'a Value>,
    detail: ErrorDetail<'a>,
}

#[derive(Clone, Copy, Debug)]
enum ErrorDetail<'a> {
    Text(&'a str),
    Supported(&'a [&'a str]),
    BytesMax(usize),
    Count { found: usize, most: usize },
}

impl Error {
    /// Reports a missing value.
    pub fn required<'a>(path: &'a FieldPath<'a>, detail: &'a str) -> PendingError<'a> {
        let detail = ErrorDetail::Text(detail);
        PendingError { kind: ErrorType::Required, path, head: "Required value", value: None, detail }
    }

    /// Reports an invalid value.
    pub fn invalid<'a>(path: &'a FieldPath<'a>, value: &'a Value, detail: &'a str) -> PendingError<'a> {
        let detail = ErrorDetail::Text(detail);
        PendingError { kind: ErrorType::Invalid, path, head: "Invalid value", value: Some(value), detail }
    }

    /// Reports an invalid value without repeating it.
    pub fn invalid_unshown<'a>(path: &'a FieldPath<'a>, detail: &'a str) -> PendingError<'a> {
        let detail = ErrorDetail::Text(detail);
        PendingError { kind: ErrorType::Invalid, path, head: "Invalid value", value: None, detail }
    }

    /// Reports a value of the wrong type.
    pub fn type_invalid<'a>(path: &'a FieldPath<'a>, value: &'a Value, detail: &'a str) -> PendingError<'a> {
        PendingError { kind: ErrorType::TypeInvalid, ..Self::invalid(path, value, detail) }
    }

    /// Reports a duplicate value.
    pub fn duplicate<'a>(path: &'a FieldPath<'a>, value: &'a Value) -> PendingError<'a> {
        let detail = ErrorDetail::Text("");
        PendingError { kind: ErrorType::Duplicate, path, head: "Duplicate value", value: Some(value), detail }
    }

    /// Reports a value that is not one of the supported ones.
    pub fn not_supported<'a>(
        path: &'a FieldPath<'a>,
        value: &'a Value,
        supported: &'a [&'a str],
    ) -> PendingError<'a> {
        let detail = ErrorDetail::Supported(supported);
        PendingError {
            kind: ErrorType::NotSupported,
            path,
            head: "Unsupported value",
            value: Some(value),
            detail,
        }
    }

    /// Reports a value that must not be set or changed.
    pub fn forbidden<'a>(path: &'a FieldPath<'a>, detail: &'a str) -> PendingError<'a> {
        let detail = ErrorDetail::Text(detail);
        PendingError { kind: ErrorType::Forbidden, path, head: "Forbidden", value: None, detail }
    }

    /// Reports a string that is too long, without repeating it.
    pub fn too_long<'a>(path: &'a FieldPath<'a>, bytes_max: usize) -> PendingError<'a> {
        let detail = ErrorDetail::BytesMax(bytes_max);
        PendingError { kind: ErrorType::TooLong, path, head: "Too long", value: None, detail }
    }

    /// Reports a list that has too many items.
    pub fn too_many<'a>(path: &'a FieldPath<'a>, found: usize, most: usize) -> PendingError<'a> {
        let detail = ErrorDetail::Count { found, most };
        PendingError { kind: ErrorType::TooMany, path, head: "Too many", value: None, detail }
    }

    /// Reports a value that names something that does not exist.
    pub fn not_found<'a>(path: &'a FieldPath<'a>, value: &'a Value) -> PendingError<'a> {
        let detail = ErrorDetail::Text("");
        PendingError { kind: ErrorType::NotFound, path, head: "Not found", value: Some(value), detail }
    }

    /// Shortens the strings to the limits of a [`PendingError`].
    fn cut(mut self) -> Self {
        cut_text(&mut self.field, PART_BYTES_MAX);
        cut_text(&mut self.body, 3 * PART_BYTES_MAX);
        self
    }

    fn bytes(&self) -> usize {
        self.field.len() + self.body.len()
    }
}

impl PendingError<'_> {
    /// Formats the error.
    #[must_use]
    pub fn written(&self) -> Error {
        let field = cut(PART_BYTES_MAX, |text| write!(text, "{}", self.path));
        let mut body = self.head.to_owned();
        if let Some(value) = self.value {
            body.push_str(": ");
            body.push_str(&shown(value));
        }
        let detail = self.detail();
        if !detail.is_empty() {
            body.push_str(": ");
            body.push_str(&detail);
        }
        Error { kind: self.kind, field, body }
    }

    fn detail(&self) -> String {
        cut(PART_BYTES_MAX, |text| match self.detail {
            ErrorDetail::Text(detail) => text.write_str(detail),
            ErrorDetail::Supported([]) => Ok(()),
            ErrorDetail::Supported(supported) => {
                text.write_str("supported values: ")?;
                let mut numbered = supported.iter().enumerate();
                numbered.try_for_each(|(at, one)| write!(text, "{}{one:?}", if at > 0 { ", " } else { "" }))
            }
            ErrorDetail::BytesMax(most) => write!(text, "may not be more than {most} bytes"),
            ErrorDetail::Count { found, most } => write!(text, "{found}: must have at most {most} items"),
        })
    }
}

impl From<PendingError<'_>> for Error {
    fn from(error_text: PendingError<'_>) -> Self {
        error_text.written()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// Returns a value as Go prints it in messages: strings quoted, everything else as compact JSON.
fn shown(value: &Value) -> String {
    cut(PART_BYTES_MAX, |text| match value {
        Value::String(plain) => write!(text, "{plain:?}"),
        other => write!(text, "{other}"),
    })
}

/// Text that stops growing at a maximum number of bytes; text beyond the limit is not even formatted.
struct BoundedText {
    text: String,
    most: usize,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.most - self.text.len();
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        self.text.push_str(&more[..more.floor_char_boundary(room)]);
        Err(fmt::Error)
    }
}

/// Shortens a string to about `most` bytes and marks the cut.
pub(crate) fn cut_text(text: &mut String, most: usize) {
    if text.len() > most + CUT_MARK.len() {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(CUT_MARK);
    }
}

/// Returns what `print` writes, shortened to `most` bytes with a mark at the cut.
fn cut(most: usize, print: impl FnOnce(&mut BoundedText) -> fmt::Result) -> String {
    let mut cut = BoundedText { text: String::new(), most };
    let whole = print(&mut cut);
    if whole.is_err() {
        cut.text.push_str(CUT_MARK);
    }
    cut.text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_prints_as_kubernetes_does() {
        let spec = FieldPath::Root.field("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        assert_eq!(spec.key("a/b").to_string(), "spec[a/b]");
    }

    #[test]
    fn an_error_prints_place_value_and_detail() {
        let path = FieldPath::Root;
        let path = path.field("spec");
        assert_eq!(
            Error::not_supported(&path, &json!("x"), &["A", "B"]).written().to_string(),
            r#"spec: Unsupported value: "x": supported values: "A", "B""#
        );
        assert_eq!(Error::required(&path, "").written().to_string(), "spec: Required value");
    }
}
