//! Tests which operations a change sends for a given state of the object, and what it leaves alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::*;
use crate::context::condition;

const NOW: &str = "2027-01-15T08:00:00Z";

fn snapshot(status: Value) -> StatusBasis {
    let (uid, resource_version) = (Some("u".to_owned()), Some("7".to_owned()));
    StatusBasis { uid, resource_version, status, is_whole: true }
}

/// Returns the operations that follow the uid test, one per line.
fn shown(change: &StatusChange, status: Value) -> Vec<String> {
    let operations = change.operations(&snapshot(status), NOW.parse().unwrap());
    let words = |operation: &Value| {
        let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
        match operation.get("value") {
            Some(value) => format!("{} {} {value}", text("op"), text("path")),
            None => format!("{} {}", text("op"), text("path")),
        }
    };
    let shown: Vec<String> = operations.iter().map(words).collect();
    match shown.split_first() {
        Some((first, rest)) => {
            assert_eq!(first, r#"test /metadata/uid "u""#);
            rest.to_vec()
        }
        None => shown,
    }
}

/// Checks a draft that changed `base` to `new`, written over `status`.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
fn check(base: Value, new: Value, status: Value, expected: &[&str]) {
    let change = StatusChange::between(&base, &new, &Value::Null);
    assert_eq!(shown(&change, status), expected);
}

fn set(conditions: &[Condition]) -> StatusChange {
    let mut change = StatusChange::default();
    for condition in conditions {
        change.set_condition(condition);
    }
    change
}

#[test]
fn only_what_the_draft_changed_is_sent() {
    let base = || json!({"ours": 1, "theirs": "before"});
    check(base(), base(), base(), &[]);
    check(base(), json!({"ours": 2, "theirs": "before"}), base(), &["add /status/ours 2"]);
    let after = json!({"ours": 1, "theirs": "after", "new": true});
    check(base(), json!({"ours": 2, "theirs": "before"}), after.clone(), &["add /status/ours 2"]);
    check(base(), json!({"theirs": "before"}), after, &["remove /status/ours"]);
    check(base(), json!({"theirs": "before"}), json!({"theirs": "after"}), &[]);
    check(base(), json!({"ours": 2, "theirs": "before"}), json!({"ours": 2}), &[]);
    check(json!({"l": [1]}), json!({"l": [1, 2]}), json!({"l": [3]}), &["add /status/l [1,2]"]);
}

#[test]
fn a_status_that_is_not_there_is_introduced_whole() {
    check(
        Value::Null,
        json!({"a": {"b": 1}}),
        Value::Null,
        &["test /status null", r#"add /status {"a":{"b":1}}"#],
    );
    check(json!({"a": 1}), json!({}), Value::Null, &[]);
    // Another writer wrote the first status in the meantime.
    check(Value::Null, json!({"a": {"b": 1}}), json!({"a": {"c": 2}}), &["add /status/a/b 1"]);
}

#[test]
fn defaults_of_the_type_take_nothing_from_others() {
    let (defaults, new) = (json!({"count": 0, "name": ""}), json!({"count": 0, "name": "ours"}));
    let change = StatusChange::between(&Value::Null, &new, &defaults);
    assert_eq!(
        shown(&change, Value::Null),
        ["test /status null", r#"add /status {"count":0,"name":"ours"}"#]
    );
    assert_eq!(shown(&change, json!({"count": 5})), [r#"add /status/name "ours""#]);
    assert_eq!(
        shown(&change, json!({"name": "theirs"})),
        ["test /status/count null", "add /status/count 0", r#"add /status/name "ours""#]
    );
}

#[test]
fn maps_change_by_entry() {
    let children = |children: Value| json!({"children": children});
    let (one, two) = (children(json!({"a": 1})), children(json!({"a": 1, "b/c~": 2})));
    check(one.clone(), two.clone(), children(json!({"a": 9, "x": 9})), &["add /status/children/b~1c~0 2"]);
    check(two.clone(), one.clone(), two.clone(), &["remove /status/children/b~1c~0"]);
    check(
        json!({"n": 0}),
        json!({"n": 0, "children": {"a": 1}}),
        json!({"n": 0}),
        &["test /status/children null", r#"add /status/children {"a":1}"#],
    );
    // The last entry is removed, and the map with it, unless another writer has added one.
    check(
        one.clone(),
        json!({}),
        one.clone(),
        &[r#"test /status/children {"a":1}"#, "remove /status/children"],
    );
    check(one, json!({}), two, &["remove /status/children/a"]);
}

#[test]
fn conditions_change_by_type_and_field() {
    let theirs = json!({"type": "Theirs", "status": "True", "lastProbeTime": null, "odd": 1});
    let ours = |status: &str, extra: Value| {
        let mut ours = json!({"type": "Ready", "status": status, "reason": "Up", "message": "",
                              "lastTransitionTime": "2026-01-01T00:00:00Z"});
        ours["extra"] = extra;
        ours
    };
    let up = set(&[condition("Ready", true, "Up", "")]);
    let all = |ours: Value| json!({"conditions": [theirs.clone(), ours]});
    assert_eq!(shown(&up, all(ours("True", json!("kept")))), [""; 0]);
    assert_eq!(
        shown(&up, all(ours("False", json!("kept")))),
        [
            r#"test /status/conditions/1/type "Ready""#.to_owned(),
            r#"test /status/conditions/1/status "False""#.to_owned(),
            r#"add /status/conditions/1/status "True""#.to_owned(),
            format!(r#"add /status/conditions/1/lastTransitionTime "{NOW}""#),
        ]
    );
    assert_eq!(
        shown(&set(&[condition("Ready", true, "Fine", "")]), all(ours("True", json!("kept")))),
        [
            r#"test /status/conditions/1/type "Ready""#,
            r#"test /status/conditions/1/status "True""#,
            r#"add /status/conditions/1/reason "Fine""#,
        ],
        "the time moves with the status only"
    );
}

#[test]
fn a_condition_is_added_to_the_version_that_lacks_it() {
    let change = set(&[condition("Ready", false, "Down", "no")]);
    let ours = format!(
        r#"{{"lastTransitionTime":"{NOW}","message":"no","reason":"Down","status":"False","type":"Ready"}}"#
    );
    assert_eq!(
        shown(&change, json!({"conditions": [{"type": "Theirs"}]})),
        [r#"test /metadata/resourceVersion "7""#.to_owned(), format!("add /status/conditions/- {ours}")]
    );
    assert_eq!(
        shown(&change, json!({"n": 1})),
        ["test /status/conditions null".to_owned(), format!("add /status/conditions [{ours}]")]
    );
    assert_eq!(
        shown(&change, Value::Null),
        ["test /status null".to_owned(), format!(r#"add /status {{"conditions":[{ours}]}}"#)]
    );
}

#[test]
fn a_typed_list_of_conditions_is_compared_by_type() {
    let list = |conditions: Value| json!({"conditions": conditions});
    let (one, two) = (json!({"type": "A", "status": "True"}), json!({"type": "B", "status": "True"}));
    let changed = json!({"type": "B", "status": "False"});
    check(
        list(json!([one, two])),
        list(json!([one, changed])),
        list(json!([two, one])),
        &[r#"test /status/conditions/0/type "B""#, r#"add /status/conditions/0/status "False""#],
    );
    check(
        list(json!([one, two])),
        list(json!([])),
        list(json!([one, {"type": "X"}, two])),
        &[
            r#"test /status/conditions/2/type "B""#,
            "remove /status/conditions/2",
            r#"test /status/conditions/0/type "A""#,
            "remove /status/conditions/0",
        ],
    );
    check(
        list(json!([one, two])),
        list(json!([one, changed])),
        list(json!([one])),
        &[
            r#"test /metadata/resourceVersion "7""#,
            r#"add /status/conditions/- {"status":"False","type":"B"}"#,
        ],
    );
    // A list that does not hold conditions is replaced as a whole.
    check(list(json!([1])), list(json!([2])), list(json!([3])), &["add /status/conditions [2]"]);
}
