//! Decodes a value into a built-in type as Kubernetes' own types would: wrong types are rejected with the message of
//! Go's decoder, and details that those types do not keep are dropped (nulls, empty optional fields, the spelling of
//! times and quantities).
//!
//! **Invariant:** decoding twice changes nothing. Unknown fields do not occur here, because pruning comes first.
//! [`super::add_always_written`] adds the fields that those types add when they are written.

use homeostat_core::quantity::{Quantity, QuantityError};
use serde_json::{Map, Value};

use super::time::{self, Precision};
use super::{IntegerWidth, ObjectSchema, Presence, Property, Schema, SchemaRef, SchemaType};
use crate::decode::build::number as shortest_number;
use crate::decode::type_name;
use crate::field::FieldPath;
use crate::status::Status;

/// Types of this group keep empty lists: they are stored as JSON, not as protobuf, which has no empty lists.
const JSON_STORED: &str = "io.k8s.apiextensions-apiserver.";

/// Decodes `value` in place.
///
/// # Errors
/// Fails with the message of Go's decoder about the first wrong value.
pub fn decode(schema: &SchemaRef, value: &mut Value) -> Result<(), String> {
    DecodePosition { owner: "", path: &FieldPath::Root, keeps_empty: false, words: ErrorWording::Decoder }
        .reference(schema, value)
}

/// Decodes the result of a strategic merge patch in place: Kubernetes converts it to an object without going through
/// JSON.
///
/// # Errors
/// Fails with the converter's message about the first wrong value.
pub fn restore(schema: &SchemaRef, value: &mut Value) -> Result<(), String> {
    DecodePosition { owner: "", path: &FieldPath::Root, keeps_empty: false, words: ErrorWording::Converter }
        .reference(schema, value)
}

/// Decodes the `metadata` of a custom object in place; Kubernetes has no types for the rest of it.
///
/// # Errors
/// Fails with the message of Go's decoder about the first wrong value.
pub fn decode_metadata(object: &mut Value) -> Result<(), String> {
    object.get_mut("metadata").map_or(Ok(()), decode_object_meta)
}

/// Decodes metadata on its own: Kubernetes decodes it separately from its object.
pub(super) fn decode_object_meta(metadata: &mut Value) -> Result<(), String> {
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if !metadata.is_object() {
        let found = type_name(metadata);
        return Err(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    }
    let place = DecodePosition {
        owner: "",
        path: &FieldPath::Root,
        keeps_empty: false,
        words: ErrorWording::Decoder,
    };
    place.reference(super::object_meta(), metadata)
}

/// Returns the 400 for a body that cannot be decoded into its kind.
pub fn cannot_be_handled(kind: &str, version: &str, why: &str) -> Status {
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

#[derive(Clone, Copy)]
struct DecodePosition<'a> {
    /// The type that has this field, without its package.
    owner: &'a str,
    /// Only field names: Go's decoder drops indexes and keys.
    path: &'a FieldPath<'a>,
    keeps_empty: bool,
    words: ErrorWording,
}

/// The component whose wording is used to reject a wrong value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorWording {
    /// Go's JSON decoder.
    Decoder,
    /// Kubernetes' converter of decoded JSON.
    Converter,
}

