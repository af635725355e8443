//! Tests strategic merge on a small schema with one field of every kind.

use serde_json::{Value, json};

use super::apply;
use crate::patch::test_schemas::{field, list_map, list_of, object, text};
use crate::schema::Schema;

/// Returns a schema like that of a PodSpec: containers by name with env by name and ports by number, volumes with
/// retained keys, finalizers as a set, args replaced, a selector that is replaced, a strategy with retained keys,
/// labels as a free map.
fn schema() -> Schema {
    let env = list_map(object([("name", text()), ("value", text())]), &["name"]);
    let ports = list_map(object([("port", text()), ("name", text())]), &["port"]);
    let containers = list_map(
        object([
            ("name", text()),
            ("image", text()),
            ("args", list_of(text())),
            ("env", env),
            ("ports", ports),
        ]),
        &["name"],
    );
    let mut selector = field(Schema::default());
    selector.merge.patch.replace = true;
    let mut finalizers = list_of(text());
    finalizers.merge.patch.merge = true;
    let mut unkeyed = list_of(field(object([("a", text())])));
    unkeyed.merge.patch.merge = true;
    object([
        ("containers", containers),
        ("finalizers", finalizers),
        ("selector", selector),
        ("unkeyed", unkeyed),
        ("strategy", field(object([("type", text()), ("rollingUpdate", field(Schema::default()))]))),
        ("labels", field(Schema::default())),
    ])
}

#[track_caller]
fn check(before: Value, patch: Value, after: Value) {
    let mut target = before;
    let outcome = apply(&mut target, &patch, &schema()).map_err(|status| status.message);
    assert_eq!(outcome, Ok(()), "patch {patch}");
    assert_eq!(target, after, "patch {patch}");
}

#[track_caller]
fn check_refused(before: Value, patch: Value, code: u16, message: &str) {
    let mut target = before;
    let status = apply(&mut target, &patch, &schema()).expect_err("the patch is wrong");
    assert_eq!((status.code, &*status.message), (code, message), "patch {patch}");
}

