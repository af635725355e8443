//! Decodes objects without their `metadata.managedFields`: the parser skips the bytes, nothing is allocated. On a
//! typical object that is half of the text and most of the small allocations.
//!
//! It is a serde adapter that watches for the key `metadata` at the top and `managedFields` below it, and hands
//! everything else through; it works for any type, also those that use `flatten`.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// A `T` read without managed fields.
#[derive(Debug)]
pub(crate) struct Trimmed<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Trimmed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(Skim { inner: deserializer, level: Level::Object }).map(Self)
    }
}

/// Where in the object the parser is.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
}

/// A deserializer, seed, visitor or map access of the inner kind that knows its level.
struct Skim<T> {
    inner: T,
    level: Level,
}

macro_rules! hand_through {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(Skim { inner: visitor, level: self.level })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Skim<D> {
    type Error = D::Error;

    hand_through! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Skim { inner: visitor, level: self.level })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_newtype_struct(name, Skim { inner: visitor, level: self.level })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }
}

macro_rules! visit_through {
    ($($method:ident: $type:ty)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Skim<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit_through! {
        visit_bool: bool visit_i8: i8 visit_i16: i16 visit_i32: i32 visit_i64: i64 visit_i128: i128
        visit_u8: u8 visit_u16: u16 visit_u32: u32 visit_u64: u64 visit_u128: u128 visit_f32: f32 visit_f64: f64
        visit_char: char visit_str: &str visit_borrowed_str: &'de str visit_string: String
        visit_bytes: &[u8] visit_borrowed_bytes: &'de [u8] visit_byte_buf: Vec<u8>
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Skim { inner: deserializer, level: self.level })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Skim { inner: deserializer, level: self.level })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(SkimMap { inner: map, level: self.level, value_is_metadata: false })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(data)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Skim<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Skim { inner: deserializer, level: self.level })
    }
}

struct SkimMap<A> {
    inner: A,
    level: Level,
    value_is_metadata: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for SkimMap<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(FieldName(name)) = self.inner.next_key()? {
            if self.level == Level::Metadata && name == "managedFields" {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            self.value_is_metadata = self.level == Level::Object && name == "metadata";
            return match name {
                Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
                Cow::Owned(name) => seed.deserialize(StringDeserializer::new(name)),
            }
            .map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if self.value_is_metadata {
            self.inner.next_value_seed(Skim { inner: seed, level: Level::Metadata })
        } else {
            self.inner.next_value_seed(seed)
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A map key, borrowed from the text when it has no escapes.
struct FieldName<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for FieldName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = FieldName<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }
            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(FieldName(Cow::Borrowed(name)))
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(FieldName(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::DynamicObject;
    use kube::core::metadata::PartialObjectMeta;
    use serde_json::json;

    use super::*;

    fn sample() -> String {
        // `managedFields` outside metadata is the user's own data and stays.
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "labels": {"managedFields": "mine"},
                "managedFields": [{"manager": "x", "operation": "Apply", "fieldsV1": {"f:data": {}}}],
                "uid": "u"
            },
            "data": {"managedFields": "kept", "quoted\n": "also"}
        })
        .to_string()
    }

    #[test]
    fn managed_fields_are_skipped_and_nothing_else() {
        let Trimmed(map) = serde_json::from_str::<Trimmed<ConfigMap>>(&sample()).expect("decodes");
        assert_eq!(map.metadata.managed_fields, None);
        assert_eq!(map.metadata.uid.as_deref(), Some("u"));
        assert_eq!(map.metadata.labels.expect("labels")["managedFields"], "mine");
        assert_eq!(map.data.expect("data").len(), 2);
    }

    #[test]
    fn types_that_flatten_are_trimmed_too() {
        let Trimmed(object) = serde_json::from_str::<Trimmed<DynamicObject>>(&sample()).expect("decodes");
        assert_eq!(object.metadata.managed_fields, None);
        assert_eq!(object.data["data"]["managedFields"], "kept");
        let Trimmed(meta) =
            serde_json::from_str::<Trimmed<PartialObjectMeta<ConfigMap>>>(&sample()).expect("decodes");
        assert_eq!((meta.metadata.managed_fields, meta.metadata.name.as_deref()), (None, Some("a")));
    }
}