impl DecodePosition<'_> {
    fn reference(self, schema: &SchemaRef, value: &mut Value) -> Result<(), String> {
        match schema {
            SchemaRef::Inline(schema) => self.value(schema, "", value),
            SchemaRef::Named(named) => {
                let keeps_empty = named.name.starts_with(JSON_STORED);
                DecodePosition { keeps_empty, ..self }.value(schema, named.name, value)
            }
        }
    }

    fn value(self, schema: &Schema, name: &str, value: &mut Value) -> Result<(), String> {
        match (&schema.kind, &mut *value) {
            (SchemaType::Object(object), Value::Object(fields)) => {
                let owner = if name.is_empty() { self.owner } else { short(name) };
                DecodePosition { owner, ..self }.fields(object, fields)
            }
            (SchemaType::Array(items), Value::Array(elements)) => {
                elements.iter_mut().try_for_each(|element| self.element(items, element))
            }
            (SchemaType::String(format), Value::String(text)) => formatted(format, text),
            (SchemaType::String(format), Value::Number(number)) if &**format == "quantity" => {
                *value = canonical_quantity(&number.to_string())?.into();
                Ok(())
            }
            (SchemaType::Integer(width), Value::Number(number)) if fits(*width, number) => Ok(()),
            (SchemaType::IntOrString, Value::Number(number)) if fits(IntegerWidth::Int32, number) => Ok(()),
            (SchemaType::Any, _) | (SchemaType::Number, Value::Number(_)) => {
                shorten_whole_floats(value);
                Ok(())
            }
            (SchemaType::Boolean, Value::Bool(_)) | (SchemaType::IntOrString, Value::String(_)) => Ok(()),
            (_, found) => Err(self.mismatch(schema, name, found)),
        }
    }

    fn fields(self, object: &ObjectSchema, fields: &mut Map<String, Value>) -> Result<(), String> {
        let mut result = Ok(());
        fields.retain(|name, value| {
            if result.is_err() {
                return true;
            }
            let decoded = match (object.properties.get(name.as_str()), &object.additional) {
                (Some(property), _) => self.field(name, property, value),
                (None, Some(additional)) => self.element(additional, value).map(|()| true),
                (None, None) => Ok(true),
            };
            decoded.unwrap_or_else(|error| {
                result = Err(error);
                true
            })
        });
        result
    }

    /// Decodes a field; returns whether it stays.
    fn field(self, name: &str, property: &Property, value: &mut Value) -> Result<bool, String> {
        if value.is_null() {
            return Ok(false);
        }
        let path = self.path.field(name);
        DecodePosition { path: &path, ..self }.reference(&property.schema, value)?;
        Ok(match property.presence {
            Presence::Optional | Presence::Null => true,
            Presence::OmitEmpty => !is_empty(value),
            Presence::Always => self.keeps_empty || !is_empty_collection(value, &property.schema),
        })
    }

    /// Decodes an element of a list or a value of a map: null is the zero of its type.
    fn element(self, items: &Property, value: &mut Value) -> Result<(), String> {
        if value.is_null() {
            *value = zero(&items.schema);
            return Ok(());
        }
        self.reference(&items.schema, value)
    }

    fn mismatch(self, schema: &Schema, name: &str, value: &Value) -> String {
        let wanted = go_type(schema, name);
        let wants_number =
            matches!(schema.kind, SchemaType::Integer(_) | SchemaType::IntOrString | SchemaType::Number);
        let found = match value {
            Value::Number(number) if wants_number => format!("number {number}"),
            other => type_name(other).into(),
        };
        // Types with their own decoder do not know the field they are in.
        let decodes_itself = matches!(&schema.kind, SchemaType::IntOrString)
            || matches!(&schema.kind, SchemaType::String(format) if matches!(&**format, "date-time" | "micro-time"));
        if self.words == ErrorWording::Converter && !decodes_itself {
            return cannot_restore(schema, value, &wanted);
        }
        if self.owner.is_empty() || decodes_itself {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            self.owner, self.path
        )
    }
}

/// Returns the converter's message about a value that it cannot convert to the wanted type.
fn cannot_restore(schema: &Schema, found: &Value, wanted: &str) -> String {
    let kind = match found {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    match (&schema.kind, kind) {
        (SchemaType::Object(ObjectSchema { additional: Some(_), .. }), _) => {
            format!("cannot restore map from {kind}")
        }
        (SchemaType::Object(_), _) => format!("cannot restore struct from: {kind}"),
        (SchemaType::Array(_), _) => format!("cannot restore slice from {kind}"),
        (SchemaType::String(format), _) if &**format == "byte" => format!("cannot restore slice from {kind}"),
        // Go can convert integers to strings and other numbers to integers; JSON cannot.
        (SchemaType::String(_), "int64") | (SchemaType::Integer(_), "float64") => {
            format!("cannot convert {kind} to {wanted}")
        }
        _ => format!("unrecognized type: {wanted}"),
    }
}

/// Returns the canonical text of a quantity.
fn canonical_quantity(text: &str) -> Result<String, &'static str> {
    text.parse().map(|quantity: Quantity| quantity.to_string()).map_err(QuantityError::message)
}

fn formatted(format: &str, text: &mut String) -> Result<(), String> {
    let changed = match format {
        "date-time" => time::normal(text, Precision::Seconds)?,
        "micro-time" => time::normal(text, Precision::Micros)?,
        "quantity" => Some(canonical_quantity(text.trim())?),
        "byte" => return base64(text),
        _ => None,
    };
    if let Some(changed) = changed {
        *text = changed;
    }
    Ok(())
}