fn pair() -> Value {
    json!({"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]})
}

#[test]
fn an_empty_patch_changes_nothing() {
    check(pair(), json!({}), pair());
    check(pair(), json!(null), pair());
    check(pair(), json!({"containers": []}), pair());
}

#[test]
fn list_elements_merge_by_key_and_new_ones_come_first() {
    check(
        pair(),
        json!({"containers": [{"name": "b", "image": "y:2"}]}),
        json!({"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}),
    );
    check(
        pair(),
        json!({"containers": [{"name": "n", "image": "n:1"}]}),
        json!({"containers": [{"name": "n", "image": "n:1"}, {"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}),
    );
    check(
        pair(),
        json!({"containers": [{"name": "b"}, {"name": "n"}]}),
        json!({"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}, {"name": "n"}]}),
    );
    check(
        json!({"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "B", "value": "2"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}]}),
    );
    check(
        json!({}),
        json!({"containers": [{"name": "a", "image": null, "args": ["x"]}]}),
        json!({"containers": [{"name": "a", "args": ["x"]}]}),
    );
    check(
        pair(),
        json!({"containers": [{"name": "n", "image": "1"}, {"name": "n", "image": "2"}, {"name": "a"}]}),
        json!({"containers": [{"name": "n", "image": "2"}, {"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}),
    );
}

#[test]
fn keys_may_be_numbers() {
    let ports = |list: Value| json!({"containers": [{"name": "a", "ports": list}]});
    check(
        ports(json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}])),
        ports(json!([{"port": 81, "name": "c"}])),
        ports(json!([{"port": 80, "name": "a"}, {"port": 81, "name": "c"}])),
    );
    check(
        ports(json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}])),
        ports(json!([{"port": 80, "$patch": "delete"}])),
        ports(json!([{"port": 81, "name": "b"}])),
    );
}

#[test]
fn directives_in_list_elements() {
    check(
        pair(),
        json!({"containers": [{"name": "b", "$patch": "delete"}]}),
        json!({"containers": [{"name": "a", "image": "x:1"}]}),
    );
    check(pair(), json!({"containers": [{"name": "zz", "$patch": "delete"}]}), pair());
    check(
        pair(),
        json!({"containers": [{"$patch": "replace"}, {"name": "only"}]}),
        json!({"containers": [{"name": "only"}]}),
    );
    check(json!({}), json!({"containers": [{"name": "a", "$patch": "delete"}]}), json!({"containers": []}));
    check_refused(
        pair(),
        json!({"containers": [{"name": "a", "$patch": "frob"}]}),
        500,
        "unknown patch type: frob in map: map[$patch:frob name:a]",
    );
    check_refused(
        pair(),
        json!({"containers": [{"name": "a", "$patch": "merge"}]}),
        500,
        "merging lists cannot yet be specified in the patch",
    );
}

#[test]
fn directives_in_maps() {
    let before = json!({"labels": {"a": "1", "b": "2"}});
    check(before.clone(), json!({"labels": {"c": "3"}}), json!({"labels": {"a": "1", "b": "2", "c": "3"}}));
    check(before.clone(), json!({"labels": {"a": null}}), json!({"labels": {"b": "2"}}));
    check(before.clone(), json!({"labels": {"$patch": "replace", "c": "3"}}), json!({"labels": {"c": "3"}}));
    check(before.clone(), json!({"labels": {"$patch": "delete"}}), json!({"labels": {}}));
    check(json!({}), json!({"labels": {"$patch": "frob", "d": "4"}}), json!({}));
    check_refused(
        before,
        json!({"labels": {"$patch": "frob", "d": "4"}}),
        500,
        "unknown patch type: frob in map: map[$patch:frob d:4]",
    );
}

#[test]
fn retained_keys() {
    let before = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
    check(
        before.clone(),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    let malformed = "invalid patch format of retainKeys";
    check_refused(before.clone(), json!({"strategy": {"$retainKeys": "type"}}), 400, malformed);
    check_refused(before, json!({"strategy": {"$retainKeys": ["x"], "type": "y"}}), 400, malformed);
}

#[test]
fn sets_of_scalars() {
    let before = json!({"finalizers": ["a"]});
    check(before.clone(), json!({"finalizers": ["b"]}), json!({"finalizers": ["b", "a"]}));
    check(before.clone(), json!({"finalizers": ["a"]}), before.clone());
    check(before.clone(), json!({"finalizers": null}), json!({}));
    let two = json!({"finalizers": ["b", "a"]});
    check(two.clone(), json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!({"finalizers": ["b"]}));
    check(two, json!({"$deleteFromPrimitiveList/finalizers": ["a", "b"]}), json!({"finalizers": []}));
    check(json!({}), json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!({}));
    check(
        json!({"finalizers": ["b"]}),
        json!({"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}),
        json!({"finalizers": ["c", "b"]}),
    );
    check_refused(
        before,
        json!({"$deleteFromPrimitiveList": ["a"]}),
        400,
        "invalid patch format of primitive list",
    );
}

#[test]
fn an_order_is_set() {
    check(
        pair(),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b", "image": "y:1"}, {"name": "a", "image": "x:1"}]}),
    );
    check(
        pair(),
        json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "n"}, {"name": "b"}], "containers": [{"name": "n"}]}),
        json!({"containers": [{"name": "a", "image": "x:1"}, {"name": "n"}, {"name": "b", "image": "y:1"}]}),
    );
    check(
        pair(),
        json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "n", "$patch": "delete"}]}),
        pair(),
    );
    check(
        json!({}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
    );
    check(json!({}), json!({"$setElementOrder/containers": [{"name": "b"}]}), json!({}));
    check_refused(
        pair(),
        json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "n"}]}),
        500,
        "The order in patch list:\n[map[name:n]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
    );
    check_refused(
        pair(),
        json!({"$setElementOrder": []}),
        400,
        "invalid patch format of setElementOrder list",
    );
    check_refused(
        pair(),
        json!({"$setElementOrder/containers": "x"}),
        500,
        "expected a []interface {}, but received a string",
    );
}

#[test]
fn what_does_not_merge_is_replaced() {
    check(
        json!({"containers": [{"name": "a", "args": ["x"]}], "selector": {"a": 1}}),
        json!({"containers": [{"name": "a", "args": ["y"]}], "selector": {"b": 2}}),
        json!({"containers": [{"name": "a", "args": ["y"]}], "selector": {"b": 2}}),
    );
    check(json!({"unknown": [1]}), json!({"unknown": [2]}), json!({"unknown": [2]}));
    check(json!({"labels": [1]}), json!({"labels": {"a": null}}), json!({"labels": {}}));
}

#[test]
fn elements_must_fit() {
    check_refused(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": ["a"]}),
        500,
        "list element types are not identical: [[map[name:a]] [a]]",
    );
    check_refused(
        pair(),
        json!({"containers": [{"image": "x"}]}),
        500,
        "map: map[image:x] does not contain declared merge key: name",
    );
    check_refused(
        json!({"unkeyed": [{"a": "1"}]}),
        json!({"unkeyed": [{"a": "1"}]}),
        500,
        "cannot merge lists without merge key for struct",
    );
    check_refused(
        json!({}),
        json!([]),
        400,
        "json: cannot unmarshal array into Go value of type map[string]interface {}",
    );
}
