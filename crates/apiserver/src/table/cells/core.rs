//! The smaller kinds of the core group, and those of groups with a single kind or two.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read, selector};
use super::containers;

pub(crate) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |path| read::map(object, path).map_or(0, serde_json::Map::len);
    vec![read::name(object).into(), (count("data") + count("binaryData")).into(), age::of(object, now).into()]
}

pub(crate) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = read::map(object, "data").map_or(0, serde_json::Map::len);
    vec![
        read::name(object).into(),
        read::text(object, "type").into(),
        count.into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::text(object, "status.phase").into(), age::of(object, now).into()]
}

pub(crate) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::text(object, "spec.holderIdentity").into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let conditions = read::list(object, "conditions");
    let healthy = conditions.iter().find(|condition| read::text(condition, "type") == "Healthy");
    let status = match healthy.map(|condition| read::text(condition, "status")) {
        None => "Unknown",
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
    };
    let said = |field| healthy.map_or("", |condition| read::text(condition, field)).into();
    vec![read::name(object).into(), status.into(), said("message"), said("error")]
}

pub(crate) fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "template.spec.containers");
    vec![
        read::name(object).into(),
        names,
        images,
        selector::labels(object, "template.metadata.labels").into(),
    ]
}

pub(crate) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.template.spec.containers");
    vec![
        read::name(object).into(),
        read::number(object, "spec.replicas").into(),
        read::number(object, "status.replicas").into(),
        read::number(object, "status.readyReplicas").into(),
        age::of(object, now).into(),
        names,
        images,
        selector::labels(object, "spec.selector").into(),
    ]
}

pub(crate) fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let (used, hard) = (read::map(object, "status.used"), read::map(object, "status.hard"));
    for (resource, hard) in hard.into_iter().flatten() {
        let used = used.and_then(|used| used.get(resource)).map_or_else(|| "0".to_owned(), quantity);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    vec![
        read::name(object).into(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age::of(object, now).into(),
    ]
}

fn quantity(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn pod_disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |path| read::scalar(object, path).unwrap_or_else(|| "N/A".to_owned()).into();
    vec![
        read::name(object).into(),
        bound("spec.minAvailable"),
        bound("spec.maxUnavailable"),
        read::number(object, "status.disruptionsAllowed").into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::number(object, "value").into(),
        read::flag(object, "globalDefault").into(),
        age::of(object, now).into(),
        read::text(object, "preemptionPolicy").into(),
    ]
}

pub(crate) fn resource_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_allocated = read::at(object, "status.allocation").is_some();
    let is_reserved = !read::list(object, "status.reservedFor").is_empty();
    let states = [
        ("deleted", read::is_deleted(object)),
        ("pending", !is_allocated && !read::is_deleted(object)),
        ("allocated", is_allocated),
        ("reserved", is_allocated && is_reserved),
    ];
    let state = read::joined(states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state), ",");
    vec![read::name(object).into(), state.into(), age::of(object, now).into()]
}

pub(crate) fn resource_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::text(object, "spec.nodeName").into(),
        read::text(object, "spec.driver").into(),
        read::text(object, "spec.pool.name").into(),
        age::of(object, now).into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2020-01-01T00:00:07Z";

    #[expect(clippy::needless_pass_by_value, reason = "rows of literals read better without references")]
    #[track_caller]
    fn check(cells: crate::kinds::printing::Cells, mut object: Value, expected: Value) {
        object["metadata"] = json!({"name": "a", "creationTimestamp": "2020-01-01T00:00:00Z"});
        assert_eq!(Value::from(cells(&object, NOW.parse().expect("a time"))), expected);
    }

    #[test]
    fn small_kinds_print_as_recorded() {
        check(
            config_map,
            json!({"data": {"k": "1", "m": "2"}, "binaryData": {"b": ""}}),
            json!(["a", 3, "7s"]),
        );
        check(secret, json!({"type": "Opaque"}), json!(["a", "Opaque", 0, "7s"]));
        check(namespace, json!({"status": {"phase": "Active"}}), json!(["a", "Active", "7s"]));
        check(lease, json!({"spec": {"holderIdentity": "me"}}), json!(["a", "me", "7s"]));
        check(
            resource_quota,
            json!({"status": {"hard": {"pods": "10", "limits.cpu": 2}, "used": {"pods": "3"}}}),
            json!(["a", "pods: 3/10", "limits.cpu: 0/2", "7s"]),
        );
        check(
            pod_disruption_budget,
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
            json!(["a", "50%", "N/A", 1, "7s"]),
        );
        check(
            resource_claim,
            json!({"status": {"allocation": {}, "reservedFor": [{}]}}),
            json!(["a", "allocated,reserved", "7s"]),
        );
    }
}
