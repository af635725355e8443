//! DefaultTolerationSeconds: lets Pods stay while their node is briefly unavailable.

use homeostat_api::kinds::core::pod::POD;
use serde_json::{Value, json};

use super::plugin::{Mutate, Plugin};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(admit),
    ..Plugin::new("DefaultTolerationSeconds", |resource| is_kind(resource, &POD))
};

/// How long a Pod stays on a node that has stopped responding: Kubernetes' default.
const TOLERATION_S: u32 = 300;
/// The taints on such a node.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

fn admit(request: &AdmissionRequest<'_>, pod: &mut Value) {
    if request.is_of(&POD) && matches!(request.operation, Operation::Create | Operation::Update) {
        add_default_tolerations(pod);
    }
}

fn add_default_tolerations(pod: &mut Value) {
    for taint in TAINTS {
        let covers = |one: &Value| {
            let of = |name: &str| one[name].as_str().unwrap_or_default();
            matches!(of("effect"), "" | "NoExecute") && (of("key").is_empty() || of("key") == taint)
        };
        let tolerations = &mut pod["spec"]["tolerations"];
        if tolerations.as_array().is_some_and(|all| all.iter().any(covers)) {
            continue;
        }
        let toleration = json!({"key": taint, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": TOLERATION_S});
        match tolerations {
            Value::Array(all) => all.push(toleration),
            other => *other = json!([toleration]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_are_added_unless_the_pod_has_its_own() {
        let check = |given: Value, expected: &[&str]| {
            let mut pod = json!({"spec": {"tolerations": given}});
            add_default_tolerations(&mut pod);
            let all = pod["spec"]["tolerations"].as_array().expect("a list");
            let keys = all.iter().map(|one| one["key"].as_str().unwrap_or_default()).collect::<Vec<_>>();
            assert_eq!(keys, expected);
        };
        check(Value::Null, &TAINTS);
        check(json!([{"operator": "Exists"}]), &[""]);
        check(json!([{"key": TAINTS[0], "effect": "NoSchedule"}]), &[TAINTS[0], TAINTS[0], TAINTS[1]]);
        check(json!([{"key": TAINTS[1], "effect": "NoExecute"}]), &[TAINTS[1], TAINTS[0]]);
    }
}
