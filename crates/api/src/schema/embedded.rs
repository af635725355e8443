//! Handles whole resources inside custom objects (`x-kubernetes-embedded-resource`): their metadata is typed like that
//! of any object ([`coerce`]), and they must have kind and apiVersion ([`validate`]).
//!
//! Unknown fields in their metadata are pruned earlier. Their other fields are validated only against the schema. As in
//! Kubernetes, an update is rejected even for errors that existed before.

use serde_json::{Map, Value};

use super::typecheck::decode_object_meta;
use super::{Schema, SchemaType};
use crate::field::{Error, Errors, FieldPath};
use crate::metadata::validate::{MetadataRules, validate_object_meta};
use crate::names::{self, NameRule};

/// A time that is not set, as Go's types write it.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";
/// A name for metadata without one: templates do not need a name.
const SOME_NAME: &str = "fakename";

/// What happens to a value of the wrong type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrongTypePolicy {
    /// The object is rejected.
    Refused,
    /// The value is dropped: it was stored before this was checked.
    Dropped,
}

/// Decodes the metadata of the resources embedded in a custom object.
///
/// # Errors
/// Returns the first value of a wrong type as the error.
pub fn decode_embedded(schema: &Schema, object: &mut Value) -> Result<(), String> {
    if !has_any(schema) {
        return Ok(());
    }
    coerce(schema, object, &FieldPath::Root).map_err(|error| format!("{}: {}", error.field, error.body))
}

/// Drops values of a wrong type in the resources embedded in a stored object.
pub fn repair_embedded(schema: &Schema, object: &mut Value) {
    if has_any(schema) {
        let dropped = walk(schema, object, &FieldPath::Root, WrongTypePolicy::Dropped);
        dropped.expect("what is dropped is not refused");
    }
}

/// Decodes the metadata of a resource and of the resources below it.
pub(super) fn coerce(schema: &Schema, value: &mut Value, path: &FieldPath<'_>) -> Result<(), Error> {
    walk(schema, value, path, WrongTypePolicy::Refused)
}

fn has_any(schema: &Schema) -> bool {
    schema.rules.as_ref().is_some_and(|rules| rules.has_structure())
}

fn walk(
    schema: &Schema,
    value: &mut Value,
    path: &FieldPath<'_>,
    wrong: WrongTypePolicy,
) -> Result<(), Error> {
    match (&schema.kind, value) {
        (SchemaType::Object(object), Value::Object(fields)) => {
            if schema.embedded_resource {
                types(fields, path, wrong)?;
                metadata(fields, path, wrong)?;
            }
            for (name, value) in fields {
                if let Some(property) = object.properties.get(name.as_str()) {
                    walk(&property.schema, value, &path.field(name), wrong)?;
                } else if let Some(additional) = &object.additional {
                    walk(&additional.schema, value, &path.key(name), wrong)?;
                }
            }
            Ok(())
        }
        (SchemaType::Array(items), Value::Array(elements)) => {
            let mut numbered = elements.iter_mut().enumerate();
            numbered.try_for_each(|(at, element)| walk(&items.schema, element, &path.index(at), wrong))
        }
        _ => Ok(()),
    }
}

fn types(fields: &mut Map<String, Value>, path: &FieldPath<'_>, wrong: WrongTypePolicy) -> Result<(), Error> {
    for name in ["apiVersion", "kind"] {
        match fields.get(name) {
            None | Some(Value::String(_)) => {}
            Some(_) if wrong == WrongTypePolicy::Dropped => {
                fields.remove(name);
            }
            Some(value) => return Err(Error::invalid(&path.field(name), value, "must be a string").into()),
        }
    }
    Ok(())
}

