//! Validates random values against real schemas: client input must never cause a panic or a contradiction.

use homeostat_core::Entropy;
use serde_json::{Map, Value, json};

use super::*;
use crate::field::BoundedTexts;

/// Names that occur in the schemas, so that random objects reach nested fields.
const NAMES: [&str; 16] = [
    "metadata",
    "spec",
    "status",
    "template",
    "containers",
    "name",
    "labels",
    "ports",
    "resources",
    "limits",
    "cpu",
    "replicas",
    "selector",
    "matchLabels",
    "env",
    "data",
];
const TEXTS: [&str; 6] = ["", "a", "500m", "2020-01-01T00:00:00Z", "aGk=", "ünï"];
const DEPTH_MAX: u64 = 7;
const ROUNDS: u64 = 400;

fn random_value(entropy: &Entropy, depth: u64) -> Value {
    let sort = entropy.below(if depth < DEPTH_MAX { 9 } else { 5 });
    let pick =
        |list: &[&'static str]| list[usize::try_from(entropy.below(list.len() as u64)).expect("small")];
    match sort {
        0 => Value::Null,
        1 => (entropy.below(2) == 0).into(),
        2 => i64::from_ne_bytes(entropy.next_u64().to_ne_bytes()).into(),
        3 => json!(entropy.unit() * 100.0),
        4 => pick(&TEXTS).into(),
        5 => (0..entropy.below(4)).map(|_| random_value(entropy, depth + 1)).collect(),
        _ => {
            let fields =
                (0..entropy.below(6)).map(|_| (pick(&NAMES).to_owned(), random_value(entropy, depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

#[test]
fn decoding_a_built_in_object_twice_changes_nothing() {
    let kinds = [
        ("", "Pod"),
        ("apps", "Deployment"),
        ("", "ConfigMap"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ];
    let entropy = Entropy::seeded(7);
    for _ in 0..ROUNDS {
        for (group, kind) in kinds {
            let schema = built_in(group, "v1", kind).expect("a served kind");
            let mut value = random_value(&entropy, 0);
            prune(&schema, &mut value, Some(&mut BoundedTexts::new()));
            if decode(&schema, &mut value).is_err() {
                continue;
            }
            let once = value.clone();
            let mut unknown = BoundedTexts::new();
            prune(&schema, &mut value, Some(&mut unknown));
            assert!(unknown.is_empty(), "{unknown:?}");
            decode(&schema, &mut value).expect("what was decoded can be decoded");
            assert_eq!(value, once);
            add_always_written(&schema, &mut value);
            decode(&schema, &mut value).expect("what is always written can be decoded");
        }
    }
}

#[test]
fn any_object_meets_any_definition() {
    let entropy = Entropy::seeded(11);
    let keywords = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": {"type": "string", "pattern": "^a", "maxLength": 3}, "ports": {"type": "array",
            "x-kubernetes-list-type": "set", "items": {"type": "integer", "minimum": 1}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
        "data": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}}});
    for _ in 0..ROUNDS {
        let odd = random_value(&entropy, 0);
        for schema in [custom(&keywords), custom(&odd)] {
            let mut value = random_value(&entropy, 0);
            prune(&schema, &mut value, None);
            assert_eq!(default(&schema, &mut value), Ok(()));
            let once = value.clone();
            assert_eq!(default(&schema, &mut value), Ok(()));
            assert_eq!(value, once);
            let old = random_value(&entropy, 0);
            validate(&schema, &value, Some(&old));
            assert!(validate(&schema, &value, Some(&value)).is_empty(), "what did not change is not judged");
        }
        let definition =
            json!({"metadata": {}, "spec": {"versions": [{"schema": {"openAPIV3Schema": odd}}]}});
        validate_definition(&definition, None);
    }
}
