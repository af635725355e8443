//! References to objects that do not exist.

use super::Finding;
use crate::evidence::{Evidence, SeenObject};
use crate::explanation::CauseCode;

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let is_live = |object: &&SeenObject| {
        object.depth >= 0 && object.deleted_at().is_none() && object.value["status"]["phase"] != "Succeeded"
    };
    let objects = evidence.objects.iter().filter(is_live);
    objects.flat_map(|object| find_in_object(evidence, object)).collect()
}

fn find_in_object<'a>(evidence: &'a Evidence, object: &'a SeenObject) -> impl Iterator<Item = Finding> + 'a {
    // A missing node is reported with the Pod's state, and a missing class with the claim's.
    let is_told = |kind: &str| matches!(kind, "Node" | "StorageClass");
    let missing =
        evidence.missing.iter().filter(move |missing| missing.from == object.key && !is_told(&missing.kind));
    missing.map(|missing| {
        let text = format!("refers to {} {}, which does not exist", missing.kind, missing.name);
        Finding::new(CauseCode::MissingReference, &object.key, text)
    })
}
