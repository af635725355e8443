//! Custom kinds: served at once, judged by their schema, gone with their objects.

use serde_json::{Value, json};

use crate::plane::{APPLY, MERGE, Plane};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LAMPS: &str = "/apis/demo.dev/v1/namespaces/default/lamps";

fn definition() -> Value {
    let spec = json!({"type": "object", "required": ["watts"], "properties": {
        "watts": {"type": "integer", "minimum": 1},
        "colour": {"type": "string", "default": "white", "enum": ["white", "warm"]},
        "count": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.watts < 100 || self.colour == 'white'",
            "message": "strong lamps are white"}]});
    let schema = json!({"type": "object", "properties": {"spec": spec,
        "status": {"type": "object", "properties": {"lit": {"type": "boolean"}, "count": {"type": "integer"}}}}});
    json!({"metadata": {"name": "lamps.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
        "names": {"plural": "lamps", "kind": "Lamp", "shortNames": ["lp"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.count",
                "statusReplicasPath": ".status.count"}},
            "additionalPrinterColumns": [{"name": "Watts", "type": "integer", "jsonPath": ".spec.watts"}]}]}})
}

#[expect(clippy::needless_pass_by_value, reason = "specs are written in place with json!")]
fn lamp(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "demo.dev/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec})
}

async fn with_lamps() -> Plane {
    let plane = Plane::start().await;
    plane.post(DEFINITIONS, definition()).await.expect(201);
    plane
}

#[tokio::test]
async fn a_kind_is_served_the_moment_it_is_defined() {
    let plane = with_lamps().await;
    let made = plane.post(LAMPS, lamp("a", json!({"watts": 5, "unknown": 1}))).await.expect(201);
    assert_eq!(made["spec"], json!({"watts": 5, "colour": "white"}), "defaulted and pruned");
    assert_eq!(made["metadata"]["generation"], 1);
    let resources = plane.get("/apis/demo.dev/v1").await.expect(200);
    let names = resources["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["lamps", "lamps/status", "lamps/scale"]);
    let table = plane.get_as(LAMPS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 5]));
}

#[tokio::test]
async fn the_schema_judges_with_a_cause_for_each_mistake() {
    let plane = with_lamps().await;
    let check = async |spec: Value, expected: &[(&str, &str)]| {
        let refused = plane.post(LAMPS, lamp("bad", spec)).await.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap().iter();
        let got = causes.map(|one| (one["reason"].as_str().unwrap(), one["field"].as_str().unwrap()));
        assert_eq!(got.collect::<Vec<_>>(), expected, "{refused}");
    };
    // What keeps the rules from being evaluated is followed by a cause that says so.
    let unchecked = ("FieldValueInvalid", "<nil>");
    check(json!({}), &[("FieldValueRequired", "spec.watts"), unchecked]).await;
    check(json!({"watts": 0}), &[("FieldValueInvalid", "spec.watts")]).await;
    check(json!({"watts": "5"}), &[("FieldValueTypeInvalid", "spec.watts"), unchecked]).await;
    check(json!({"watts": 5, "colour": "red"}), &[("FieldValueNotSupported", "spec.colour"), unchecked])
        .await;
    check(json!({"watts": 500, "colour": "warm"}), &[("FieldValueInvalid", "spec")]).await;
}

#[tokio::test]
async fn status_and_scale_are_doors_of_their_own() {
    let plane = with_lamps().await;
    plane.post(LAMPS, lamp("a", json!({"watts": 5, "count": 1}))).await.expect(201);
    let path = format!("{LAMPS}/a");
    let both = json!({"spec": {"watts": 7}, "status": {"lit": true}});
    let main = plane.patch(&path, MERGE, both.clone()).await.expect(200);
    assert_eq!((&main["spec"]["watts"], main.get("status")), (&json!(7), None));
    let both = json!({"spec": {"watts": 9}, "status": {"lit": true, "count": 4}});
    let status = plane.patch(&format!("{path}/status"), MERGE, both).await.expect(200);
    assert_eq!((&status["spec"]["watts"], &status["status"]["lit"]), (&json!(7), &json!(true)));
    assert_eq!(status["metadata"]["generation"], 2);
    let scale =
        plane.patch(&format!("{path}/scale"), MERGE, json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    assert_eq!(scale["status"]["replicas"], 4);
    assert_eq!(plane.get(&path).await.expect(200)["spec"]["count"], 3);
    let blind = json!({"metadata": {"name": "a"}, "spec": {"replicas": 6}});
    plane.put(&format!("{path}/scale"), blind).await.expect(200);
    let late = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 7}});
    plane.put(&format!("{path}/scale"), late).await.expect(409);
    assert_eq!(plane.get(&path).await.expect(200)["spec"]["count"], 6);
}

