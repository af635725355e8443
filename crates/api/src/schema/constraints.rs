//! The value constraints of a custom kind's schema, read once from its JSON so that checking a value does not parse
//! anything.
//!
//! This tree is separate from the structural one: alternatives (`anyOf` …) constrain values but declare nothing.
//! Keywords that Kubernetes rejects in definitions are ignored.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::formats::FormatCheck;
use super::pattern::{self, CompiledPattern, PatternSlot};

/// The constraints on one value.
#[derive(Debug, Default)]
pub struct ValueConstraints {
    pub(super) types: Vec<JsonType>,
    pub(super) nullable: bool,
    pub(super) format: Option<FormatCheck>,
    pub(super) allowed: Vec<Value>,
    pub(super) text: Option<Box<TextConstraints>>,
    pub(super) number: Option<Box<NumberConstraints>>,
    pub(super) size: Option<Box<CountConstraints>>,
    pub(super) logic: Option<Box<SchemaAlternatives>>,
    pub(super) required: Vec<Box<str>>,
    pub(super) properties: BTreeMap<Box<str>, ValueConstraints>,
    pub(super) additional: Option<Box<ValueConstraints>>,
    pub(super) items: Option<Box<ValueConstraints>>,
    /// The keys that identify the items of a list with type `map`.
    pub(super) map_keys: Vec<Box<str>>,
    has_expressions: bool,
    has_structure: bool,
}

