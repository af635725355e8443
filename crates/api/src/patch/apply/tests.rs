//! Tests server-side apply and tracking together, as stories: each follows a response recorded from a real
//! kube-apiserver or a rule of its library.

use std::ops::ControlFlow;

use homeostat_core::Entropy;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::{FieldManager, apply, keep_times, track_update};
use crate::patch::test_schemas::widget;
use crate::schema::{Schema, built_in};
use crate::status::Status;

/// An object and the writes it goes through. Each write happens one second after the previous one.
struct Story {
    schema: Schema,
    api_version: &'static str,
    kind: &'static str,
    object: Option<Value>,
    second: i64,
}

impl Story {
    fn of_widget() -> Self {
        Self { schema: widget(), api_version: "t/v1", kind: "Widget", object: None, second: 0 }
    }

    fn of_config_map() -> Self {
        Self { schema: Schema::default(), api_version: "v1", kind: "ConfigMap", object: None, second: 0 }
    }

    fn schema(&self) -> crate::schema::SchemaRef {
        built_in("", "v1", self.kind).unwrap_or_else(|| Schema::default().into())
    }

    fn with<T>(
        &mut self,
        name: &str,
        act: impl FnOnce(&Schema, Option<&Value>, &FieldManager<'_>) -> T,
    ) -> T {
        self.second += 1;
        let (name, subresource) = name.split_once('/').unwrap_or((name, ""));
        let manager = FieldManager {
            name,
            api_version: self.api_version,
            kind: self.kind,
            subresource,
            time: Timestamp::from_second(self.second).expect("early"),
        };
        let common = self.schema();
        let schema = if self.kind == "Widget" { &self.schema } else { &*common };
        act(schema, self.object.as_ref(), &manager)
    }

    fn settle(&mut self, mut object: Value) {
        drop_empty(&mut object);
        if let Some(live) = &self.object {
            keep_times(live, &mut object);
        }
        self.object = Some(object);
    }

    fn try_apply(&mut self, name: &str, mut config: Value, force: bool) -> Result<(), Status> {
        config["apiVersion"] = self.api_version.into();
        config["kind"] = self.kind.into();
        let reset = if name.contains('/') { &["metadata", "spec"][..] } else { &["status"][..] };
        let object = self
            .with(name, |schema, live, manager| apply(Some(schema), live, &config, manager, force, reset))?;
        self.settle(object);
        Ok(())
    }

    #[track_caller]
    fn apply(&mut self, name: &str, config: Value) {
        let outcome = self.try_apply(name, config, false);
        assert_eq!(outcome.map_err(|status| status.message), Ok(()));
    }

    #[track_caller]
    fn force(&mut self, name: &str, config: Value) {
        let outcome = self.try_apply(name, config, true);
        assert_eq!(outcome.map_err(|status| status.message), Ok(()));
    }

    #[track_caller]
    fn refused(&mut self, name: &str, config: Value, code: u16, message: &str) {
        let before = self.object.clone();
        let status = self.try_apply(name, config, false).expect_err("refused");
        assert_eq!((status.code, &*status.message), (code, message));
        assert_eq!(self.object, before);
    }

    /// Merge-patches or creates the object.
    fn write(&mut self, name: &str, change: Value) {
        let mut object = self.object.clone().unwrap_or_else(|| json!({"metadata": {"name": "a"}}));
        object["apiVersion"] = self.api_version.into();
        object["kind"] = self.kind.into();
        crate::patch::merge::apply(&mut object, &change).expect("a merge patch");
        drop_empty(&mut object);
        let reset = if name.contains('/') { &["metadata", "spec"][..] } else { &["status"][..] };
        self.with(name, |schema, live, manager| {
            track_update(Some(schema), live, &mut object, manager, reset);
        });
        self.settle(object);
    }

    /// Returns owners and their fields: `{"one Apply": {…}}`, with the seconds of the time if requested.
    fn owners(&self) -> Value {
        let object = self.object.as_ref().expect("an object");
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let named = entries.iter().map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let subresource = entry.get("subresource").map(|_| format!("/{}", text("subresource")));
            (
                format!("{}{} {}", text("manager"), subresource.unwrap_or_default(), text("operation")),
                entry["fieldsV1"].clone(),
            )
        });
        Value::Object(named.collect())
    }

    fn times(&self) -> Vec<Option<i64>> {
        let entries = &self.object.as_ref().expect("an object")["metadata"]["managedFields"];
        let second = |entry: &Value| {
            entry["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok()).map(Timestamp::as_second)
        };
        entries.as_array().into_iter().flatten().map(second).collect()
    }

    #[track_caller]
    fn check(&self, field: &str, value: Value, owners: Value) {
        let object = self.object.as_ref().expect("an object");
        assert_eq!((&object[field], self.owners()), (&value, owners));
    }
}

