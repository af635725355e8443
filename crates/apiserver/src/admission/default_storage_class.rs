//! DefaultStorageClass: a claim that names no class gets the default one.

use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::storage::storage_class::STORAGE_CLASS;
use serde_json::Value;

use super::default_class::default_class;
use super::plugin::{Mutate, Plugin};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(admit),
    ..Plugin::new("DefaultStorageClass", |resource| is_kind(resource, &PERSISTENT_VOLUME_CLAIM))
};

/// The annotations that mark the default class. The second one predates version 1.6.
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The deprecated annotation that names the class of a claim.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn admit(request: &AdmissionRequest<'_>, claim: &mut Value) {
    if !request.is_of(&PERSISTENT_VOLUME_CLAIM) || request.operation != Operation::Create || has_class(claim)
    {
        return;
    }
    if let Some(name) = default_class(&request.load_all(&STORAGE_CLASS), &IS_DEFAULT) {
        claim["spec"]["storageClassName"] = name.into();
    }
}

/// Returns whether the claim names a class, even if it is the empty one.
fn has_class(claim: &Value) -> bool {
    !claim["metadata"]["annotations"][OLD_CLASS].is_null() || !claim["spec"]["storageClassName"].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_class_is_a_class() {
        assert!(!has_class(&json!({"spec": {}})));
        assert!(has_class(&json!({"spec": {"storageClassName": ""}})));
        assert!(has_class(&json!({"metadata": {"annotations": {OLD_CLASS: "a"}}})));
    }
}
