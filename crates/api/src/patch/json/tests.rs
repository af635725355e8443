//! Operations that work, operations that fail, and patches that ask for too much.

use homeostat_core::Entropy;
use serde_json::json;

use super::*;

fn apply(document: &Value, patch: &Value) -> Result<Value, Status> {
    let mut changed = document.clone();
    JsonPatch::parse(patch.clone())?.apply(&mut changed)?;
    Ok(changed)
}

#[track_caller]
fn check(document: &Value, patch: &Value, expected: &Value) {
    assert_eq!(apply(document, patch).as_ref(), Ok(expected), "patch {patch}");
}

#[track_caller]
fn check_fails(document: &Value, patch: &Value) {
    assert_eq!(apply(document, patch), Err(Status::unprocessable()), "patch {patch}");
}

#[track_caller]
fn check_refused(patch: &Value, code: u16, message: &str) {
    let status = JsonPatch::parse(patch.clone()).expect_err("no patch");
    assert_eq!((status.code, &*status.message), (code, message));
}

#[test]
fn operations_on_fields() {
    let object = json!({"data": {"k": "1", "m": "2"}});
    let rows = [
        (json!([{"op": "add", "path": "/data/n", "value": "3"}]), json!({"k": "1", "m": "2", "n": "3"})),
        (json!([{"op": "add", "path": "/data/k", "value": "3"}]), json!({"k": "3", "m": "2"})),
        (json!([{"op": "add", "path": "/data/k"}]), json!({"k": null, "m": "2"})),
        (json!([{"op": "replace", "path": "/data/k", "value": "9"}]), json!({"k": "9", "m": "2"})),
        (json!([{"op": "replace", "path": "/data/n", "value": 1}]), json!({"k": "1", "m": "2", "n": 1})),
        (json!([{"op": "remove", "path": "/data/m"}]), json!({"k": "1"})),
        (
            json!([{"op": "copy", "from": "/data/k", "path": "/data/c"}]),
            json!({"k": "1", "m": "2", "c": "1"}),
        ),
        (
            json!([{"op": "copy", "from": "/data/x", "path": "/data/c"}]),
            json!({"k": "1", "m": "2", "c": null}),
        ),
        (json!([{"op": "move", "from": "/data/k", "path": "/data/c"}]), json!({"m": "2", "c": "1"})),
        (json!([{"op": "test", "path": "/data/k", "value": "1"}]), json!({"k": "1", "m": "2"})),
        (json!([{"op": "test", "path": "/data/x", "value": null}]), json!({"k": "1", "m": "2"})),
        (json!([{"op": "test", "path": "/data/x"}]), json!({"k": "1", "m": "2"})),
        (json!([{"op": "test", "path": "", "value": object}]), json!({"k": "1", "m": "2"})),
        (json!([{"op": "replace", "path": "", "value": {"data": 1}}]), json!(1)),
        (json!([]), json!({"k": "1", "m": "2"})),
        (json!(null), json!({"k": "1", "m": "2"})),
    ];
    for (patch, data) in rows {
        check(&object, &patch, &json!({ "data": data }));
    }
    check(
        &object,
        &json!([{"op": "add", "path": "data/n", "value": 1}]),
        &json!({"data": {"k": "1", "m": "2"}, "n": 1}),
    );
}

#[test]
fn operations_that_cannot_be_performed() {
    let object = json!({"data": {"k": "1"}, "list": ["a"]});
    for patch in [
        json!([{"op": "test", "path": "/data/k", "value": "other"}]),
        json!([{"op": "test", "path": "/data/k"}]),
        json!([{"op": "test", "path": "/data/x", "value": "1"}]),
        json!([{"op": "test", "path": "", "value": {}}]),
        json!([{"op": "remove", "path": "/data/x"}]),
        json!([{"op": "remove", "path": ""}]),
        json!([{"op": "add", "path": "/nope/deep", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "path": "data", "value": {}}]),
        json!([{"op": "add", "path": "/data/k/deep", "value": 1}]),
        json!([{"op": "replace", "path": "/nope/deep", "value": 1}]),
        json!([{"op": "replace", "path": "", "value": 1}]),
        json!([{"op": "replace", "path": ""}]),
        json!([{"op": "move", "from": "/data/x", "path": "/data/y"}]),
        json!([{"op": "move", "path": "/data/y"}]),
        json!([{"op": "copy", "from": "/list/9", "path": "/data/y"}]),
        json!([{"op": "copy", "path": "/data/y"}]),
        json!([{"op": "replace", "path": "/list/9", "value": 1}]),
        json!([{"op": "add", "path": "/list/9", "value": 1}]),
        json!([{"op": "add", "path": "/list/abc", "value": 1}]),
        json!([{"op": "add", "path": "/list/-3", "value": 1}]),
        json!([{"op": "remove", "path": "/list/-2"}]),
        json!([{"op": "remove", "path": "/list/-"}]),
        json!([{"op": "unknown", "path": "/data/k"}]),
        json!([{"path": "/data/k"}]),
        json!([{"op": "add", "value": 1}]),
        json!([null]),
    ] {
        check_fails(&object, &patch);
    }
}