/// Drops empty fields, as decoding into Kubernetes' own types does.
fn drop_empty(object: &mut Value) {
    let is_empty = |value: &Value| value.is_null() || value == &json!({}) || value == &json!([]);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, value| name == "managedFields" || !is_empty(value));
    }
    if object.get("data").is_some_and(is_empty) {
        object.as_object_mut().expect("an object").remove("data");
    }
}

fn data(data: Value) -> Value {
    json!({"metadata": {"name": "a"}, "data": data})
}

fn spec(spec: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn a_conflict_is_shared_given_up_and_resolved() {
    let mut story = Story::of_config_map();
    story.apply("one", data(json!({"k": "1"})));
    story.check("data", json!({"k": "1"}), json!({"one Apply": {"f:data": {"f:k": {}}}}));
    story.refused(
        "two",
        data(json!({"k": "2"})),
        409,
        r#"Apply failed with 1 conflict: conflict with "one": .data.k"#,
    );
    story.apply("two", data(json!({"k": "1"})));
    let shared = json!({"one Apply": {"f:data": {"f:k": {}}}, "two Apply": {"f:data": {"f:k": {}}}});
    story.check("data", json!({"k": "1"}), shared);
    assert_eq!(story.times(), [None, Some(1)], "who changes nothing gets no time; no time sorts first");
    story.refused(
        "one",
        data(json!({"k": "3"})),
        409,
        r#"Apply failed with 1 conflict: conflict with "two": .data.k"#,
    );
    story.apply("one", data(json!({})));
    story.check(
        "data",
        json!({"k": "1"}),
        json!({"one Apply": {"f:data": {}}, "two Apply": {"f:data": {"f:k": {}}}}),
    );
    story.apply("two", data(json!({"k": "3"})));
    assert_eq!(story.times(), [Some(1), Some(6)]);
}

#[test]
fn a_refusal_names_every_field_and_its_owner() {
    let mut story = Story::of_widget();
    story.apply("one", spec(json!({"num": 1, "multi": [{"port": 443, "v": "1"}, {"port": 80, "v": "1"}]})));
    story.write("human", json!({"spec": {"flag": true}}));
    story.apply("ctrl/status", json!({"metadata": {"name": "a"}, "status": {"phase": "Up"}}));
    let config =
        spec(json!({"num": 2, "flag": false, "multi": [{"port": 80, "v": "2"}, {"port": 443, "v": "2"}]}));
    let message = "Apply failed with 4 conflicts: conflicts with \"human\" using t/v1:\n- .spec.flag\n\
                   conflicts with \"one\":\n- .spec.num\n- .spec.multi[port=80,proto=\"TCP\"].v\n- .spec.multi[port=443,proto=\"TCP\"].v";
    story.refused("two", config.clone(), 409, message);
    let status = story.try_apply("two", config, false).expect_err("conflicts");
    let cause = &status.to_json()["details"]["causes"][0];
    let expected = json!({"reason": "FieldManagerConflict", "message": "conflict with \"human\" using t/v1", "field": ".spec.flag"});
    assert_eq!(*cause, expected);
    let status = json!({"metadata": {"name": "a"}, "status": {"phase": "Down"}});
    let message =
        r#"Apply failed with 1 conflict: conflict with "ctrl" with subresource "status": .status.phase"#;
    story.refused("other/status", status, 409, message);
}

#[test]
fn force_takes_fields_over() {
    let mut story = Story::of_config_map();
    story.apply("one", data(json!({"k": "1", "m": "1"})));
    story.force("two", data(json!({"k": "2"})));
    let owners = json!({"one Apply": {"f:data": {"f:m": {}}}, "two Apply": {"f:data": {"f:k": {}}}});
    story.check("data", json!({"k": "2", "m": "1"}), owners.clone());
    story.apply("one", data(json!({"m": "1"})));
    story.check("data", json!({"k": "2", "m": "1"}), owners);
    story.force("three", data(json!({"k": "3", "m": "3"})));
    story.check(
        "data",
        json!({"k": "3", "m": "3"}),
        json!({"three Apply": {"f:data": {"f:k": {}, "f:m": {}}}}),
    );
}

#[test]
fn applying_again_is_nothing() {
    let mut story = Story::of_config_map();
    story.apply("one", data(json!({"k": "1"})));
    let before = story.object.clone();
    story.apply("one", data(json!({"k": "1"})));
    assert_eq!(story.object, before);
    story.apply("one", data(json!({})));
    story.apply("two", json!({"metadata": {"name": "a", "creationTimestamp": null}}));
    let before = story.object.clone();
    story.apply("one", data(json!({})));
    assert_eq!(story.object, before, "an empty map is dropped again, so only the time differs");
}

#[test]
fn a_field_left_out_is_removed() {
    let mut story = Story::of_config_map();
    story.apply("op", json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "1", "m": "2"}}));
    story.check(
        "data",
        json!({"k": "1", "m": "2"}),
        json!({"op Apply": {"f:data": {"f:k": {}, "f:m": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}}),
    );
    story.apply("op", data(json!({"k": "1"})));
    story.check("data", json!({"k": "1"}), json!({"op Apply": {"f:data": {"f:k": {}}}}));
    assert_eq!(story.object.as_ref().expect("an object")["metadata"].get("labels"), None);
    story.apply("op", json!({"metadata": {"name": "a"}}));
    story.check("data", Value::Null, json!({}));
    story.write("human", json!({"data": {"z": "1"}}));
    story.check("data", json!({"z": "1"}), json!({}));
}

