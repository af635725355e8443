//! Storage claims: whether a claim is bound, and if not, why. The last event about it says most; without one, its class
//! and volume are all that is known.
//!
//! For a claim that waits for its first Pod, the event also says so.

use super::StateDescription;
use crate::evidence::{Evidence, SeenObject};
use crate::sentences::after_colon;

/// Judges a claim.
pub(super) fn assess_claim(evidence: &Evidence, claim: &SeenObject) -> StateDescription {
    let (spec, status) = (&claim.value["spec"], &claim.value["status"]);
    let volume = spec["volumeName"].as_str().filter(|name| !name.is_empty());
    match status["phase"].as_str() {
        Some("Bound") => {
            let volume = volume.map(|name| format!(" to volume {name}")).unwrap_or_default();
            StateDescription::healthy(format!("is healthy: it is bound{volume}"))
        }
        Some("Lost") => {
            StateDescription::waiting("has lost its volume: the volume it was bound to does not exist")
        }
        phase => {
            let phase = phase.unwrap_or("Pending");
            StateDescription::waiting(format!("is {phase}: {}", reason(evidence, claim)))
        }
    }
}

fn reason(evidence: &Evidence, claim: &SeenObject) -> String {
    let events = evidence.events.iter().filter(|event| event["involvedObject"]["uid"] == claim.uid());
    let last = events.max_by_key(|event| crate::evidence::event_time(event));
    if let Some(event) = last {
        let reason = event["reason"].as_str().unwrap_or_default();
        return format!("{reason}{}", after_colon(event["message"].as_str().unwrap_or_default()));
    }
    let missing = evidence.missing.iter().find(|missing| missing.from == claim.key);
    match (claim.value["spec"]["storageClassName"].as_str(), missing) {
        (Some(class), Some(_)) => format!("its StorageClass {class} does not exist"),
        (None | Some(""), _) => {
            "it names no StorageClass, so it waits for a volume that fits, and none has been bound".to_owned()
        }
        (Some(class), None) => {
            format!("nothing has provided a volume of StorageClass {class}; its provisioner has said nothing")
        }
    }
}