fn metadata(
    fields: &mut Map<String, Value>,
    path: &FieldPath<'_>,
    wrong: WrongTypePolicy,
) -> Result<(), Error> {
    let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
    let mut typed = metadata.clone();
    match decode_object_meta(&mut typed) {
        Ok(()) => *metadata = typed,
        Err(why) if wrong == WrongTypePolicy::Refused => {
            return Err(Error::invalid(&path.field("metadata"), metadata, &why).into());
        }
        Err(_) => drop_mistyped(metadata),
    }
    if let Value::Object(typed) = metadata
        && typed.get("creationTimestamp").is_some_and(|time| time == ZERO_TIME)
    {
        typed.remove("creationTimestamp");
    }
    Ok(())
}

/// Decodes field by field, dropping the fields that cannot be decoded. A value that is not metadata at all stays as it
/// is.
fn drop_mistyped(metadata: &mut Value) {
    let Value::Object(fields) = metadata else { return };
    let mut typed = Map::new();
    for (name, value) in std::mem::take(fields) {
        let mut one = Value::Object(Map::from_iter([(name, value)]));
        if let (Ok(()), Value::Object(one)) = (decode_object_meta(&mut one), one) {
            typed.extend(one);
        }
    }
    *fields = typed;
}

/// Validates the resources embedded in a value, including the value itself.
pub(super) fn validate(schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    match (&schema.kind, value) {
        (SchemaType::Object(object), Value::Object(fields)) => {
            if schema.embedded_resource {
                validate_resource(value, path, errors);
            }
            for (name, value) in fields {
                if let Some(property) = object.properties.get(name.as_str()) {
                    validate(&property.schema, value, &path.field(name), errors);
                } else if let Some(additional) = &object.additional {
                    validate(&additional.schema, value, &path.key(name), errors);
                }
            }
        }
        (SchemaType::Array(items), Value::Array(elements)) => {
            for (at, element) in elements.iter().enumerate() {
                validate(&items.schema, element, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

/// Validates one embedded resource.
pub(super) fn validate_resource(resource: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let missing = ["apiVersion", "kind"].into_iter().filter(|name| resource.get(name).is_none());
    missing.for_each(|name| errors.push(Error::required(&path.field(name), "")));
    for (name, judge) in [("apiVersion", api_version as fn(&str) -> Option<String>), ("kind", kind)] {
        let error_text = match resource.get(name) {
            None => None,
            Some(Value::String(text)) if text.is_empty() => Some("must not be empty".to_owned()),
            Some(Value::String(text)) => judge(text),
            Some(_) => Some("must be a string".to_owned()),
        };
        if let Some(why) = error_text {
            errors.push(Error::invalid(&path.field(name), &resource[name], &why));
        }
    }
    if let Some(metadata) = resource.get("metadata") {
        object_meta(metadata, &path.field("metadata"), errors);
    }
}

fn api_version(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind(text: &str) -> Option<String> {
    let error_texts = names::dns1035_label(&text.to_lowercase()).join(",");
    (!error_texts.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {error_texts}"))
}

fn object_meta(metadata: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut typed = metadata.clone();
    if let Err(why) = decode_object_meta(&mut typed) {
        return errors.push(Error::invalid(path, metadata, &why));
    }
    if typed["name"].as_str().unwrap_or_default().is_empty() {
        typed["name"] = SOME_NAME.into();
    }
    if let Some(prefix) = typed["generateName"].as_str() {
        let at = path.field("generateName");
        for why in names::path_segment(&format!("{prefix}-")) {
            errors.push(Error::invalid(&at, &prefix.into(), &why));
        }
    }
    let namespaced = !typed["namespace"].as_str().unwrap_or_default().is_empty();
    let rules = MetadataRules { namespaced, name: NameRule::PathSegment, is_custom: true };
    errors.append(validate_object_meta(&typed, rules, path));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{custom, prune};

    fn schema() -> std::sync::Arc<Schema> {
        let whole = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        custom(&json!({"type": "object", "properties": {
            "e": whole, "list": {"type": "array", "items": whole},
            "map": {"type": "object", "additionalProperties": whole}}}))
    }

    #[track_caller]
    fn check_types(mut object: Value, expected: &Result<Value, &str>) {
        prune(&schema(), &mut object, None);
        let found = decode_embedded(&schema(), &mut object).map(|()| object);
        assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|why| *why));
    }

    #[test]
    fn embedded_metadata_is_typed() {
        check_types(
            json!({"e": {"metadata": "str"}}),
            &Err(
                r#"e.metadata: Invalid value: "str": json: cannot unmarshal string into Go value of type v1.ObjectMeta"#,
            ),
        );
        check_types(
            json!({"list": [{}, {"metadata": {"labels": {"x": 1}}}]}),
            &Err(
                r#"list[1].metadata: Invalid value: {"labels":{"x":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#,
            ),
        );
        check_types(
            json!({"map": {"k": {"metadata": {"finalizers": "q"}}}}),
            &Err(
                r#"map[k].metadata: Invalid value: {"finalizers":"q"}: json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string"#,
            ),
        );
        check_types(json!({"e": {"kind": 5}}), &Err("e.kind: Invalid value: 5: must be a string"));
        check_types(
            json!({"e": {"metadata": {"creationTimestamp": "2020-01-01T02:00:00.5+02:00", "labels": null, "no": 1}}}),
            &Ok(json!({"e": {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}})),
        );
        check_types(
            json!({"e": {"metadata": {"creationTimestamp": ZERO_TIME, "name": "a"}}}),
            &Ok(json!({"e": {"metadata": {"name": "a"}}})),
        );
    }

    #[test]
    fn what_was_stored_wrong_is_dropped() {
        let mut object = json!({"e": {"kind": 5, "apiVersion": "v1", "metadata": {"labels": {"x": 1}, "name": "a"}},
            "list": [{"metadata": "str"}]});
        repair_embedded(&schema(), &mut object);
        assert_eq!(
            object,
            json!({"e": {"apiVersion": "v1", "metadata": {"name": "a"}}, "list": [{"metadata": "str"}]})
        );
    }

    #[track_caller]
    fn check(resource: &Value, expected: &[&str]) {
        let mut errors = Errors::new();
        validate(&schema(), &json!({ "e": resource }), &FieldPath::Root, &mut errors);
        let found: Vec<_> = errors.iter().map(|error| format!("{}: {}", error.field, error.body)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn embedded_resources_say_what_they_are() {
        check(&json!({}), &["e.apiVersion: Required value", "e.kind: Required value"]);
        check(
            &json!({"apiVersion": "", "kind": 1}),
            &[
                r#"e.apiVersion: Invalid value: "": must not be empty"#,
                "e.kind: Invalid value: 1: must be a string",
            ],
        );
        check(
            &json!({"apiVersion": "a/b/c", "kind": "a b"}),
            &[
                r#"e.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                "e.kind: Invalid value: \"a b\": may have mixed case, but should otherwise match: a DNS-1035 label \
                 must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
                 end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                 '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ],
        );
        let whole = |metadata: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        check(&whole(json!({})), &[]);
        check(&whole(json!({"generateName": "a-", "namespace": "default"})), &[]);
        check(
            &whole(json!({"name": "x/y", "generateName": "a%", "labels": {"a": "b c"}})),
            &[
                r#"e.metadata.generateName: Invalid value: "a%": may not contain '%'"#,
                r#"e.metadata.name: Invalid value: "x/y": may not contain '/'"#,
                "e.metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        );
        check(
            &whole(json!({"ownerReferences": [{}]})),
            &[
                r#"e.metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty"#,
                r#"e.metadata.ownerReferences.kind: Invalid value: "": must not be empty"#,
                r#"e.metadata.ownerReferences.name: Invalid value: "": must not be empty"#,
                r#"e.metadata.ownerReferences.uid: Invalid value: "": must not be empty"#,
            ],
        );
    }
}