#[test]
fn updates_take_what_they_change() {
    let mut story = Story::of_config_map();
    story.apply("op", data(json!({"k": "1", "m": "1"})));
    story.write("human", json!({"data": {"k": "2"}}));
    let owners = json!({"op Apply": {"f:data": {"f:m": {}}}, "human Update": {"f:data": {"f:k": {}}}});
    story.check("data", json!({"k": "2", "m": "1"}), owners);
    let message = r#"Apply failed with 1 conflict: conflict with "human" using v1: .data.k"#;
    story.refused("op", data(json!({"k": "1", "m": "1"})), 409, message);
    story.apply("op", data(json!({"k": "2", "m": "1"})));
    story.apply("op", data(json!({"m": "1"})));
    story.check(
        "data",
        json!({"k": "2", "m": "1"}),
        json!({"op Apply": {"f:data": {"f:m": {}}}, "human Update": {"f:data": {"f:k": {}}}}),
    );
    story.write("other", json!({"data": {"m": null}}));
    story.check("data", json!({"k": "2"}), json!({"human Update": {"f:data": {"f:k": {}}}}));
    let before = story.object.clone();
    story.write("nobody", json!({"data": {"k": "2"}}));
    assert_eq!(story.object, before);
}

#[test]
fn one_name_has_an_entry_for_each_operation() {
    let mut story = Story::of_config_map();
    story.apply("op", data(json!({"k": "1", "m": "1"})));
    story.write("op", json!({"data": {"k": "2"}}));
    story.check(
        "data",
        json!({"k": "2", "m": "1"}),
        json!({"op Apply": {"f:data": {"f:m": {}}}, "op Update": {"f:data": {"f:k": {}}}}),
    );
    assert_eq!(story.times(), [Some(1), Some(2)]);
}

