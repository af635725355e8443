//! Where in an object something is wrong, and what: the causes of a 422.
//!
//! A [`Path`] is a linked list on the stack, so walking a good object allocates nothing; it becomes text only when
//! an [`Error`] is written. The texts are Kubernetes': clients and people match on them.
//!
//! **Invariant:** whatever an object holds, the errors about it are bounded in number and in bytes, and so is the work of
//! writing them: [`Errors`] takes no more when it is full, and no part of a text is longer than `PART_BYTES_MAX`.

mod errors;
mod texts;

use std::fmt::{self, Write as _};

use serde_json::Value;

pub use errors::Errors;
pub use texts::Texts;

/// The longest place, value or detail in the text of one error. Kubernetes repeats values whole; nobody reads more than
/// this of one, and a body may hold a megabyte of it.
const PART_BYTES_MAX: usize = 16 * 1024;
/// Stands where a text was cut.
const CUT_MARK: &str = " ...";

/// A place in an object.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The object itself.
    Root,
    /// A named field.
    Field(&'a Path<'a>, &'a str),
    /// An element of a list.
    Index(&'a Path<'a>, usize),
    /// A key of a map, printed in brackets.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    /// The field `name` below this place.
    #[must_use]
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// The element `at` of the list at this place.
    #[must_use]
    pub fn index(&'a self, at: usize) -> Path<'a> {
        Path::Index(self, at)
    }

    /// The map key `name` at this place.
    #[must_use]
    pub fn key(&'a self, name: &'a str) -> Path<'a> {
        Path::Key(self, name)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, at) => write!(f, "{parent}[{at}]"),
            Path::Key(parent, name) => write!(f, "{parent}[{name}]"),
        }
    }
}

/// What sort of wrong: the `reason` of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Kind {
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

impl Kind {
    /// The `reason` text of a cause.
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

/// One thing wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What sort.
    pub kind: Kind,
    /// Where, as text; `<nil>` is never printed.
    pub field: String,
    /// The text after the place: `Required value: name or generateName is required`.
    pub body: String,
}

/// One thing wrong, not yet written out: printing the place and the value is the costly part, and [`Errors`] does it only
/// while there is room.
#[derive(Clone, Copy, Debug)]
pub struct Complaint<'a> {
    kind: Kind,
    path: &'a Path<'a>,
    head: &'static str,
    value: Option<&'a Value>,
    detail: Detail<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Detail<'a> {
    Text(&'a str),
    Supported(&'a [&'a str]),
    BytesMax(usize),
    Count { found: usize, most: usize },
}

