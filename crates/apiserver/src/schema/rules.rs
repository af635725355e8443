//! The constraints a custom kind's schema states, read once from its JSON so that checking a value parses nothing.
//!
//! A tree beside the structural one: alternatives (`anyOf` …) constrain values but declare nothing. Keywords
//! Kubernetes refuses in definitions are not read.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::formats::Format;
use super::pattern::{self, Compiled, Keep};

/// What is asked of a value at one place.
#[derive(Debug, Default)]
pub struct Rules {
    pub(super) types: Vec<Type>,
    pub(super) nullable: bool,
    pub(super) format: Option<Format>,
    pub(super) allowed: Vec<Value>,
    pub(super) text: Option<Box<Text>>,
    pub(super) number: Option<Box<Number>>,
    pub(super) size: Option<Box<Size>>,
    pub(super) logic: Option<Box<Logic>>,
    pub(super) required: Vec<Box<str>>,
    pub(super) properties: BTreeMap<Box<str>, Rules>,
    pub(super) additional: Option<Box<Rules>>,
    pub(super) items: Option<Box<Rules>>,
    /// Keys that identify the items, for lists of that type.
    pub(super) map_keys: Vec<Box<str>>,
    has_expressions: bool,
    has_structure: bool,
}

/// A JSON schema type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    /// All types, in the order complaints list them.
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

/// Constraints on text.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) length_min: Option<u64>,
    pub(super) length_max: Option<u64>,
    pub(super) pattern: Option<Pattern>,
}

/// A regular expression, compiled when a value first needs it.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: Box<str>,
    compiled: Keep,
}

impl Pattern {
    /// Does the text match, if the steps that takes may be spent? A pattern we cannot compile matches everything: the
    /// definition was accepted with it, by an older server.
    pub(super) fn is_match(&self, text: &str, spend: impl FnOnce(usize) -> bool) -> bool {
        let matches = |compiled: &Compiled| !spend(compiled.steps(text)) || compiled.regex.is_match(text);
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

/// Constraints on numbers.
#[derive(Debug, Default)]
pub(super) struct Number {
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
}

/// Constraints on how many items or properties there are.
#[derive(Debug, Default)]
pub(super) struct Size {
    pub(super) items_min: Option<u64>,
    pub(super) items_max: Option<u64>,
    pub(super) properties_min: Option<u64>,
    pub(super) properties_max: Option<u64>,
}

/// Alternatives.
#[derive(Debug, Default)]
pub(super) struct Logic {
    pub(super) all_of: Vec<Rules>,
    pub(super) any_of: Vec<Rules>,
    pub(super) one_of: Vec<Rules>,
    pub(super) not: Option<Rules>,
}

impl Rules {
    /// Reads the rules of a schema and of all below it.
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

    /// Learns from what is below.
    fn gather(&mut self) {
        let below = self.properties.values().chain(self.additional.as_deref()).chain(self.items.as_deref());
        let (expressions, structure) = below.fold((false, false), |(expressions, structure), rules| {
            (expressions | rules.has_expressions, structure | rules.has_structure)
        });
        self.has_expressions |= expressions;
        self.has_structure |= structure;
    }

    /// Are there typed lists or embedded resources here or below?
    pub(super) fn has_structure(&self) -> bool {
        self.has_structure
    }

    /// Are there `x-kubernetes-validations` here or below? They are judged elsewhere.
    pub fn has_expressions(&self) -> bool {
        self.has_expressions
    }
}

fn types(json: &Value) -> Vec<Type> {
    if json["x-kubernetes-int-or-string"] == true {
        return vec![Type::Integer, Type::String];
    }
    json["type"].as_str().and_then(Type::of).into_iter().collect()
}

fn format(json: &Value, types: &[Type]) -> Option<Format> {
    let name = json["format"].as_str()?;
    match types {
        [] | [Type::String] => Format::of_text(name),
        [Type::Integer] => Format::of_integer(name),
        [Type::Number] => Format::of_number(name),
        _ => None,
    }
}

fn text(json: &Value) -> Option<Box<Text>> {
    let pattern = json["pattern"].as_str().filter(|source| !source.is_empty());
    let text = Text {
        length_min: json["minLength"].as_u64(),
        length_max: json["maxLength"].as_u64(),
        pattern: pattern.map(|source| Pattern { source: source.into(), compiled: Keep::default() }),
    };
    let is_empty = text.length_min.is_none() && text.length_max.is_none() && text.pattern.is_none();
    (!is_empty).then(|| Box::new(text))
}

fn number(json: &Value) -> Option<Box<Number>> {
    let number = Number {
        minimum: json["minimum"].as_f64(),
        exclusive_minimum: json["exclusiveMinimum"] == true,
        maximum: json["maximum"].as_f64(),
        exclusive_maximum: json["exclusiveMaximum"] == true,
        multiple_of: json["multipleOf"].as_f64(),
    };
    let is_empty = number.minimum.is_none() && number.maximum.is_none() && number.multiple_of.is_none();
    (!is_empty).then(|| Box::new(number))
}

fn size(json: &Value) -> Option<Box<Size>> {
    let size = Size {
        items_min: json["minItems"].as_u64(),
        items_max: json["maxItems"].as_u64(),
        properties_min: json["minProperties"].as_u64(),
        properties_max: json["maxProperties"].as_u64(),
    };
    let all = [size.items_min, size.items_max, size.properties_min, size.properties_max];
    all.iter().any(Option::is_some).then(|| Box::new(size))
}

fn logic(json: &Value) -> Option<Box<Logic>> {
    let list = |name: &str| json[name].as_array().into_iter().flatten().map(Rules::read).collect::<Vec<_>>();
    let logic = Logic {
        all_of: list("allOf"),
        any_of: list("anyOf"),
        one_of: list("oneOf"),
        not: json["not"].is_object().then(|| Rules::read(&json["not"])),
    };
    let is_empty =
        logic.all_of.is_empty() && logic.any_of.is_empty() && logic.one_of.is_empty() && logic.not.is_none();
    (!is_empty).then(|| Box::new(logic))
}

fn properties(json: &Value) -> BTreeMap<Box<str>, Rules> {
    let fields = json["properties"].as_object().into_iter().flat_map(Map::iter);
    fields.map(|(name, schema)| (name.as_str().into(), Rules::read(schema))).collect()
}

fn child(json: &Value) -> Option<Box<Rules>> {
    json.is_object().then(|| Box::new(Rules::read(json)))
}

fn names(list: &Value) -> Vec<Box<str>> {
    list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(Into::into)).collect()
}