/// Checks base64 text in place, without decoding it, because it may be large; removes line breaks.
fn base64(text: &mut String) -> Result<(), String> {
    if text.contains(['\n', '\r']) {
        text.retain(|letter| !matches!(letter, '\n' | '\r'));
    }
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let bad = match body.iter().position(|byte| !is_digit(byte)) {
        Some(at) => at,
        None if !bytes.len().is_multiple_of(4) => bytes.len() / 4 * 4,
        None => return Ok(()),
    };
    Err(format!("illegal base64 data at input byte {bad}"))
}

/// Writes floating-point numbers without a fraction as integers, as Go does when it writes decoded values back.
fn shorten_whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(shortened) = number.as_f64().and_then(shortest_number) {
                *value = shortened;
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(shorten_whole_floats),
        Value::Object(fields) => fields.values_mut().for_each(shorten_whole_floats),
        _ => {}
    }
}

fn fits(width: IntegerWidth, number: &serde_json::Number) -> bool {
    match (width, number.as_i64()) {
        (IntegerWidth::Int64, Some(_)) => true,
        (IntegerWidth::Int32, Some(whole)) => i32::try_from(whole).is_ok(),
        (_, None) => false,
    }
}

/// Returns the zero value of Go's type.
pub(super) fn zero(schema: &Schema) -> Value {
    match &schema.kind {
        SchemaType::String(format) => match &**format {
            "date-time" | "micro-time" => Value::Null,
            "quantity" => "0".into(),
            _ => "".into(),
        },
        SchemaType::Integer(_) | SchemaType::Number | SchemaType::IntOrString => 0.into(),
        SchemaType::Boolean => false.into(),
        SchemaType::Object(object) if object.additional.is_none() => Value::Object(Map::new()),
        SchemaType::Object(_) | SchemaType::Array(_) | SchemaType::Any => Value::Null,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn is_empty_collection(value: &Value, schema: &Schema) -> bool {
    match (&schema.kind, value) {
        (SchemaType::Array(_), Value::Array(elements)) => elements.is_empty(),
        (SchemaType::Object(object), Value::Object(fields)) => {
            object.additional.is_some() && fields.is_empty()
        }
        _ => false,
    }
}

/// Returns a type as Go spells it.
fn go_type(schema: &Schema, name: &str) -> String {
    let below = |property: &Property| match &property.schema {
        SchemaRef::Named(named) => go_type(&property.schema, named.name),
        SchemaRef::Inline(inline) => go_type(inline, ""),
    };
    match &schema.kind {
        SchemaType::Object(ObjectSchema { additional: Some(values), .. }) => {
            format!("map[string]{}", below(values))
        }
        SchemaType::Object(_) => package_and_name(name),
        SchemaType::Array(items) => format!("[]{}", below(items)),
        SchemaType::String(format) => match &**format {
            "byte" => "[]uint8".into(),
            "quantity" => "resource.Quantity".into(),
            _ => "string".into(),
        },
        SchemaType::Integer(IntegerWidth::Int64) => "int64".into(),
        SchemaType::Integer(IntegerWidth::Int32) | SchemaType::IntOrString => "int32".into(),
        SchemaType::Number => "float64".into(),
        SchemaType::Boolean => "bool".into(),
        SchemaType::Any => "interface {}".into(),
    }
}

/// Returns `v1.ObjectMeta` for `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
fn package_and_name(name: &str) -> String {
    let mut parts = name.rsplitn(3, '.');
    let last = parts.next().unwrap_or_default();
    parts.next().map_or_else(|| last.to_owned(), |package| format!("{package}.{last}"))
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    #[track_caller]
    fn check(kind: (&str, &str), mut value: Value, expected: &Result<Value, &str>) {
        let schema = built_in(kind.0, "v1", kind.1).expect("a served kind");
        let result = decode(&schema, &mut value);
        assert_eq!(
            result.as_ref().map(|()| &value).map_err(String::as_str),
            expected.as_ref().map_err(|text| *text)
        );
        if expected.is_ok() {
            let again = value.clone();
            decode(&schema, &mut value).expect("decoding again");
            assert_eq!(value, again);
        }
    }

    const CONFIG_MAP: (&str, &str) = ("", "ConfigMap");
    const DEPLOYMENT: (&str, &str) = ("apps", "Deployment");
    const POD: (&str, &str) = ("", "Pod");

    #[test]
    fn wrong_types_are_refused_with_the_words_of_go() {
        let go = |rest: &str| format!("json: cannot unmarshal {rest}");
        let rows = [
            (
                CONFIG_MAP,
                json!({"metadata": {"name": 5}}),
                "number into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                CONFIG_MAP,
                json!({"metadata": []}),
                "array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            ),
            (
                CONFIG_MAP,
                json!({"data": "text"}),
                "string into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                CONFIG_MAP,
                json!({"data": {"k": 5}}),
                "number into Go struct field ConfigMap.data of type string",
            ),
            (
                DEPLOYMENT,
                json!({"spec": {"replicas": "3"}}),
                "string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                DEPLOYMENT,
                json!({"spec": {"replicas": 1.5}}),
                "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                DEPLOYMENT,
                json!({"spec": {"replicas": 3_000_000_000_i64}}),
                "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                POD,
                json!({"spec": {"containers": {}}}),
                "object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                POD,
                json!({"spec": {"containers": [{"ports": [{"containerPort": "x"}]}]}}),
                "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
        ];
        for (kind, value, text) in rows {
            check(kind, value, &Err(&go(text)));
        }
        let bad =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        check(POD, json!({"spec": {"overhead": {"cpu": "x"}}}), &Err(bad));
        check(("", "Secret"), json!({"data": {"a": "*"}}), &Err("illegal base64 data at input byte 0"));
    }

    #[test]
    fn the_converter_has_words_of_its_own() {
        let rows = [
            (DEPLOYMENT, json!({"metadata": {"labels": "x"}}), "cannot restore map from string"),
            (DEPLOYMENT, json!({"spec": {"template": "x"}}), "cannot restore struct from: string"),
            (DEPLOYMENT, json!({"spec": {"replicas": "three"}}), "unrecognized type: int32"),
            (DEPLOYMENT, json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
            (DEPLOYMENT, json!({"spec": {"paused": 1}}), "unrecognized type: bool"),
            (POD, json!({"spec": {"containers": {"name": "a"}}}), "cannot restore slice from map"),
            (POD, json!({"spec": {"nodeName": 5}}), "cannot convert int64 to string"),
            (POD, json!({"spec": {"nodeName": true}}), "unrecognized type: string"),
        ];
        for ((group, kind), mut value, expected) in rows {
            let schema = built_in(group, "v1", kind).expect("a served kind");
            assert_eq!(restore(&schema, &mut value), Err(expected.to_owned()));
        }
    }

    #[test]
    fn nulls_and_empty_optional_fields_are_forgotten() {
        check(
            CONFIG_MAP,
            json!({"metadata": {"name": "a", "labels": {}, "annotations": null, "finalizers": []}, "data": {}}),
            &Ok(json!({"metadata": {"name": "a"}})),
        );
        check(
            DEPLOYMENT,
            json!({"spec": {"replicas": 0, "paused": false, "minReadySeconds": 0, "strategy": {},
                "template": {"spec": {"containers": [{"name": "a", "image": "", "securityContext": {}}]}}}}),
            &Ok(json!({"spec": {"replicas": 0, "strategy": {},
                "template": {"spec": {"containers": [{"name": "a", "securityContext": {}}]}}}})),
        );
        check(CONFIG_MAP, json!({"data": {"a": null}}), &Ok(json!({"data": {"a": ""}})));
        check(("rbac.authorization.k8s.io", "Role"), json!({"rules": []}), &Ok(json!({})));
    }

    #[test]
    fn times_and_quantities_are_written_in_one_way() {
        check(
            POD,
            json!({"metadata": {"creationTimestamp": "2020-01-01T02:00:00.5+02:00"}, "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}}}]}}),
            &Ok(json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}, "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": "2", "memory": "1536Mi"}}}]}})),
        );
    }

    #[test]
    fn the_metadata_of_custom_objects_is_typed() {
        let mut object = json!({"metadata": "x"});
        let error = decode_metadata(&mut object).expect_err("not metadata");
        assert_eq!(error, "json: cannot unmarshal string into Go value of type v1.ObjectMeta");
        let mut object = json!({"metadata": {"labels": {"a": 1}}});
        let error = decode_metadata(&mut object).expect_err("not a label");
        assert_eq!(
            error,
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
        );
        let mut object = json!({"metadata": {"labels": {}, "name": "a"}, "spec": {"labels": {}}});
        decode_metadata(&mut object).expect("good metadata");
        assert_eq!(object, json!({"metadata": {"name": "a"}, "spec": {"labels": {}}}));
    }
}
