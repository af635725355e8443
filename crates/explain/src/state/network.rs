//! Services and Ingresses.

use super::StateDescription;
use crate::evidence::{Evidence, SeenObject};
use crate::sentences::count_of;

/// Judges a Service; one without endpoints is judged by a rule.
pub(super) fn assess_service(evidence: &Evidence, service: &SeenObject) -> StateDescription {
    let spec = &service.value["spec"];
    if spec["type"] == "ExternalName" {
        let name = spec["externalName"].as_str().unwrap_or_default();
        return StateDescription::unknown(format!(
            "stands for the outside name {name}, which is not checked"
        ));
    }
    let ready = ready_endpoints(evidence);
    if !spec["selector"].is_object() {
        return match ready {
            0 => StateDescription::unknown(
                "has no selector: somebody has to write its endpoints, and none were found",
            ),
            _ => StateDescription::unknown(format!(
                "has no selector; {} written for it {} not checked",
                count_of(ready, "endpoint"),
                if ready == 1 { "is" } else { "are" }
            )),
        };
    }
    match ready {
        0 => StateDescription::unknown("has no ready endpoints, and why is not known"),
        _ => StateDescription::healthy(format!("is healthy: {}", ready_words(ready))),
    }
}

fn ready_words(ready: usize) -> String {
    format!("{} {} ready", count_of(ready, "endpoint"), if ready == 1 { "is" } else { "are" })
}

/// Returns how many endpoints of the EndpointSlices below are ready.
pub(crate) fn ready_endpoints(evidence: &Evidence) -> usize {
    let slices = evidence.below().filter(|object| object.is_a("discovery.k8s.io", "endpointslices"));
    let endpoints = slices.flat_map(|slice| slice.value["endpoints"].as_array().into_iter().flatten());
    endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false).count()
}

/// Judges an Ingress.
pub(super) fn assess_ingress(ingress: &SeenObject) -> StateDescription {
    let addresses = ingress.value["status"]["loadBalancer"]["ingress"].as_array();
    if let Some(first) = addresses.and_then(|addresses| addresses.first()) {
        let place = first["hostname"].as_str().or_else(|| first["ip"].as_str()).unwrap_or_default();
        return StateDescription::healthy(format!("is served at {place}"));
    }
    let class = ingress.value["spec"]["ingressClassName"].as_str();
    let class = class.map(|class| format!(" of class {class}")).unwrap_or_default();
    StateDescription::unknown(format!("has no address: no Ingress controller{class} has written its status"))
}