impl Error {
    /// A value that must be there is not.
    pub fn required<'a>(path: &'a Path<'a>, detail: &'a str) -> Complaint<'a> {
        let detail = Detail::Text(detail);
        Complaint { kind: Kind::Required, path, head: "Required value", value: None, detail }
    }

    /// The value is not acceptable.
    pub fn invalid<'a>(path: &'a Path<'a>, value: &'a Value, detail: &'a str) -> Complaint<'a> {
        let detail = Detail::Text(detail);
        Complaint { kind: Kind::Invalid, path, head: "Invalid value", value: Some(value), detail }
    }

    /// The value is not acceptable; it is not repeated.
    pub fn invalid_unshown<'a>(path: &'a Path<'a>, detail: &'a str) -> Complaint<'a> {
        let detail = Detail::Text(detail);
        Complaint { kind: Kind::Invalid, path, head: "Invalid value", value: None, detail }
    }

    /// The value has the wrong type.
    pub fn type_invalid<'a>(path: &'a Path<'a>, value: &'a Value, detail: &'a str) -> Complaint<'a> {
        Complaint { kind: Kind::TypeInvalid, ..Self::invalid(path, value, detail) }
    }

    /// The value stands there twice.
    pub fn duplicate<'a>(path: &'a Path<'a>, value: &'a Value) -> Complaint<'a> {
        let detail = Detail::Text("");
        Complaint { kind: Kind::Duplicate, path, head: "Duplicate value", value: Some(value), detail }
    }

    /// The value is none of the supported ones.
    pub fn not_supported<'a>(
        path: &'a Path<'a>,
        value: &'a Value,
        supported: &'a [&'a str],
    ) -> Complaint<'a> {
        let detail = Detail::Supported(supported);
        Complaint { kind: Kind::NotSupported, path, head: "Unsupported value", value: Some(value), detail }
    }

    /// The value may not be set or changed.
    pub fn forbidden<'a>(path: &'a Path<'a>, detail: &'a str) -> Complaint<'a> {
        let detail = Detail::Text(detail);
        Complaint { kind: Kind::Forbidden, path, head: "Forbidden", value: None, detail }
    }

    /// The text is too long; it is not repeated.
    pub fn too_long<'a>(path: &'a Path<'a>, bytes_max: usize) -> Complaint<'a> {
        let detail = Detail::BytesMax(bytes_max);
        Complaint { kind: Kind::TooLong, path, head: "Too long", value: None, detail }
    }

    /// The list has too many items.
    pub fn too_many<'a>(path: &'a Path<'a>, found: usize, most: usize) -> Complaint<'a> {
        let detail = Detail::Count { found, most };
        Complaint { kind: Kind::TooMany, path, head: "Too many", value: None, detail }
    }

    /// What the value names does not exist.
    pub fn not_found<'a>(path: &'a Path<'a>, value: &'a Value) -> Complaint<'a> {
        let detail = Detail::Text("");
        Complaint { kind: Kind::NotFound, path, head: "Not found", value: Some(value), detail }
    }

    /// The same with texts no longer than those of a [`Complaint`].
    fn cut(mut self) -> Self {
        cut_text(&mut self.field, PART_BYTES_MAX);
        cut_text(&mut self.body, 3 * PART_BYTES_MAX);
        self
    }

    fn bytes(&self) -> usize {
        self.field.len() + self.body.len()
    }
}

impl Complaint<'_> {
    /// Writes it out.
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
            Detail::Text(detail) => text.write_str(detail),
            Detail::Supported([]) => Ok(()),
            Detail::Supported(supported) => {
                text.write_str("supported values: ")?;
                let mut numbered = supported.iter().enumerate();
                numbered.try_for_each(|(at, one)| write!(text, "{}{one:?}", if at > 0 { ", " } else { "" }))
            }
            Detail::BytesMax(most) => write!(text, "may not be more than {most} bytes"),
            Detail::Count { found, most } => write!(text, "{found}: must have at most {most} items"),
        })
    }
}

impl From<Complaint<'_>> for Error {
    fn from(complaint: Complaint<'_>) -> Self {
        complaint.written()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// A value as Go prints it in messages: text quoted, the rest as compact JSON, null as `null`.
fn shown(value: &Value) -> String {
    cut(PART_BYTES_MAX, |text| match value {
        Value::String(plain) => write!(text, "{plain:?}"),
        other => write!(text, "{other}"),
    })
}

/// Text that stops growing at a number of bytes; what it loses is not even made.
struct Cut {
    text: String,
    most: usize,
}

impl fmt::Write for Cut {
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

/// Cuts a text to about so many bytes, with a mark at the cut.
pub(crate) fn cut_text(text: &mut String, most: usize) {
    if text.len() > most + CUT_MARK.len() {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(CUT_MARK);
    }
}

/// What `print` writes, cut to `most` bytes with a mark at the cut.
fn cut(most: usize, print: impl FnOnce(&mut Cut) -> fmt::Result) -> String {
    let mut cut = Cut { text: String::new(), most };
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
        let spec = Path::Root.field("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        assert_eq!(spec.key("a/b").to_string(), "spec[a/b]");
    }

    #[test]
    fn an_error_prints_place_value_and_detail() {
        let path = Path::Root;
        let path = path.field("spec");
        assert_eq!(
            Error::not_supported(&path, &json!("x"), &["A", "B"]).written().to_string(),
            r#"spec: Unsupported value: "x": supported values: "A", "B""#
        );
        assert_eq!(Error::required(&path, "").written().to_string(), "spec: Required value");
    }
}
