//! Finds duplicate keys in YAML and reports them with the wording of Go's parser, which names lines instead of paths.
//!
//! This parses the text a second time, so it runs only on YAML that is known to have duplicate keys.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, Spanned, with_deserializer_from_str_with_options};

use crate::field::BoundedTexts;

/// The first line of the message that Go's parser gives.
pub(super) const INTRO: &str = "yaml: unmarshal errors:";

/// Returns the message about every duplicate key, or `None` if there is none.
pub(super) fn error_text(text: &str, options: Options) -> Option<String> {
    let read = |parser: serde_saphyr::Deserializer<'_, '_>| Spanned::<YamlNode>::deserialize(parser);
    let tree = with_deserializer_from_str_with_options(text, options, read).ok()?;
    let mut lines = BoundedTexts::new();
    tree.value.report_into(&mut lines);
    (!lines.is_empty()).then(|| format!("{INTRO}\n  {}", lines.join("\n  ")))
}

/// Returns an unquoted key, given as it is spelled in the text, in the form in which Go prints it.
pub(super) fn printed_key(key: &str, options: Options) -> Option<String> {
    let read = |parser: serde_saphyr::Deserializer<'_, '_>| PrintedKey::deserialize(parser);
    with_deserializer_from_str_with_options(key, options, read).ok().map(|key| key.shown)
}

/// Returns a text key as Go prints it.
pub(super) fn printed_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\t', r"\t"))
}

/// The structure of a text: its keys, and where their values are.
enum YamlNode {
    Scalar,
    List(Vec<YamlNode>),
    Map(Vec<(PrintedKey, Spanned<YamlNode>)>),
}

impl YamlNode {
    /// Adds a line for every duplicate key; keys inside its value come first.
    fn report_into(&self, lines: &mut BoundedTexts) {
        match self {
            Self::Scalar => {}
            Self::List(elements) => elements.iter().for_each(|element| element.report_into(lines)),
            Self::Map(fields) => {
                let mut seen = HashSet::new();
                for (key, value) in fields {
                    value.value.report_into(lines);
                    if !seen.insert(key) {
                        let line = value.referenced.line();
                        let shown = &key.shown;
                        lines.push_with(|| format!("line {line}: key {shown} already set in map"));
                    }
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_none<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlNode, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<YamlNode, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(YamlNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<YamlNode, A::Error> {
        let mut map = Vec::new();
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(YamlNode::Map(map))
    }
}

/// A key as Go prints it: text in quotes, other scalars without.
#[derive(PartialEq, Eq, Hash)]
struct PrintedKey {
    shown: String,
    /// Whether it is a floating-point number, which differs from a whole number that is printed the same.
    is_float: bool,
}

impl PrintedKey {
    fn new(shown: String) -> Self {
        Self { shown, is_float: false }
    }
}

impl<'de> Deserialize<'de> for PrintedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = PrintedKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, text: &str) -> Result<PrintedKey, E> {
        Ok(PrintedKey::new(printed_text(text)))
    }

    fn visit_bool<E>(self, value: bool) -> Result<PrintedKey, E> {
        Ok(PrintedKey::new(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<PrintedKey, E> {
        Ok(PrintedKey::new(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<PrintedKey, E> {
        Ok(PrintedKey::new(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<PrintedKey, E> {
        Ok(PrintedKey { shown: value.to_string(), is_float: true })
    }

    fn visit_unit<E>(self) -> Result<PrintedKey, E> {
        Ok(PrintedKey::new("<nil>".into()))
    }
}