#[test]
fn forgotten_managers_come_back_at_the_first_apply() {
    let mut story = Story::of_config_map();
    story.write("maker", data(json!({"k": "1", "m": "2"})));
    story.check(
        "data",
        json!({"k": "1", "m": "2"}),
        json!({"maker Update": {"f:data": {".": {}, "f:k": {}, "f:m": {}}}}),
    );
    story.write("maker", json!({"metadata": {"managedFields": [{}]}}));
    story.check("data", json!({"k": "1", "m": "2"}), json!({}));
    story.write("maker", json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Frobnicate", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]}}));
    story.check("data", json!({"k": "1", "m": "2"}), json!({}));
    let message = r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k"#;
    story.refused("one", data(json!({"k": "9"})), 409, message);
    story.force("one", data(json!({"k": "9"})));
    let owners = json!({"one Apply": {"f:data": {"f:k": {}}}, "before-first-apply Update": {"f:data": {".": {}, "f:m": {}}}});
    story.check("data", json!({"k": "9", "m": "2"}), owners);
}

#[test]
fn clients_may_write_managers_but_not_through_a_subresource() {
    let entry = json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}}]);
    let mut story = Story::of_config_map();
    story.apply("one", data(json!({"k": "1"})));
    story.write("human/status", json!({"metadata": {"managedFields": entry}}));
    story.check("data", json!({"k": "1"}), json!({"one Apply": {"f:data": {"f:k": {}}}}));
    story.write("human", json!({"metadata": {"managedFields": entry}}));
    story.check("data", json!({"k": "1"}), json!({"x Update": {"f:data": {"f:k": {}}}}));
}

#[test]
fn null_and_nothing_are_owned() {
    let mut story = Story::of_config_map();
    story.apply("one", json!({"metadata": {"name": "a", "labels": null}, "data": {"k": "1"}}));
    story.check(
        "data",
        json!({"k": "1"}),
        json!({"one Apply": {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {}}}}),
    );
    story.apply("one", data(json!(null)));
    story.check("data", Value::Null, json!({"one Apply": {"f:data": {}}}));
    let before = story.object.clone();
    story.apply("one", data(json!({})));
    assert_eq!(story.object, before);
    story.refused("two", data(json!({})), 409, r#"Apply failed with 1 conflict: conflict with "one": .data"#);
}

#[test]
fn sets_are_united_and_each_manager_removes_its_own() {
    let mut story = Story::of_widget();
    story.apply("one", spec(json!({"set": ["x", "y"]})));
    story.apply("two", spec(json!({"set": ["y", "z"]})));
    story.check(
        "spec",
        json!({"set": ["x", "y", "z"]}),
        json!({
            "one Apply": {"f:spec": {"f:set": {"v:\"x\"": {}, "v:\"y\"": {}}}},
            "two Apply": {"f:spec": {"f:set": {"v:\"y\"": {}, "v:\"z\"": {}}}}
        }),
    );
    story.apply("one", spec(json!({"set": ["x"]})));
    story.apply("two", spec(json!({})));
    story.check(
        "spec",
        json!({"set": ["x"]}),
        json!({
            "one Apply": {"f:spec": {"f:set": {"v:\"x\"": {}}}}, "two Apply": {"f:spec": {}}
        }),
    );
    let message = "failed to create typed patch object (/a; t/v1, Kind=Widget): .spec.set: duplicate entries for key [=\"x\"]";
    story.refused("one", spec(json!({"set": ["x", "x"]})), 500, message);
}