#[test]
fn operations_on_lists() {
    let object = json!({"l": ["a", "b", "c"]});
    let rows = [
        (json!([{"op": "add", "path": "/l/-", "value": "d"}]), json!(["a", "b", "c", "d"])),
        (json!([{"op": "add", "path": "/l/3", "value": "d"}]), json!(["a", "b", "c", "d"])),
        (json!([{"op": "add", "path": "/l/1", "value": "x"}]), json!(["a", "x", "b", "c"])),
        (json!([{"op": "add", "path": "/l/-1", "value": "d"}]), json!(["a", "b", "c", "d"])),
        (json!([{"op": "add", "path": "/l/-4", "value": "x"}]), json!(["x", "a", "b", "c"])),
        (json!([{"op": "remove", "path": "/l/0"}]), json!(["b", "c"])),
        (json!([{"op": "remove", "path": "/l/-1"}]), json!(["a", "b"])),
        (json!([{"op": "replace", "path": "/l/-3", "value": "x"}]), json!(["x", "b", "c"])),
        (json!([{"op": "replace", "path": "/l/01", "value": "x"}]), json!(["a", "x", "c"])),
        (json!([{"op": "move", "from": "/l/0", "path": "/l/2"}]), json!(["b", "c", "a"])),
        (json!([{"op": "copy", "from": "/l/0", "path": "/l/-"}]), json!(["a", "b", "c", "a"])),
        (json!([{"op": "test", "path": "/l", "value": ["a", "b", "c"]}]), json!(["a", "b", "c"])),
    ];
    for (patch, list) in rows {
        check(&object, &patch, &json!({ "l": list }));
    }
}

#[test]
fn pointers_are_unescaped_in_one_pass() {
    let object = json!({"til~de": 1, "sl/ash": 2, "~1": 3, "x": {"": 4}});
    let patch = json!([
        {"op": "remove", "path": "/til~0de"}, {"op": "replace", "path": "/sl~1ash", "value": 5},
        {"op": "remove", "path": "/~01"}, {"op": "replace", "path": "/x/", "value": 6}
    ]);
    check(&object, &patch, &json!({"sl/ash": 5, "x": {"": 6}}));
    assert_eq!(unescape("a~2~"), "a~2~");
}

#[test]
fn what_is_no_patch_is_refused() {
    let prefix = "error decoding patch: json: cannot unmarshal";
    let slice = "into Go value of type []handlers.jsonPatchOp";
    check_refused(&json!({}), 400, &format!("{prefix} object {slice}"));
    check_refused(&json!([1]), 400, &format!("{prefix} number into Go value of type handlers.jsonPatchOp"));
    let field = "into Go struct field jsonPatchOp.path of type string";
    check_refused(&json!([{"path": 1}]), 400, &format!("{prefix} number {field}"));
    let many = vec![json!({"op": "test", "path": ""}); OPERATIONS_MAX + 1];
    let text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    check_refused(&many.into(), 413, text);
}

#[test]
fn unknown_fields_are_named_with_their_operation() {
    let patch = json!([{"op": "add", "path": "/a"}, {"op": "add", "path": "/a", "vallue": 1}]);
    assert_eq!(JsonPatch::unknown_fields(&patch), ["[1].vallue"]);
}

#[test]
fn copies_cannot_outgrow_a_request() {
    let object = json!({"a": "x".repeat(1024 * 1024)});
    let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
    assert!(apply(&object, &json!([copy, copy])).is_ok());
    check_fails(&object, &json!([copy, copy, copy]));
}

#[test]
fn a_long_list_cannot_be_pushed_about_for_ever() {
    let object = json!({"l": vec![0; 60_000]});
    let insert = json!({"op": "add", "path": "/l/0", "value": 1});
    assert!(apply(&object, &vec![insert.clone(); 10].into()).is_ok());
    check_fails(&object, &vec![insert; 900].into());
    let append = json!({"op": "add", "path": "/l/-", "value": 1});
    assert!(apply(&object, &vec![append; 900].into()).is_ok());
}

#[test]
fn large_values_cannot_be_moved_about_for_ever() {
    let object = json!({"a": {"l": vec![0; 100_000]}, "b": {}});
    let moves = |count: usize| -> Value {
        let places = [("/a/l", "/b/l"), ("/b/l", "/a/l")];
        let operation = |at: usize| json!({"op": "move", "from": places[at % 2].0, "path": places[at % 2].1});
        (0..count).map(operation).collect()
    };
    assert!(apply(&object, &moves(10)).is_ok());
    check_fails(&object, &moves(1000));
}

#[test]
fn copies_of_small_values_cannot_fill_the_memory() {
    let object = json!({"a": vec![json!({"": 0}); 20_000]});
    let copy = |at: usize| json!({"op": "copy", "from": "/a", "path": format!("/b{at}")});
    assert!(apply(&object, &json!([copy(0)])).is_ok());
    check_fails(&object, &(0..10).map(copy).collect());
}

#[test]
fn random_operations_never_panic() {
    let entropy = Entropy::seeded(1);
    let pick = |from: &[&str]| {
        let at = entropy.below(from.len() as u64);
        from[usize::try_from(at).expect("small")].to_owned()
    };
    let pointer = || -> String {
        (0..entropy.below(4))
            .map(|_| pick(&["/a", "/b", "/0", "/-1", "/-", "/9", "/", "~1", "/-9"]))
            .collect()
    };
    for _ in 0..5_000 {
        let operations = (0..entropy.below(6)).map(|_| {
            let value = if entropy.below(2) == 0 { json!({"a": [1, {"b": 2}]}) } else { json!([[1], 2]) };
            let op = pick(&["add", "remove", "replace", "move", "copy", "test", "no"]);
            json!({"op": op, "path": pointer(), "from": pointer(), "value": value})
        });
        let patch = JsonPatch::parse(operations.collect()).expect("well formed");
        // Only the absence of a panic matters: most random patches fail somewhere.
        let _ = patch.apply(&mut json!({"a": [1, [2], {"b": {}}], "b": {"a": 1}}));
    }
}
