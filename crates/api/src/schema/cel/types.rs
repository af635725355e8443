//! Defines the CEL types, and the CEL type of every schema node.
//!
//! A [`DeclaredType`] also knows how large a value can be, from the bounds of the schema or of a request, which the
//! static estimate multiplies. Two object types are the same only if they are the same node of the schema. Values that
//! a schema leaves open (untyped values, preserved fields) have no declaration: rules cannot see them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// The largest request that Kubernetes assumes when it estimates, in bytes.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The length of the shortest JSON of each type, and of the longest times in RFC 3339 form, with quotation marks.
const DURATION_BYTES_MIN: u64 = 3;
const DATE_BYTES: u64 = 12;
const DATE_TIME_BYTES_MIN: u64 = 21;
const TIME_BYTES_MAX: u64 = 32;

/// The maximum number of bytes that one code point takes in UTF-8; `maxLength` counts code points, the estimate counts
/// bytes.
const CODE_POINT_BYTES_MAX: u64 = 4;

/// A CEL type.
#[derive(Clone, Debug)]
pub(super) enum CelType {
    /// The type is known only when the rule runs.
    Dyn,
    /// The result of an expression with an error that is already reported.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<CelType>),
    Map(Arc<CelType>, Arc<CelType>),
    /// An object node of the schema.
    Object(Arc<DeclaredType>),
    /// A library type: `kubernetes.URL`, `net.IP`.
    Library(&'static str),
    Optional(Arc<CelType>),
    /// The type of a type value.
    Meta(Arc<CelType>),
    /// The checker has yet to infer the type.
    Variable(usize),
}

impl CelType {
    /// The type of `authorizer`, and of `authorizer.requestResource`.
    pub(super) const AUTHORIZER: Self = Self::Library("kubernetes.authorization.Authorizer");
    pub(super) const RESOURCE_CHECK: Self = Self::Library("kubernetes.authorization.ResourceCheck");

    /// Returns the type without parameters that has this name.
    pub(super) fn primitive(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }

    pub(super) fn list(of: CelType) -> Self {
        Self::List(Arc::new(of))
    }

    pub(super) fn map(key: CelType, value: CelType) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(of: CelType) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Returns whether values have a fixed size.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Timestamp | Self::Duration => true,
            Self::Optional(of) => of.is_scalar(),
            _ => false,
        }
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Object(declared) => &declared.name,
            Self::Library(name) => name,
            Self::Optional(of) => return write!(f, "optional_type({of})"),
            Self::Meta(of) => return write!(f, "type({of})"),
            Self::Variable(at) => return write!(f, "_var{at}"),
        };
        f.write_str(name)
    }
}

/// The CEL type of a schema node.
#[derive(Debug)]
pub(super) struct DeclaredType {
    /// The name of an object of this type in messages.
    name: String,
    pub(super) shape: DeclaredShape,
    /// The maximum number of elements, properties or bytes of a value; 0 where this is meaningless.
    pub(super) elements_max: u64,
    /// The minimum number of bytes that a value takes in a request.
    pub(super) bytes_min: u64,
}

/// The types of the parts of a value.
#[derive(Debug)]
pub(super) enum DeclaredShape {
    Scalar(CelType),
    List(Arc<DeclaredType>),
    Map(Arc<DeclaredType>),
    Object(BTreeMap<String, Arc<DeclaredType>>),
}

impl DeclaredType {
    /// Returns the declaration of a schema; `None` if rules cannot see its values. `is_root` marks whole objects.
    pub(super) fn read(schema: &Value, is_root: bool) -> Option<Arc<Self>> {
        read(schema, is_root, "selfType")
    }

    /// Returns the declaration of a whole object of this kind.
    pub(super) fn read_kind(schema: &Value, kind: &str) -> Option<Arc<Self>> {
        read(schema, true, kind)
    }

    /// Returns the declaration of an object with these fields, whose sizes are unknown.
    pub(super) fn object_with(name: &str, fields: impl IntoIterator<Item = (String, CelType)>) -> Arc<Self> {
        let fields = fields.into_iter().map(|(field, kind)| (field, Self::unsized_value(kind)));
        Arc::new(Self {
            name: name.to_owned(),
            shape: DeclaredShape::Object(fields.collect()),
            elements_max: 0,
            bytes_min: 2,
        })
    }

    /// Returns the declaration of values of a type, with unknown size.
    pub(super) fn unsized_value(kind: CelType) -> Arc<Self> {
        scalar(kind, 0, 1)
    }

    pub(super) fn type_of(self: &Arc<Self>) -> CelType {
        match &self.shape {
            DeclaredShape::Scalar(kind) => kind.clone(),
            DeclaredShape::List(items) => CelType::list(items.type_of()),
            DeclaredShape::Map(values) => CelType::map(CelType::String, values.type_of()),
            DeclaredShape::Object(_) => CelType::Object(Arc::clone(self)),
        }
    }

    /// Returns the maximum number of such values in a request, if nothing else bounds them.
    pub(super) fn cardinality_max(&self) -> u64 {
        REQUEST_BYTES_MAX / (self.bytes_min + 1)
    }
}

fn read(schema: &Value, is_root: bool, name: &str) -> Option<Arc<DeclaredType>> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(scalar(CelType::Dyn, text_max(schema), 1));
    }
    match schema["type"].as_str()? {
        "array" => list(schema, name),
        "object" => match &schema["additionalProperties"] {
            values @ Value::Object(_) if !is_root => map(schema, values, name),
            _ => Some(object(schema, is_root, name)),
        },
        "string" => Some(text(schema)),
        "boolean" => Some(scalar(CelType::Bool, 0, 4)),
        "number" => Some(scalar(CelType::Double, 0, 1)),
        "integer" => Some(scalar(CelType::Int, 0, 1)),
        _ => None,
    }
}