/// A JSON schema type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl JsonType {
    /// All types, in the order in which errors list them.
    pub(super) const ALL: [Self; 6] =
        [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Constraints on strings.
#[derive(Debug, Default)]
pub(super) struct TextConstraints {
    pub(super) length_min: Option<u64>,
    pub(super) length_max: Option<u64>,
    pub(super) pattern: Option<PatternConstraint>,
}

/// A regular expression, compiled when a value first needs it.
#[derive(Debug)]
pub(super) struct PatternConstraint {
    pub(super) source: Box<str>,
    compiled: PatternSlot,
}

impl PatternConstraint {
    /// Returns whether the text matches, if `spend` allows the steps this takes. A pattern that cannot be compiled
    /// matches everything: an older server accepted its definition.
    pub(super) fn is_match(&self, text: &str, spend: impl FnOnce(usize) -> bool) -> bool {
        let matches =
            |compiled: &CompiledPattern| !spend(compiled.steps(text)) || compiled.regex.is_match(text);
        if let Some(kept) = self.compiled.get() {
            return matches(kept);
        }
        match pattern::compile(&self.source).map(|compiled| self.compiled.put(compiled)) {
            Ok(Ok(kept)) => matches(kept),
            Ok(Err(unkept)) => matches(&unkept),
            Err(_) => true,
        }
    }
}

/// Constraints on numeric values.
#[derive(Debug, Default)]
pub(super) struct NumberConstraints {
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
}

/// Constraints on the number of items or properties.
#[derive(Debug, Default)]
pub(super) struct CountConstraints {
    pub(super) items_min: Option<u64>,
    pub(super) items_max: Option<u64>,
    pub(super) properties_min: Option<u64>,
    pub(super) properties_max: Option<u64>,
}

/// Alternatives.
#[derive(Debug, Default)]
pub(super) struct SchemaAlternatives {
    pub(super) all_of: Vec<ValueConstraints>,
    pub(super) any_of: Vec<ValueConstraints>,
    pub(super) one_of: Vec<ValueConstraints>,
    pub(super) not: Option<ValueConstraints>,
}

impl ValueConstraints {
    /// Reads the constraints of a schema and of everything below it.
    pub(super) fn read(json: &Value) -> Self {
        let types = types(json);
        let mut rules = Self {
            format: format(json, &types),
            types,
            nullable: json["nullable"] == true,
            allowed: json["enum"].as_array().cloned().unwrap_or_default(),
            text: text(json),
            number: number(json),
            size: size(json),
            logic: logic(json),
            required: names(&json["required"]),
            properties: properties(json),
            additional: child(&json["additionalProperties"]),
            items: child(&json["items"]),
            map_keys: Vec::new(),
            has_expressions: json["x-kubernetes-validations"]
                .as_array()
                .is_some_and(|rules| !rules.is_empty()),
            has_structure: json["x-kubernetes-embedded-resource"] == true,
        };
        if json["x-kubernetes-list-type"] == "map" {
            rules.map_keys = names(&json["x-kubernetes-list-map-keys"]);
        }
        rules.has_structure |= matches!(json["x-kubernetes-list-type"].as_str(), Some("map" | "set"));
        rules.gather();
        rules
    }

    /// Collects facts from the constraints below.
    fn gather(&mut self) {
        let below = self.properties.values().chain(self.additional.as_deref()).chain(self.items.as_deref());
        let (expressions, structure) = below.fold((false, false), |(expressions, structure), rules| {
            (expressions | rules.has_expressions, structure | rules.has_structure)
        });
        self.has_expressions |= expressions;
        self.has_structure |= structure;
    }

    /// Returns whether this node or any below it has typed lists or embedded resources.
    pub(super) fn has_structure(&self) -> bool {
        self.has_structure
    }

    /// Returns whether this node or any below it has `x-kubernetes-validations`, which are evaluated elsewhere.
    pub fn has_expressions(&self) -> bool {
        self.has_expressions
    }
}

fn types(json: &Value) -> Vec<JsonType> {
    if json["x-kubernetes-int-or-string"] == true {
        return vec![JsonType::Integer, JsonType::String];
    }
    json["type"].as_str().and_then(JsonType::of).into_iter().collect()
}

fn format(json: &Value, types: &[JsonType]) -> Option<FormatCheck> {
    let name = json["format"].as_str()?;
    match types {
        [] | [JsonType::String] => FormatCheck::of_text(name),
        [JsonType::Integer] => FormatCheck::of_integer(name),
        [JsonType::Number] => FormatCheck::of_number(name),
        _ => None,
    }
}

fn text(json: &Value) -> Option<Box<TextConstraints>> {
    let pattern = json["pattern"].as_str().filter(|source| !source.is_empty());
    let text = TextConstraints {
        length_min: json["minLength"].as_u64(),
        length_max: json["maxLength"].as_u64(),
        pattern: pattern
            .map(|source| PatternConstraint { source: source.into(), compiled: PatternSlot::default() }),
    };
    let is_empty = text.length_min.is_none() && text.length_max.is_none() && text.pattern.is_none();
    (!is_empty).then(|| Box::new(text))
}

fn number(json: &Value) -> Option<Box<NumberConstraints>> {
    let number = NumberConstraints {
        minimum: json["minimum"].as_f64(),
        exclusive_minimum: json["exclusiveMinimum"] == true,
        maximum: json["maximum"].as_f64(),
        exclusive_maximum: json["exclusiveMaximum"] == true,
        multiple_of: json["multipleOf"].as_f64(),
    };
    let is_empty = number.minimum.is_none() && number.maximum.is_none() && number.multiple_of.is_none();
    (!is_empty).then(|| Box::new(number))
}

fn size(json: &Value) -> Option<Box<CountConstraints>> {
    let size = CountConstraints {
        items_min: json["minItems"].as_u64(),
        items_max: json["maxItems"].as_u64(),
        properties_min: json["minProperties"].as_u64(),
        properties_max: json["maxProperties"].as_u64(),
    };
    let all = [size.items_min, size.items_max, size.properties_min, size.properties_max];
    all.iter().any(Option::is_some).then(|| Box::new(size))
}

fn logic(json: &Value) -> Option<Box<SchemaAlternatives>> {
    let list = |name: &str| {
        json[name].as_array().into_iter().flatten().map(ValueConstraints::read).collect::<Vec<_>>()
    };
    let logic = SchemaAlternatives {
        all_of: list("allOf"),
        any_of: list("anyOf"),
        one_of: list("oneOf"),
        not: json["not"].is_object().then(|| ValueConstraints::read(&json["not"])),
    };
    let is_empty =
        logic.all_of.is_empty() && logic.any_of.is_empty() && logic.one_of.is_empty() && logic.not.is_none();
    (!is_empty).then(|| Box::new(logic))
}

fn properties(json: &Value) -> BTreeMap<Box<str>, ValueConstraints> {
    let fields = json["properties"].as_object().into_iter().flat_map(Map::iter);
    fields.map(|(name, schema)| (name.as_str().into(), ValueConstraints::read(schema))).collect()
}

fn child(json: &Value) -> Option<Box<ValueConstraints>> {
    json.is_object().then(|| Box::new(ValueConstraints::read(json)))
}

fn names(list: &Value) -> Vec<Box<str>> {
    list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(Into::into)).collect()
}