#[test]
fn elements_of_two_keys_are_told_apart() {
    let mut story = Story::of_widget();
    let tcp = "k:{\"port\":80,\"proto\":\"TCP\"}";
    let udp = "k:{\"port\":80,\"proto\":\"UDP\"}";
    story.apply("one", spec(json!({"multi": [{"port": 80}, {"port": 80, "proto": "UDP"}]})));
    // The verbs would set this default.
    story.object.as_mut().expect("an object")["spec"]["multi"][0]["proto"] = json!("TCP");
    story.apply("two", spec(json!({"multi": [{"port": 80, "proto": "TCP", "v": "two"}]})));
    story.apply("one", spec(json!({"multi": [{"port": 80, "proto": "UDP"}]})));
    story.check(
        "spec",
        json!({"multi": [{"port": 80, "proto": "TCP", "v": "two"}, {"port": 80, "proto": "UDP"}]}),
        json!({
            "one Apply": {"f:spec": {"f:multi": {udp: {".": {}, "f:port": {}, "f:proto": {}}}}},
            "two Apply": {"f:spec": {"f:multi": {tcp: {".": {}, "f:port": {}, "f:proto": {}, "f:v": {}}}}}
        }),
    );
}

#[test]
fn atomic_values_change_hands_whole() {
    let mut story = Story::of_widget();
    story.apply("one", spec(json!({"atomic": ["x"], "plain": ["p"], "atomicMap": {"a": "1"}, "granular": {"a": "1"}, "free": {"f": "1"}})));
    for (change, path) in [
        (json!({"atomic": ["x", "y"]}), ".spec.atomic"),
        (json!({"plain": ["q"]}), ".spec.plain"),
        (json!({"atomicMap": {"b": "2"}}), ".spec.atomicMap"),
    ] {
        story.refused(
            "two",
            spec(change),
            409,
            &format!("Apply failed with 1 conflict: conflict with \"one\": {path}"),
        );
    }
    story.apply("two", spec(json!({"granular": {"b": "2"}, "free": {"g": "2"}})));
    story.force("two", spec(json!({"atomic": ["z"], "atomicMap": {"b": "2"}})));
    story.check("spec", json!({"atomic": ["z"], "plain": ["p"], "atomicMap": {"b": "2"}, "granular": {"a": "1"}, "free": {"f": "1"}}), json!({
        "one Apply": {"f:spec": {"f:free": {"f:f": {}}, "f:granular": {"f:a": {}}, "f:plain": {}}},
        "two Apply": {"f:spec": {"f:atomic": {}, "f:atomicMap": {}}}
    }));
}

#[test]
fn what_nobody_owns_survives_beside_what_is_owned() {
    let mut story = Story::of_widget();
    story.apply("one", spec(json!({"num": 1, "granular": {"a": "1"}, "free": {"x": "1"}})));
    // The server fills in fields that no manager owns.
    let object = story.object.as_mut().expect("an object");
    object["spec"]["flag"] = json!(true);
    object["spec"]["free"]["y"] = json!("2");
    story.apply("one", spec(json!({"num": 1, "free": {"z": "3"}})));
    let owners = json!({"one Apply": {"f:spec": {"f:num": {}, "f:free": {"f:z": {}}}}});
    story.check("spec", json!({"num": 1, "flag": true, "free": {"y": "2", "z": "3"}}), owners);
    story.apply("one", json!({"metadata": {"name": "a"}}));
    story.check("spec", Value::Null, json!({}));
}