fn below(schema: &Value, name: &str) -> Option<Arc<DeclaredType>> {
    read(schema, schema["x-kubernetes-embedded-resource"] == true, name)
}

fn scalar(kind: CelType, elements_max: u64, bytes_min: u64) -> Arc<DeclaredType> {
    Arc::new(DeclaredType {
        name: String::new(),
        shape: DeclaredShape::Scalar(kind),
        elements_max,
        bytes_min,
    })
}

fn list(schema: &Value, name: &str) -> Option<Arc<DeclaredType>> {
    let items = below(&schema["items"], &format!("{name}.@idx"))?;
    // The brackets take two bytes, each item a comma.
    let fitting = (REQUEST_BYTES_MAX - 2) / (items.bytes_min + 1);
    let elements_max = bound(schema, "maxItems").unwrap_or(fitting);
    Some(Arc::new(DeclaredType {
        name: String::new(),
        shape: DeclaredShape::List(items),
        elements_max,
        bytes_min: 2,
    }))
}

fn map(schema: &Value, values: &Value, name: &str) -> Option<Arc<DeclaredType>> {
    let values = below(values, &format!("{name}.@elem"))?;
    // Each entry takes a key of two characters, its quotation marks, a colon and a comma.
    let fitting = (REQUEST_BYTES_MAX - 2) / (values.bytes_min + 6);
    let elements_max = bound(schema, "maxProperties").unwrap_or(fitting);
    Some(Arc::new(DeclaredType {
        name: String::new(),
        shape: DeclaredShape::Map(values),
        elements_max,
        bytes_min: 2,
    }))
}

fn object(schema: &Value, is_root: bool, name: &str) -> Arc<DeclaredType> {
    let implied = implied_properties(schema, is_root);
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::iter);
    let properties = properties.filter(|(name, _)| implied.get(name.as_str()).is_none());
    let implied_ones = implied.as_object().into_iter().flat_map(Map::iter);
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let mut fields = BTreeMap::new();
    let mut bytes_min = 2;
    for (property, schema) in properties.chain(implied_ones) {
        let Some(declared) = below(schema, &format!("{name}.{property}")) else { continue };
        if required(property) && schema.get("default").is_none() {
            bytes_min += property.len() as u64 + declared.bytes_min + 4;
        }
        if let Some(escaped) = escape(property) {
            fields.insert(escaped, declared);
        }
    }
    Arc::new(DeclaredType {
        name: name.to_owned(),
        shape: DeclaredShape::Object(fields),
        elements_max: 0,
        bytes_min,
    })
}

/// Returns the properties that rules always see at the root of an object, unless the schema itself declares them.
fn implied_properties(schema: &Value, is_root: bool) -> Value {
    let is = |place: &str, kind: &str| schema.pointer(place).is_some_and(|schema| schema["type"] == kind);
    let all_said = is("/properties/kind", "string")
        && is("/properties/apiVersion", "string")
        && is("/properties/metadata", "object")
        && is("/properties/metadata/properties/name", "string")
        && is("/properties/metadata/properties/generateName", "string");
    if !is_root || all_said {
        return Value::Null;
    }
    let text = json!({"type": "string"});
    json!({"apiVersion": text, "kind": text,
        "metadata": {"type": "object", "properties": {"name": text, "generateName": text}}})
}

fn text(schema: &Value) -> Arc<DeclaredType> {
    match schema["format"].as_str().unwrap_or_default() {
        "byte" => {
            let elements_max = bound(schema, "maxLength").unwrap_or(REQUEST_BYTES_MAX - 2);
            scalar(CelType::Bytes, elements_max, 2)
        }
        "duration" => scalar(CelType::Duration, TIME_BYTES_MAX, DURATION_BYTES_MIN),
        "date" => scalar(CelType::Timestamp, DATE_BYTES, DATE_BYTES),
        "date-time" => scalar(CelType::Timestamp, TIME_BYTES_MAX, DATE_TIME_BYTES_MIN),
        _ => scalar(CelType::String, text_max(schema), 2),
    }
}

fn text_max(schema: &Value) -> u64 {
    if let Some(letters) = bound(schema, "maxLength") {
        return letters.saturating_mul(CODE_POINT_BYTES_MAX);
    }
    let is_text = schema["x-kubernetes-int-or-string"] != true;
    match schema["enum"].as_array() {
        Some(values) if is_text && !values.is_empty() => {
            values.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0)
        }
        _ => REQUEST_BYTES_MAX - 2,
    }
}

/// Returns a bound of the schema; a negative bound counts as zero.
pub(super) fn bound(schema: &Value, name: &str) -> Option<u64> {
    let bound = schema.get(name)?;
    bound.as_u64().or_else(|| bound.as_i64().map(|_| 0))
}

/// Reserved words of the language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the name of a property in rules; `None` if it cannot be written there.
pub(super) fn escape(property: &str) -> Option<String> {
    if property.is_empty() || property.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&property) {
        return Some(format!("__{property}__"));
    }
    if !property.chars().all(|letter| letter.is_ascii_alphanumeric() || "-./_".contains(letter)) {
        return None;
    }
    let escaped = property.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}
