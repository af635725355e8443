//! Services that select Pods but have no ready endpoint.

use super::Finding;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;
use crate::sentences::count_of;
use crate::state::ready_endpoints;

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    find_without_endpoints(evidence).into_iter().collect()
}

/// Checks whether the Service to explain has no endpoints. The Pods it selects count as its children.
fn find_without_endpoints(evidence: &Evidence) -> Option<Finding> {
    let service = evidence.subject().filter(|object| object.is_a("", "services"))?;
    let spec = &service.value["spec"];
    let selector = spec["selector"].as_object().filter(|selector| !selector.is_empty())?;
    if service.deleted_at().is_some() || spec["type"] == "ExternalName" || ready_endpoints(evidence) > 0 {
        return None;
    }
    let words: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let words = words.join(",");
    let pods: Vec<_> = evidence.below().filter(|object| object.is_a("", "pods")).collect();
    let is_ready = |pod: &&&crate::SeenObject| {
        pod.conditions().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let text = match (pods.len(), pods.iter().filter(is_ready).count()) {
        (0, _) => format!("has no endpoints: no Pod has the labels of its selector ({words})"),
        (count, 0) => format!(
            "has no ready endpoints: {} {} its selector ({words}), and none is Ready",
            count_of(count, "Pod"),
            if count == 1 { "matches" } else { "match" }
        ),
        (_, ready) => format!(
            "has no endpoints, although {} with the labels of its selector ({words}) {} Ready: no controller has \
             written its EndpointSlices",
            count_of(ready, "Pod"),
            if ready == 1 { "is" } else { "are" }
        ),
    };
    Some(Finding::new(CauseCode::NoEndpoints, &service.key, text))
}