#[test]
fn an_element_stays_while_somebody_owns_it() {
    let mut story = Story::of_widget();
    let (x, y) = (json!({"name": "x", "value": "1"}), json!({"name": "y", "value": "2"}));
    story.apply("one", spec(json!({"nested": [{"name": "a", "env": [x]}, {"name": "b"}]})));
    story.apply("two", spec(json!({"nested": [{"name": "a", "env": [y]}]})));
    story.check("spec", json!({"nested": [{"name": "a", "env": [x, y]}, {"name": "b"}]}), story.owners());
    story.apply("one", spec(json!({"nested": [{"name": "b"}]})));
    story.check("spec", json!({"nested": [{"name": "a", "env": [y]}, {"name": "b"}]}), story.owners());
    story.write("human", json!({"spec": {"nested": [{"name": "a", "env": [x, y]}, {"name": "b"}]}}));
    story.apply("two", spec(json!({"nested": []})));
    story.check(
        "spec",
        json!({"nested": [{"name": "b"}]}),
        json!({"one Apply": {"f:spec": {"f:nested": {"k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}}}),
    );
}

#[test]
fn spec_and_status_have_separate_owners() {
    let mut story = Story::of_widget();
    story.apply(
        "user",
        json!({"metadata": {"name": "a"}, "spec": {"num": 1}, "status": {"phase": "ignored"}}),
    );
    assert_eq!(story.owners(), json!({"user Apply": {"f:spec": {"f:num": {}}}}));
    story.apply(
        "user/status",
        json!({"metadata": {"name": "a"}, "spec": {"num": 5}, "status": {"phase": "Up"}}),
    );
    assert_eq!(
        story.owners(),
        json!({"user Apply": {"f:spec": {"f:num": {}}}, "user/status Apply": {"f:status": {"f:phase": {}}}})
    );
    story.write("ctrl/status", json!({"status": {"phase": "Down"}}));
    assert_eq!(
        story.owners(),
        json!({"user Apply": {"f:spec": {"f:num": {}}}, "ctrl/status Update": {"f:status": {"f:phase": {}}}})
    );
}

#[test]
fn replicas_are_handed_over_through_the_scale() {
    let mut story = Story::of_widget();
    story.apply("one", spec(json!({"num": 0, "flag": true})));
    let mut object = story.object.clone().expect("an object");
    object["spec"]["num"] = json!(2);
    story.with("two/scale", |schema, live, manager| {
        track_update(Some(schema), live, &mut object, manager, &[]);
    });
    story.settle(object);
    let owners =
        json!({"one Apply": {"f:spec": {"f:flag": {}}}, "two/scale Update": {"f:spec": {"f:num": {}}}});
    story.check("spec", json!({"num": 2, "flag": true}), owners.clone());
    assert_eq!(story.times(), [Some(1), None]);
    let message =
        r#"Apply failed with 1 conflict: conflict with "two" with subresource "scale" using t/v1: .spec.num"#;
    story.refused("one", spec(json!({"num": 0, "flag": true})), 409, message);
    story.apply("one", spec(json!({"flag": true})));
    story.check("spec", json!({"num": 2, "flag": true}), owners);
}

#[test]
fn configurations_must_fit_the_endpoint() {
    let mut story = Story::of_config_map();
    let config = json!({"metadata": {"name": "a", "managedFields": []}});
    story.refused("one", config, 400, "metadata.managedFields must be nil");
    let wrong = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .data.k: expected string, got &value.valueUnstructured{Value:1}";
    story.refused("one", data(json!({"k": 1})), 500, wrong);
    let check = |config: Value, message: &str| {
        let status = story_manager(|manager| apply(None, None, &config, manager, false, &[]))
            .expect_err("another type");
        assert_eq!((status.code, &*status.message), (400, message));
    };
    check(json!({"data": {}}), "invalid object type: /, Kind=");
    check(json!({"apiVersion": "v1", "kind": "Secret"}), "invalid object type: /v1, Kind=Secret");
    check(
        json!({"apiVersion": "apps/v1", "kind": "ConfigMap"}),
        "invalid object type: apps/v1, Kind=ConfigMap",
    );
}

fn story_manager<T>(act: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let time = Timestamp::UNIX_EPOCH;
    act(&FieldManager { name: "one", api_version: "v1", kind: "ConfigMap", subresource: "", time })
}

#[test]
fn kubectl_takes_over_what_it_applied_before() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let applied =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","m":"1"}}"#;
    let mut story = Story::of_config_map();
    story.write(
        "kubectl-client-side-apply",
        json!({"metadata": {"annotations": {ANNOTATION: applied}}, "data": {"k": "1", "m": "1"}}),
    );
    let message =
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.k";
    story.refused("else", data(json!({"k": "2"})), 409, message);
    story.apply("kubectl", data(json!({"k": "2"})));
    let object = story.object.as_ref().expect("an object");
    assert_eq!(object["data"], json!({"k": "2", "m": "1"}));
    let text = "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n";
    assert_eq!(object["metadata"]["annotations"][ANNOTATION], text);
    story.write("human", json!({"data": {"m": "9"}}));
    story.refused(
        "kubectl",
        data(json!({"m": "3"})),
        409,
        r#"Apply failed with 1 conflict: conflict with "human" using v1: .data.m"#,
    );
}

#[test]
fn old_updaters_become_one() {
    let mut story = Story::of_config_map();
    story.apply("one", data(json!({"k": "1"})));
    for at in 0..12 {
        story.write(&format!("m{at:02}"), json!({"data": {format!("d{at}"): "1"}}));
    }
    let owners = story.owners();
    assert_eq!(owners.as_object().map(Map::len), Some(11));
    assert_eq!(owners["ancient-changes Update"], json!({"f:data": {"f:d0": {}, "f:d1": {}, "f:d2": {}}}));
}

/// Returns a random configuration over the fields of the widget.
fn random_spec(entropy: &Entropy) -> Value {
    let pick = |letters: &[&str]| {
        letters[usize::try_from(entropy.below(letters.len() as u64)).expect("small")].to_owned()
    };
    // A manager that owns nothing is forgotten, and its next apply counts as its first.
    let mut spec = Map::from_iter([("flag".to_owned(), json!(true))]);
    for _ in 0..entropy.below(5) {
        let name = pick(&["num", "set", "map", "granular", "free", "atomic", "any", "nested"]);
        let some = |entropy: &Entropy| {
            (0..entropy.below(3)).map(|_| pick(&["a", "b", "c"])).collect::<std::collections::BTreeSet<_>>()
        };
        let value = match &*name {
            "num" => json!(entropy.below(3)),
            "set" | "atomic" => some(entropy).into_iter().rev().collect(),
            "map" => some(entropy).into_iter().map(|key| json!({"k": key, "v": pick(&["1", "2"])})).collect(),
            "nested" => some(entropy)
                .into_iter()
                .map(|key| json!({"name": key, "env": [{"name": pick(&["x", "y"]), "value": "1"}]}))
                .collect(),
            "any" => [json!(1), json!({"a": {"b": 1}}), json!([1]), json!(null)]
                [usize::try_from(entropy.below(4)).expect("small")]
            .clone(),
            _ => Value::Object(
                some(entropy)
                    .into_iter()
                    .filter(|key| key != "c")
                    .map(|key| (key, json!(pick(&["1", "2"]))))
                    .collect(),
            ),
        };
        spec.insert(name, value);
    }
    Value::Object(spec)
}

#[test]
fn random_stories_keep_the_laws() {
    for seed in 0..60 {
        let entropy = Entropy::seeded(seed);
        let mut story = Story::of_widget();
        for _ in 0..8 {
            let name = ["one", "two", "three"][usize::try_from(entropy.below(3)).expect("small")];
            let config = random_spec(&entropy);
            if entropy.below(4) == 0 && story.object.is_some() {
                story.write(name, json!({"spec": config}));
                continue;
            }
            story.force(name, spec(config.clone()));
            let once = story.object.clone();
            story.apply(name, spec(config.clone()));
            assert_eq!(story.object, once, "seed {seed}: applying {config} twice is applying it once");
            let owned = story.owners()[format!("{name} Apply")].clone();
            let stored = super::owned_fields::field_set(
                once.as_ref().expect("an object"),
                super::SchemaPosition::root(Some(&story.schema)),
            );
            let owned = owned.as_object().cloned().unwrap_or_default();
            let _ = super::field_set::visit_paths(&owned, &mut |path| {
                let is_there = path.len() <= 2 || is_member(&stored, path);
                assert!(is_there, "seed {seed}: {path:?} of {owned:?} is in {stored:?}");
                ControlFlow::Continue(())
            });
        }
    }
}

/// Returns whether the path made of these steps is in the set.
fn is_member(set: &Map<String, Value>, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    match (set.get(*first), rest.is_empty()) {
        (Some(node), true) => super::field_set::is_member(node),
        (Some(Value::Object(below)), false) => is_member(below, rest),
        _ => false,
    }
}