#[tokio::test]
async fn custom_objects_are_applied_by_several() {
    let plane = with_lamps().await;
    let path = |manager: &str| format!("{LAMPS}/a?fieldManager={manager}");
    plane.patch(&path("one"), APPLY, lamp("a", json!({"watts": 5}))).await.expect(201);
    plane.patch(&path("two"), APPLY, lamp("b", json!({"count": 2}))).await.expect(400);
    let both = plane.patch(&path("two"), APPLY, lamp("a", json!({"count": 2}))).await.expect(200);
    assert_eq!(both["spec"], json!({"watts": 5, "count": 2, "colour": "white"}));
    plane.patch(&path("two"), APPLY, lamp("a", json!({"watts": 6, "count": 2}))).await.expect(409);
}

#[tokio::test]
async fn a_definition_takes_its_objects_along_and_ends_their_watches() {
    let plane = with_lamps().await;
    let held = json!({"metadata": {"finalizers": ["demo.dev/x"]}});
    plane.post(LAMPS, lamp("a", json!({"watts": 5}))).await.expect(201);
    plane.patch(&format!("{LAMPS}/a"), MERGE, held).await.expect(200);
    let mut events = plane.watch(&format!("{LAMPS}?watch=1")).await;
    assert_eq!(events.names(1).await, ["ADDED a"]);
    let path = format!("{DEFINITIONS}/lamps.demo.dev");
    plane.delete(&path).await.expect(200);
    assert_eq!(events.names(1).await, ["MODIFIED a"], "marked, and held by its finalizer");
    plane.post(LAMPS, lamp("late", json!({"watts": 5}))).await.expect(403);
    plane.patch(&format!("{LAMPS}/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    plane.until_gone(&path).await;
    assert_eq!(events.names(1).await, ["DELETED a"]);
    plane.get(LAMPS).await.expect(404);
    assert_eq!(events.next().await, None, "nothing can come any more");
}

#[tokio::test]
async fn every_served_version_has_an_api_service() {
    let plane = Plane::start().await;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let apps = plane.get(&format!("{services}/v1.apps")).await.expect(200);
    assert_eq!(apps["status"]["conditions"][0]["reason"], "Local");
    plane.post(DEFINITIONS, definition()).await.expect(201);
    plane.until(&format!("{services}/v1.demo.dev"), |answer| answer.code == 200).await;
    plane.delete(&format!("{DEFINITIONS}/lamps.demo.dev")).await.expect(200);
    plane.until_gone(&format!("{services}/v1.demo.dev")).await;
}

#[tokio::test]
async fn a_definition_that_makes_no_sense_is_refused() {
    let plane = Plane::start().await;
    let mut misnamed = definition();
    misnamed["metadata"]["name"] = json!("lamp.demo.dev");
    plane.post(DEFINITIONS, misnamed).await.expect(422);
    let mut untyped = definition();
    untyped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["watts"] =
        json!({"minimum": 1});
    let refused = plane.post(DEFINITIONS, untyped).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("must not be empty for specified object fields"));
}

#[tokio::test]
async fn objects_are_read_by_the_schema_of_today() {
    let plane = with_lamps().await;
    plane.post(LAMPS, lamp("a", json!({"watts": 5, "count": 1}))).await.expect(201);
    let mut definition = definition();
    let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["volts"] = json!({"type": "integer", "default": 230});
    spec["properties"].as_object_mut().unwrap().remove("count");
    let path = format!("{DEFINITIONS}/lamps.demo.dev");
    let stored = plane.get(&path).await.expect(200);
    definition["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    plane.put(&path, definition).await.expect(200);
    let today = json!({"watts": 5, "colour": "white", "volts": 230});
    let read = plane.get(&format!("{LAMPS}/a")).await.expect(200);
    assert_eq!(read["spec"], today);
    assert_eq!(plane.get(LAMPS).await.expect(200)["items"][0], read);
    let mut events = plane.watch(&format!("{LAMPS}?watch=1")).await;
    assert_eq!(events.next().await.unwrap()["object"], read);
    let same = plane.put(&format!("{LAMPS}/a"), read.clone()).await.expect(200);
    assert_eq!(same["spec"], today);
}

/// A kind whose only field is a list of texts under one rule.
fn knots(bounds: &Value, rule: &str) -> Value {
    let mut list = json!({"type": "array", "items": {"type": "string", "maxLength": 20},
        "x-kubernetes-validations": [{"rule": rule, "message": "the rule does not hold"}]});
    list.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}});
    json!({"metadata": {"name": "knots.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
        "names": {"plural": "knots", "kind": "Knot"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

const KNOT_RULE: &str = "self.all(x, self.all(y, self.all(z, x + y + z != '')))";

#[tokio::test]
async fn a_rule_that_could_stop_the_server_is_refused_with_its_definition() {
    let plane = Plane::start().await;
    let refused = plane.post(DEFINITIONS, knots(&json!({}), KNOT_RULE)).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    let expected = "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or \
                    adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    assert!(message.contains(expected), "{message}");
    let refused =
        plane.post(DEFINITIONS, knots(&json!({"maxItems": 5}), "self.foo() == 1")).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("undeclared reference to 'foo'"), "{refused}");
}

#[tokio::test]
async fn the_most_expensive_rule_that_is_taken_stays_fast() {
    let plane = Plane::start().await;
    // 60 * 60 * 60 rounds are just below the limit of the estimate.
    plane.post(DEFINITIONS, knots(&json!({"maxItems": 60}), KNOT_RULE)).await.expect(201);
    let knot = |name: &str, count: usize| {
        json!({"apiVersion": "demo.dev/v1", "kind": "Knot", "metadata": {"name": name},
            "spec": {"l": vec!["x".repeat(20); count]}})
    };
    let path = "/apis/demo.dev/v1/namespaces/default/knots";
    plane.post(path, knot("small", 20)).await.expect(201);
    let refused = plane.post(path, knot("large", 60)).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("actual cost limit exceeded"), "{message}");
    // What the schema itself refuses is not evaluated at all.
    let refused = plane.post(path, knot("beyond", 3000)).await.expect(422);
    assert!(!refused["message"].as_str().unwrap().contains("cost limit"), "{refused}");
}

/// Long chains once overflowed the stack of whoever read or evaluated them.
#[tokio::test]
async fn rules_nested_without_end_are_refused() {
    let plane = Plane::start().await;
    let chains = [
        format!("{} > 0", vec!["1"; 5000].join("+")),
        format!("self{} == 1", ".a".repeat(20_000)),
        format!("self{} == 1", "[0]".repeat(20_000)),
        format!("{}true{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}true", "!".repeat(20_000)),
        format!("self.watts{} == 1", ".max()".repeat(20_000)),
        vec!["true"; 20_000].join(" && "),
        format!("{}1", "true ? 1 : ".repeat(5000)),
    ];
    for rule in chains {
        let mut definition = definition();
        let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["x-kubernetes-validations"][0]["rule"] = rule.clone().into();
        let answer = plane.post(DEFINITIONS, definition).await;
        if answer.code == 201 {
            plane.post(LAMPS, lamp("a", json!({"watts": 5}))).await;
            plane.delete(&format!("{DEFINITIONS}/lamps.demo.dev")).await.expect(200);
            plane.until_gone(&format!("{DEFINITIONS}/lamps.demo.dev")).await;
        } else {
            assert_eq!(answer.code, 422, "{} …: {}", &rule[..20], answer.body);
        }
    }
}
