//! Certificate requests, Leases, autoscalers: objects that wait for another party to act.

use super::{StateDescription, other, unseen};
use crate::evidence::{Evidence, SeenObject};
use crate::leases::lapsed_since;
use crate::times;

/// Judges a request for a certificate.
pub(super) fn assess_certificate_request(evidence: &Evidence, request: &SeenObject) -> StateDescription {
    let has = |kind: &str| request.conditions().any(|one| one["type"] == kind && one["status"] == "True");
    let signer = request.value["spec"]["signerName"].as_str().unwrap_or_default();
    let is_issued = request.value["status"]["certificate"].as_str().is_some_and(|text| !text.is_empty());
    if is_issued {
        return StateDescription::healthy(format!("is healthy: {signer} has issued its certificate"));
    }
    if has("Approved") {
        return StateDescription::waiting(format!(
            "is approved, and its signer {signer} has not issued a certificate"
        ));
    }
    let since = request.created_at().map(|at| format!(" since {}", times::both(evidence.now, at)));
    StateDescription::waiting(format!(
        "waits{} for somebody to approve it (kubectl certificate approve {})",
        since.unwrap_or_default(),
        request.key.name()
    ))
}

/// Judges a Lease.
pub(super) fn assess_lease(evidence: &Evidence, lease: &SeenObject) -> StateDescription {
    let spec = &lease.value["spec"];
    let Some(holder) = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty()) else {
        return StateDescription::waiting("is held by nobody");
    };
    let renewed = spec["renewTime"].as_str().and_then(|at| at.parse().ok());
    let renewed =
        renewed.map(|at| format!(", renewed {}", times::both(evidence.now, at))).unwrap_or_default();
    match lapsed_since(&lease.value, evidence.now) {
        Some(since) => StateDescription::waiting(format!(
            "lapsed {}: {holder} has not renewed it, and nobody has taken it over",
            times::both(evidence.now, since)
        )),
        None => StateDescription::healthy(format!("is held by {holder}{renewed}")),
    }
}

/// Judges an autoscaler.
pub(super) fn assess_autoscaler(evidence: &Evidence, autoscaler: &SeenObject) -> StateDescription {
    let status = &autoscaler.value["status"];
    let (Some(current), Some(wanted)) =
        (status["currentReplicas"].as_i64(), status["desiredReplicas"].as_i64())
    else {
        return unscaled(evidence, autoscaler);
    };
    if autoscaler.conditions().next().is_none() && current == 0 && wanted == 0 {
        return unscaled(evidence, autoscaler);
    }
    match other::assess(evidence, autoscaler) {
        state if state.health == crate::Health::Healthy => {
            StateDescription::healthy(format!("is healthy: it wants {wanted} replicas, {current} run"))
        }
        _ => StateDescription::waiting(format!("wants {wanted} replicas, {current} run")),
    }
}

fn unscaled(evidence: &Evidence, autoscaler: &SeenObject) -> StateDescription {
    let state = unseen(evidence, autoscaler);
    StateDescription { text: format!("{}, and nothing is scaled", state.text), ..state }
}

/// Judges a quota: what is used up.
pub(super) fn assess_quota(evidence: &Evidence, quota: &SeenObject) -> StateDescription {
    let (hard, used) = (&quota.value["status"]["hard"], &quota.value["status"]["used"]);
    let Some(limits) = hard.as_object().filter(|limits| !limits.is_empty()) else {
        return unseen(evidence, quota);
    };
    let amount = |value: &serde_json::Value| value.as_str().unwrap_or("0").to_owned();
    let words = |name: &String, limit| format!("{name} {} of {}", amount(&used[name]), amount(limit));
    let full: Vec<String> = limits
        .iter()
        .filter(|(name, limit)| used[*name] == **limit)
        .map(|(name, limit)| words(name, limit))
        .collect();
    if full.is_empty() {
        let all: Vec<String> = limits.iter().map(|(name, limit)| words(name, limit)).collect();
        return StateDescription::healthy(format!("has room: {}", all.join(", ")));
    }
    StateDescription::waiting(format!("is used up: {}; more is refused", full.join(", ")))
}
