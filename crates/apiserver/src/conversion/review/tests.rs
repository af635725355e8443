//! Tests responses from converters: which ones are refused, and with what wording, and random responses.

use homeostat_core::Entropy;
use serde_json::{Value, json};

use super::*;
use crate::random_json_tests::damage;

/// The seed of the random responses. Any other seed would do.
const SEED: u64 = 20_261_118;
const RANDOM_ANSWERS: usize = 3000;

fn original() -> Value {
    json!({"apiVersion": "demo.dev/v1", "kind": "Lamp", "spec": {"watts": 5},
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}}})
}

fn good() -> Value {
    let mut object = original();
    object["apiVersion"] = "demo.dev/v2".into();
    object
}

#[track_caller]
fn check(change: impl Fn(&mut Value), index: Option<usize>, expected: &str) {
    let mut object = good();
    change(&mut object);
    let outcome = converted_object(&original(), object, "demo.dev/v2", index);
    assert_eq!(outcome.err().unwrap_or_default(), expected);
}

#[test]
fn converted_objects_are_judged_in_kubernetes_words() {
    check(|_| (), None, "");
    let version = "returned invalid object at index 0: invalid groupVersion (expected demo.dev/v2, received demo.dev/v1)";
    check(|object| object["apiVersion"] = "demo.dev/v1".into(), None, version);
    let kind = "returned invalid converted object at index 3: invalid kind (expected Lamp, received Torch)";
    check(|object| object["kind"] = "Torch".into(), Some(3), kind);
    let name = "returned invalid object: must have the same name: a != b";
    check(|object| object["metadata"]["name"] = "b".into(), None, name);
    let uid = "returned invalid converted object at index 1: must have the same UID: u != v";
    check(|object| object["metadata"]["uid"] = "v".into(), Some(1), uid);
    let label =
        "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object";
    check(|object| object["metadata"]["labels"] = json!({"a": 1}), None, label);
    let labels = "returned invalid metadata in object at index 0: invalid metadata.labels of type string in converted object";
    check(|object| object["metadata"]["labels"] = "x".into(), Some(0), labels);
    let mut object = good();
    object["metadata"]["labels"] = json!({"-": "y"});
    let why = converted_object(&original(), object, "demo.dev/v2", None).unwrap_err();
    assert!(
        why.starts_with("returned invalid metadata: metadata.labels: Invalid value: \"-\": name part must"),
        "{why}"
    );
}

#[test]
fn only_labels_and_annotations_of_the_answer_count() {
    let mut object = good();
    object["metadata"] = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "generation": 5,
        "finalizers": ["x/y"], "annotations": {"k": "v"}});
    let converted = converted_object(&original(), object, "demo.dev/v2", None).unwrap();
    let expected =
        json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "annotations": {"k": "v"}});
    assert_eq!(converted["metadata"], expected);
}

#[test]
fn answers_are_judged_in_kubernetes_words() {
    let check = |answer: Value, version: &str, expected: &str| {
        assert_eq!(check_response(answer, version, "u").err().unwrap_or_default(), expected);
    };
    let v1 = |response: Value| json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    check(v1(json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": []})), "v1", "");
    let other = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind=Pod";
    check(json!({"kind": "Pod"}), "v1", other);
    check(v1(Value::Null), "v1", "no response provided");
    check(v1(json!({"uid": "w"})), "v1", "expected response.uid=\"u\", got \"w\"");
    check(json!({"response": {"result": {"status": "Success"}}}), "v1beta1", "");
    let failed = json!({"uid": "u", "result": {"status": "Failure"}});
    check(v1(failed), "v1", "response.result.status was 'Failure', not 'Success'");
    check(v1(json!({"uid": "u", "result": {"message": "cannot"}})), "v1", "cannot");
}

#[test]
fn whatever_a_converter_answers_the_identity_of_objects_stays() {
    let entropy = Entropy::seeded(SEED);
    let mut accepted = 0;
    for _ in 0..RANDOM_ANSWERS {
        let mut answer = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
            "uid": "u", "result": {"status": "Success"}, "convertedObjects": [good()]}});
        // Half of the damage is inside the object: most of the rest is refused immediately.
        let is_inside = entropy.below(2) == 0;
        let part = if is_inside { &mut answer["response"]["convertedObjects"][0] } else { &mut answer };
        damage(&entropy, part);
        let Ok(objects) = check_response(answer, "v1", "u") else { continue };
        for object in objects {
            let Ok(object) = converted_object(&original(), object, "demo.dev/v2", None) else { continue };
            accepted += 1;
            assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("demo.dev/v2"), &json!("Lamp")));
            for field in ["name", "namespace", "uid", "resourceVersion"] {
                assert_eq!(object["metadata"][field], original()["metadata"][field], "{object}");
            }
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            assert!(labels.into_iter().all(|(_, text)| text.is_string()), "{object}");
        }
    }
    assert!(accepted > RANDOM_ANSWERS / 20, "the damage leaves too little: {accepted}");
}
