//! Where in an object something is wrong, and what: the causes of a 422.
//!
//! A [`Path`] is a linked list on the stack, so walking a good object allocates nothing; it becomes text only when
//! an [`Error`] is made. The texts are Kubernetes': clients and people match on them.

use std::fmt;

use serde_json::Value;

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

impl Error {
    fn new(kind: Kind, path: &Path<'_>, head: String, detail: &str) -> Self {
        let body = if detail.is_empty() { head } else { format!("{head}: {detail}") };
        Self { kind, field: path.to_string(), body }
    }

    /// A value that must be there is not.
    pub fn required(path: &Path<'_>, detail: &str) -> Self {
        Self::new(Kind::Required, path, "Required value".into(), detail)
    }

    /// The value is not acceptable.
    pub fn invalid(path: &Path<'_>, value: &Value, detail: &str) -> Self {
        Self::new(Kind::Invalid, path, format!("Invalid value: {}", shown(value)), detail)
    }

    /// The value is not acceptable; it is not repeated.
    pub fn invalid_unshown(path: &Path<'_>, detail: &str) -> Self {
        Self::new(Kind::Invalid, path, "Invalid value".into(), detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: &Path<'_>, value: &Value, detail: &str) -> Self {
        Self::new(Kind::TypeInvalid, path, format!("Invalid value: {}", shown(value)), detail)
    }

    /// The value stands there twice.
    pub fn duplicate(path: &Path<'_>, value: &Value) -> Self {
        Self::new(Kind::Duplicate, path, format!("Duplicate value: {}", shown(value)), "")
    }

    /// The value is none of the supported ones.
    pub fn not_supported(path: &Path<'_>, value: &Value, supported: &[&str]) -> Self {
        let listed = supported.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
        let detail = if supported.is_empty() { String::new() } else { format!("supported values: {listed}") };
        Self::new(Kind::NotSupported, path, format!("Unsupported value: {}", shown(value)), &detail)
    }

    /// The value may not be set or changed.
    pub fn forbidden(path: &Path<'_>, detail: &str) -> Self {
        Self::new(Kind::Forbidden, path, "Forbidden".into(), detail)
    }

    /// The text is too long; it is not repeated.
    pub fn too_long(path: &Path<'_>, bytes_max: usize) -> Self {
        Self::new(Kind::TooLong, path, "Too long".into(), &format!("may not be more than {bytes_max} bytes"))
    }

    /// The list has too many items.
    pub fn too_many(path: &Path<'_>, count: usize, items_max: usize) -> Self {
        let head = format!("Too many: {count}");
        Self::new(Kind::TooMany, path, head, &format!("must have at most {items_max} items"))
    }

    /// What the value names does not exist.
    pub fn not_found(path: &Path<'_>, value: &Value) -> Self {
        Self::new(Kind::NotFound, path, format!("Not found: {}", shown(value)), "")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// A value as Go prints it in messages: text quoted, the rest as compact JSON, null as `null`.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
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
            Error::not_supported(&path, &json!("x"), &["A", "B"]).to_string(),
            r#"spec: Unsupported value: "x": supported values: "A", "B""#
        );
        assert_eq!(Error::required(&path, "").to_string(), "spec: Required value");
    }
}
