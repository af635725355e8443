//! Computes resource amounts, and how much of each resource a Pod uses: the sum over its containers, the largest of its
//! init containers, or the amount given for the Pod as a whole.

use std::collections::BTreeMap;

use homeostat_core::quantity::Quantity;
use serde_json::Value;

/// Amounts by resource name.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// Parses a map of quantities, leaving out invalid ones.
pub(super) fn parse_amounts(list: &Value) -> Amounts {
    let parse = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        other => other.to_string().parse().ok(),
    };
    let fields = list.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), parse(value)?))).collect()
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        sum.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

fn raise_to(least: &mut Amounts, others: &Amounts) {
    for (name, amount) in others {
        let known = least.entry(name.clone()).or_insert(*amount);
        if known.nanos() < amount.nanos() {
            *known = *amount;
        }
    }
}

/// Returns the `requests` or the `limits` of a Pod as a whole.
pub(super) fn total(pod: &Value, which: &str) -> Amounts {
    let spec = &pod["spec"];
    let of = |container: &Value| parse_amounts(&container["resources"][which]);
    let in_list = |list: &str| spec[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut sum = Amounts::new();
    for container in in_list("containers") {
        add(&mut sum, &of(container));
    }
    // Sidecars keep running alongside everything that starts after them.
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in in_list("initContainers") {
        let mut own = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            own.clone_from(&sidecars);
        } else {
            add(&mut own, &sidecars);
        }
        raise_to(&mut starting, &own);
    }
    raise_to(&mut sum, &starting);
    let of_pod = parse_amounts(&spec["resources"][which]);
    sum.extend(of_pod.into_iter().filter(|(name, _)| is_for_pods(name)));
    sum
}

/// Returns whether a resource can be specified for a Pod as a whole.
fn is_for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_takes_what_its_hungriest_moment_takes() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}});
        let check = |spec: Value, expected: &str| {
            let total = total(&json!({"spec": spec}), "requests");
            assert_eq!(total.get("cpu").map(ToString::to_string).as_deref(), Some(expected));
        };
        check(json!({"containers": [container("1"), container("500m")]}), "1500m");
        check(json!({"containers": [container("1")], "initContainers": [container("3")]}), "3");
        check(json!({"containers": [container("1")], "initContainers": [sidecar]}), "1100m");
        check(json!({"containers": [container("1")], "initContainers": [sidecar, container("2")]}), "2100m");
        check(json!({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}), "5");
    }
}
