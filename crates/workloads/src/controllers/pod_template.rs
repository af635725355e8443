//! Creates Pods from a Pod template, and computes the short hash that distinguishes templates in names and labels.
//!
//! The hash is stable for a template as long as the same build writes it. Hashes are not compared to find a template
//! again (objects are), so a different build may hash differently without harm.

use homeostat_core::hash::fnv_32;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

/// The letters used in hashes: no vowels, so that no words appear; no 0, 1, 3, which are easily misread.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the full Pod that this template describes, without a name.
pub(crate) fn pod_from_template(template: &PodTemplateSpec) -> Pod {
    let described = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        labels: described.labels,
        annotations: described.annotations,
        finalizers: described.finalizers,
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

/// Returns the full Pod that this template describes; the server derives its name from `owner`.
pub(crate) fn generated_pod(template: &PodTemplateSpec, owner: &str) -> Pod {
    let mut pod = pod_from_template(template);
    pod.metadata.generate_name = Some(format!("{owner}-"));
    pod
}

/// Returns a short hash of this value; a different `collisions` yields a different hash if the first is taken.
pub(crate) fn short_hash(value: &impl Serialize, collisions: Option<i32>) -> String {
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.extend(collisions.into_iter().flat_map(i32::to_le_bytes));
    spell_safely(fnv_32(&bytes))
}

/// Returns a number's digits in letters that do not form words.
fn spell_safely(number: u32) -> String {
    number.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let whole = fnv_32(b"\"x\"\x01\0\0\0");
        assert_eq!(short_hash(&"x", Some(1)), spell_safely(whole), "the value, then the collisions");
        assert_eq!(spell_safely(0), "4", "the digit 0 is byte 48, and 48 modulo 27 is 21");
        assert_ne!(short_hash(&"x", None), short_hash(&"x", Some(1)));
    }
}
