//! Builds a [`Value`] while a parser runs, and records duplicate keys: one pass for every format.
//!
//! As in Kubernetes, the last of two equal keys wins, keys that are not strings become strings, and numbers become
//! 64-bit integers or else floating-point numbers; a floating-point number without a fraction is written without one,
//! unless the target type refuses such a number.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::field::{BoundedTexts, FieldPath};
use crate::object::memory::{MemoryBudget, MemoryBudgetExceeded};

/// Paths of duplicate keys; `None` if the caller did not ask for them.
pub(super) type DuplicateKeys = Option<RefCell<BoundedTexts>>;

/// Builds the value at one path.
#[derive(Clone, Copy)]
pub(super) struct ValueBuilder<'a> {
    pub(super) path: &'a FieldPath<'a>,
    pub(super) duplicates: &'a DuplicateKeys,
    /// Memory budget for the built value.
    pub(super) room: &'a MemoryBudget,
    pub(super) whole_floats: WholeFloats,
}

/// What happens to a floating-point number without a fraction, such as `2.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WholeFloats {
    /// It becomes an integer.
    Shorten,
    /// It stays a floating-point number.
    Keep,
}

/// The message given to the parser when the memory budget is exceeded.
pub(super) const TOO_LARGE: &str = "the body takes too much memory once it is read";

fn full<E: Error>(_: MemoryBudgetExceeded) -> E {
    E::custom(TOO_LARGE)
}

impl<'de> DeserializeSeed<'de> for ValueBuilder<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueBuilder<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(whole) => Ok(whole.into()),
            #[expect(
                clippy::cast_precision_loss,
                reason = "Kubernetes loses it too: beyond i64 it keeps floats"
            )]
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let built = match self.whole_floats {
            WholeFloats::Shorten => number(value),
            WholeFloats::Keep => Number::from_f64(value).map(Value::Number),
        };
        built.ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.room.text(text).map_err(full)?;
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.room.text(&text).map_err(full)?;
        Ok(Value::String(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = self.path.index(list.len());
            match elements.next_element_seed(ValueBuilder { path: &path, ..self })? {
                Some(element) => {
                    self.room.item().map_err(full)?;
                    list.push(element);
                }
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key_seed(MapKeyReader)? {
            let path = self.path.field(&name);
            self.room.entry(&name, map.len()).map_err(full)?;
            let value = fields.next_value_seed(ValueBuilder { path: &path, ..self })?;
            if let (true, Some(duplicates)) = (map.contains_key(&name), self.duplicates) {
                duplicates.borrow_mut().push_with(|| path.to_string());
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// Returns the number; integers that fit are written as integers.
pub(crate) fn number(value: f64) -> Option<Value> {
    /// Floats below 2^63 convert exactly.
    const WHOLE_MAX: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "just checked to be whole and in range")]
        return Some((value as i64).into());
    }
    Number::from_f64(value).map(Value::Number)
}

/// Parses a key: a string, or the value the format derived from an unquoted one, in Kubernetes' spelling.
struct MapKeyReader;

impl<'de> DeserializeSeed<'de> for MapKeyReader {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for MapKeyReader {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    /// Go's parser accepts such a key but cannot write it as JSON.
    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Err(E::custom("unsupported map key of type: %!s(<nil>), key: <nil>"))
    }
}
