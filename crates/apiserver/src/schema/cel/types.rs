//! The types of CEL, and the type every node of a schema has in it.
//!
//! A [`Declared`] also knows how large a value can be, in the schema's own bounds or those of a request, which is
//! what a static estimate multiplies. Objects are the same type only when they are the same place in the schema.
//! What a schema leaves open (untyped values, preserved fields) has no declaration: rules cannot see it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// The largest request Kubernetes takes when it estimates, in bytes.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// Bytes of the shortest JSON of each sort, and of the longest times: what RFC 3339 needs, with quotation marks.
const DURATION_BYTES_MIN: u64 = 3;
const DATE_BYTES: u64 = 12;
const DATE_TIME_BYTES_MIN: u64 = 21;
const TIME_BYTES_MAX: u64 = 32;

/// The most bytes one code point takes in UTF-8; `maxLength` counts code points, the estimate bytes.
const CODE_POINT_BYTES_MAX: u64 = 4;

/// A type of the language.
#[derive(Clone, Debug)]
pub(super) enum Type {
    /// Known only when the rule runs.
    Dyn,
    /// The result of something already complained about.
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
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// A place in the schema.
    Object(Arc<Declared>),
    /// A type of a library: `kubernetes.URL`, `net.IP`.
    Library(&'static str),
    Optional(Arc<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    /// To be found by the checker.
    Variable(usize),
}

impl Type {
    /// The type without parts that is spelled so everywhere.
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

    pub(super) fn list(of: Type) -> Self {
        Self::List(Arc::new(of))
    }

    pub(super) fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(of: Type) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Whether values have a fixed size.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Timestamp | Self::Duration => true,
            Self::Optional(of) => of.is_scalar(),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
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

/// What a node of the schema is in CEL.
#[derive(Debug)]
pub(super) struct Declared {
    /// The name a message gives to an object of it.
    name: String,
    pub(super) shape: Shape,
    /// The most elements, properties or bytes a value has; 0 where that means nothing.
    pub(super) elements_max: u64,
    /// The fewest bytes a value takes in a request.
    pub(super) bytes_min: u64,
}

/// What stands below a declaration.
#[derive(Debug)]
pub(super) enum Shape {
    Scalar(Type),
    List(Arc<Declared>),
    Map(Arc<Declared>),
    Object(BTreeMap<String, Arc<Declared>>),
}

impl Declared {
    /// The declaration of a schema; `None` when rules cannot see its values. `is_root` for whole objects.
    pub(super) fn read(schema: &Value, is_root: bool) -> Option<Arc<Self>> {
        read(schema, is_root, "selfType")
    }

    pub(super) fn type_of(self: &Arc<Self>) -> Type {
        match &self.shape {
            Shape::Scalar(kind) => kind.clone(),
            Shape::List(items) => Type::list(items.type_of()),
            Shape::Map(values) => Type::map(Type::String, values.type_of()),
            Shape::Object(_) => Type::Object(Arc::clone(self)),
        }
    }

    /// How many such values a request can hold at most, when nothing else bounds them.
    pub(super) fn cardinality_max(&self) -> u64 {
        REQUEST_BYTES_MAX / (self.bytes_min + 1)
    }
}

fn read(schema: &Value, is_root: bool, name: &str) -> Option<Arc<Declared>> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(scalar(Type::Dyn, text_max(schema), 1));
    }
    match schema["type"].as_str()? {
        "array" => list(schema, name),
        "object" => match &schema["additionalProperties"] {
            values @ Value::Object(_) if !is_root => map(schema, values, name),
            _ => Some(object(schema, is_root, name)),
        },
        "string" => Some(text(schema)),
        "boolean" => Some(scalar(Type::Bool, 0, 4)),
        "number" => Some(scalar(Type::Double, 0, 1)),
        "integer" => Some(scalar(Type::Int, 0, 1)),
        _ => None,
    }
}

fn below(schema: &Value, name: &str) -> Option<Arc<Declared>> {
    read(schema, schema["x-kubernetes-embedded-resource"] == true, name)
}

fn scalar(kind: Type, elements_max: u64, bytes_min: u64) -> Arc<Declared> {
    Arc::new(Declared { name: String::new(), shape: Shape::Scalar(kind), elements_max, bytes_min })
}

fn list(schema: &Value, name: &str) -> Option<Arc<Declared>> {
    let items = below(&schema["items"], &format!("{name}.@idx"))?;
    // The brackets take two bytes, each item a comma.
    let fitting = (REQUEST_BYTES_MAX - 2) / (items.bytes_min + 1);
    let elements_max = bound(schema, "maxItems").unwrap_or(fitting);
    Some(Arc::new(Declared { name: String::new(), shape: Shape::List(items), elements_max, bytes_min: 2 }))
}

fn map(schema: &Value, values: &Value, name: &str) -> Option<Arc<Declared>> {
    let values = below(values, &format!("{name}.@elem"))?;
    // Each entry takes a key of two letters, its quotation marks, a colon and a comma.
    let fitting = (REQUEST_BYTES_MAX - 2) / (values.bytes_min + 6);
    let elements_max = bound(schema, "maxProperties").unwrap_or(fitting);
    Some(Arc::new(Declared { name: String::new(), shape: Shape::Map(values), elements_max, bytes_min: 2 }))
}

fn object(schema: &Value, is_root: bool, name: &str) -> Arc<Declared> {
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
    Arc::new(Declared { name: name.to_owned(), shape: Shape::Object(fields), elements_max: 0, bytes_min })
}

/// What rules always see at the root of an object, unless the schema itself says it.
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

fn text(schema: &Value) -> Arc<Declared> {
    match schema["format"].as_str().unwrap_or_default() {
        "byte" => {
            let elements_max = bound(schema, "maxLength").unwrap_or(REQUEST_BYTES_MAX - 2);
            scalar(Type::Bytes, elements_max, 2)
        }
        "duration" => scalar(Type::Duration, TIME_BYTES_MAX, DURATION_BYTES_MIN),
        "date" => scalar(Type::Timestamp, DATE_BYTES, DATE_BYTES),
        "date-time" => scalar(Type::Timestamp, TIME_BYTES_MAX, DATE_TIME_BYTES_MIN),
        _ => scalar(Type::String, text_max(schema), 2),
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

/// A bound of the schema; a negative one counts as none allowed.
pub(super) fn bound(schema: &Value, name: &str) -> Option<u64> {
    let bound = schema.get(name)?;
    bound.as_u64().or_else(|| bound.as_i64().map(|_| 0))
}

/// Words of the language that cannot be names.
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

/// The name a property has in rules; `None` when it cannot be written there.
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
