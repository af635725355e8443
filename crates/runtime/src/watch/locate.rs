//! Why an object does not decode, with the field: ``spec.content: invalid type: integer `7`, expected a string``. The
//! decoder's own words name a line and a column of a text that nobody has seen.
//!
//! The object is decoded a second time, through an adapter that notes the way to each value. That is slow, and only done
//! after the quick decode has failed; whether an object decodes is never decided here. Below an enum the way is not
//! followed: its name is where it ends.

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

use super::decode::Trimmed;
use crate::kind::Kind;

/// The words for people about an object that does not decode as `K`; `error` is what the quick decode said.
pub(super) fn explain<K: Kind>(value: &Value, error: &Error) -> String {
    let trail = Trail::default();
    match Trimmed::<K>::deserialize(Place { value, trail: &trail }) {
        Ok(_) => error.to_string(),
        Err(error) => trail.before(&error),
    }
}

/// The way to the value that failed, innermost step first: it is noted on the way out.
#[derive(Default)]
struct Trail(RefCell<Vec<String>>);

impl Trail {
    /// Passes on what came of a value below this step.
    fn note<T>(&self, decoded: Result<T, Error>, step: impl FnOnce() -> String) -> Result<T, Error> {
        match &decoded {
            // Whoever failed below was forgiven by a type that tries several ways.
            Ok(_) => self.0.borrow_mut().clear(),
            Err(_) => self.0.borrow_mut().push(step()),
        }
        decoded
    }

    fn before(&self, error: &Error) -> String {
        let way: String = self.0.borrow().iter().rev().map(String::as_str).collect();
        match way.trim_start_matches('.') {
            "" => error.to_string(),
            way => format!("{way}: {error}"),
        }
    }
}

/// A field as one step of the way.
fn step(field: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '$');
    if field.chars().all(is_plain) { format!(".{field}") } else { format!("[{field:?}]") }
}

/// A value that knows where it notes its way.
#[derive(Clone, Copy)]
struct Place<'a> {
    value: &'a Value,
    trail: &'a Trail,
}

impl<'de> Deserializer<'de> for Place<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let trail = self.trail;
        match self.value {
            Value::Array(items) => visitor.visit_seq(Items { rest: items, index: 0, trail }),
            Value::Object(fields) => visitor.visit_map(Fields { rest: fields.iter(), value: None, trail }),
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    rest: &'a [Value],
    index: usize,
    trail: &'a Trail,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((value, rest)) = self.rest.split_first() else { return Ok(None) };
        let index = self.index;
        (self.rest, self.index) = (rest, index + 1);
        let decoded = seed.deserialize(Place { value, trail: self.trail });
        self.trail.note(decoded, || format!("[{index}]")).map(Some)
    }
}

struct Fields<'a> {
    rest: serde_json::map::Iter<'a>,
    value: Option<(&'a str, &'a Value)>,
    trail: &'a Trail,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((field, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some((field, value));
        let alone = Value::Object(Map::from_iter([(field.clone(), Value::Null)]));
        self.trail.note(alone.deserialize_any(FieldName(seed)), || step(field)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (field, value) = self.value.take().ok_or_else(|| Error::custom("a value before its key"))?;
        let decoded = seed.deserialize(Place { value, trail: self.trail });
        self.trail.note(decoded, || step(field))
    }
}

/// Reads the only key of an object by the rules of JSON, which know keys that are numbers.
struct FieldName<S>(S);

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for FieldName<S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<S::Value, A::Error> {
        let name = map.next_key_seed(self.0)?.ok_or_else(|| A::Error::custom("no field"))?;
        map.next_value::<IgnoredAny>()?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "test.dev", version = "v1", kind = "Odd", namespaced)]
    #[serde(rename_all = "camelCase")]
    struct OddSpec {
        content: String,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        by_number: BTreeMap<u8, Option<u8>>,
        #[serde(default)]
        by_name: BTreeMap<String, bool>,
        choice: Option<Choice>,
    }

    #[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
    struct Part {
        size: u8,
    }

    #[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
    enum Choice {
        One,
        Two(u8),
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(object: Value, expected: &str) {
        let error = serde_json::from_value::<Odd>(object.clone()).expect_err("it does not decode");
        assert_eq!(explain::<Odd>(&object, &error), expected);
    }

    /// With this beside a spec that is right.
    fn with(field: &str, value: Value) -> Value {
        let mut object = json!({"metadata": {"managedFields": "skipped"}, "spec": {"content": "x"}});
        object["spec"][field] = value;
        object
    }

    #[test]
    fn the_field_is_named() {
        check(with("content", json!(7)), "spec.content: invalid type: integer `7`, expected a string");
        check(with("parts", json!([{"size": 1}, {}])), "spec.parts[1]: missing field `size`");
        check(
            with("parts", json!([{"size": 256}])),
            "spec.parts[0].size: invalid value: integer `256`, expected u8",
        );
        check(
            with("byNumber", json!({"1": 2, "2": "two"})),
            "spec.byNumber.2: invalid type: string \"two\", expected u8",
        );
        check(
            with("byName", json!({"app.kubernetes.io/name": 1})),
            "spec.byName[\"app.kubernetes.io/name\"]: invalid type: integer `1`, expected a boolean",
        );
        check(
            with("choice", json!("Three")),
            "spec.choice: unknown variant `Three`, expected `One` or `Two`",
        );
        check(json!({"metadata": {}}), "missing field `spec`");
        check(
            json!({"metadata": {"labels": {"a": 1}}, "spec": {"content": "x"}}),
            "metadata.labels.a: invalid type: integer `1`, expected a string",
        );
    }

    #[test]
    fn what_only_the_quick_decode_refuses_keeps_its_words() {
        let good = with("choice", json!({"Two": 2}));
        let error = Error::custom("odd");
        assert_eq!(explain::<Odd>(&good, &error), "odd");
    }
}
