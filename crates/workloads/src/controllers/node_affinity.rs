//! Decides whether a Node has the labels and the name that a Pod's node selector and node affinity require. This module
//! is pure.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Returns whether the Node meets the Pod's node selector and required node affinity.
pub(crate) fn matches_node(pod: &PodSpec, node: &Node) -> bool {
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    pod.node_selector.iter().flatten().all(|(key, value)| label(node, key) == Some(value))
        && required
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| meets_term(term, node)))
}

/// Returns the sum of the weights of the preferred terms that the Node meets.
pub(crate) fn preference(pod: &PodSpec, node: &Node) -> i64 {
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred =
        affinity.and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_deref());
    let met = preferred.unwrap_or_default().iter().filter(|one| meets_term(&one.preference, node));
    met.map(|one| i64::from(one.weight)).sum()
}

/// Returns the value of one of the Node's labels.
pub(crate) fn label<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.metadata.labels.as_ref()?.get(key)
}

/// Returns whether the Node meets all requirements of the term. A term without requirements selects nothing.
fn meets_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|one| meets_expression(one, node))
        && fields.iter().all(|one| meets_field(one, node))
}

fn meets_expression(written: &NodeSelectorRequirement, node: &Node) -> bool {
    let actual = label(node, &written.key);
    let values = written.values.as_deref().unwrap_or_default();
    let is_among = || actual.is_some_and(|actual| values.contains(actual));
    match written.operator.as_str() {
        "In" => is_among(),
        "NotIn" => !is_among(),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => integers(actual, values).is_some_and(|(actual, bound)| actual > bound),
        "Lt" => integers(actual, values).is_some_and(|(actual, bound)| actual < bound),
        _ => false,
    }
}

/// Returns the label and the value it is compared with, if both are integers.
fn integers(actual: Option<&String>, values: &[String]) -> Option<(i64, i64)> {
    Some((actual?.parse().ok()?, values.first()?.parse().ok()?))
}

/// Returns whether the Node meets a requirement on a field. The name is the only supported field.
fn meets_field(written: &NodeSelectorRequirement, node: &Node) -> bool {
    let values = written.values.as_deref().unwrap_or_default();
    let is_named = values.first() == node.metadata.name.as_ref();
    match written.operator.as_str() {
        "In" => written.key == "metadata.name" && values.len() == 1 && is_named,
        "NotIn" => written.key == "metadata.name" && values.len() == 1 && !is_named,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Node {
        let node = json!({"metadata": {"name": "one", "labels": {"disk": "ssd", "cores": "8"}}});
        serde_json::from_value(node).unwrap()
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(terms: Value, expected: bool) {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let pod = json!({"containers": [], "affinity": {"nodeAffinity": required}});
        assert_eq!(matches_node(&serde_json::from_value(pod).unwrap(), &node()), expected);
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn required_terms() {
        check(json!([expression("disk", "In", &["ssd", "tape"])]), true);
        check(json!([expression("disk", "NotIn", &["ssd"])]), false);
        check(json!([expression("disk", "Exists", &[])]), true);
        check(json!([expression("gpu", "DoesNotExist", &[])]), true);
        check(json!([expression("cores", "Gt", &["7"])]), true);
        check(json!([expression("cores", "Lt", &["8"])]), false);
        check(json!([{}]), false);
        check(json!([{}, expression("disk", "Exists", &[])]), true);
        let named = |operator: &str| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["one"]}]});
        check(json!([named("In")]), true);
        check(json!([named("NotIn")]), false);
    }

    #[test]
    fn preferred_terms_add_up() {
        let term = |weight: i32, value: &str| json!({"weight": weight, "preference": expression("disk", "In", &[value])});
        let preferred = json!([term(3, "ssd"), term(50, "tape"), term(4, "ssd")]);
        let affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
        let pod = json!({"containers": [], "affinity": {"nodeAffinity": affinity}});
        assert_eq!(preference(&serde_json::from_value(pod).unwrap(), &node()), 7);
    }
}
