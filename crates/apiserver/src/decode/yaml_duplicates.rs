//! Where keys of a YAML text come twice, in the words of Go's parser, which names lines instead of paths.
//!
//! The text is parsed a second time for it, so it is asked only about texts in which keys are known to come twice.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, Spanned, with_deserializer_from_str_with_options};

use crate::field::Texts;

/// What begins the complaint of Go's parser.
pub(super) const INTRO: &str = "yaml: unmarshal errors:";

/// The complaint about every key that came before in its map; `None`: there is none.
pub(super) fn complaint(text: &str, options: Options) -> Option<String> {
    let read = |parser: serde_saphyr::Deserializer<'_, '_>| Spanned::<Node>::deserialize(parser);
    let tree = with_deserializer_from_str_with_options(text, options, read).ok()?;
    let mut lines = Texts::new();
    tree.value.complain_into(&mut lines);
    (!lines.is_empty()).then(|| format!("{INTRO}\n  {}", lines.join("\n  ")))
}

/// The shape of a text: its keys, and where their values are.
enum Node {
    Scalar,
    List(Vec<Node>),
    Map(Vec<(Key, Spanned<Node>)>),
}

impl Node {
    /// Adds a line for every key that came before in its map; those inside of its value come first.
    fn complain_into(&self, lines: &mut Texts) {
        match self {
            Self::Scalar => {}
            Self::List(elements) => elements.iter().for_each(|element| element.complain_into(lines)),
            Self::Map(fields) => {
                let mut seen = HashSet::new();
                for (Key(key), value) in fields {
                    value.value.complain_into(lines);
                    if !seen.insert(key) {
                        let line = value.referenced.line();
                        lines.push_with(|| format!("line {line}: key {key} already set in map"));
                    }
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(Node::Map(map))
    }
}

/// A key as Go prints it: text in quotes, other scalars without.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, text: &str) -> Result<Key, E> {
        Ok(Key(format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\t', r"\t"))))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Key, E> {
        Ok(Key(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Key, E> {
        Ok(Key("<nil>".into()))
    }
}
