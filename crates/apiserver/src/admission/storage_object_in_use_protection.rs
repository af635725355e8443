//! StorageObjectInUseProtection: gives volumes, claims and their classes the finalizer that keeps them while in use.

use homeostat_api::kinds::core::persistent_volume::PERSISTENT_VOLUME;
use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::storage::volume_attributes_class::VOLUME_ATTRIBUTES_CLASS;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::BuiltInKind;
use serde_json::Value;

use super::plugin::{Mutate, Plugin};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(admit),
    ..Plugin::new("StorageObjectInUseProtection", |resource| finalizer_of(resource).is_some())
};

/// The protected kinds, each with its finalizer.
static FINALIZERS: [(&BuiltInKind, &str); 3] = [
    (&PERSISTENT_VOLUME, "kubernetes.io/pv-protection"),
    (&PERSISTENT_VOLUME_CLAIM, "kubernetes.io/pvc-protection"),
    (&VOLUME_ATTRIBUTES_CLASS, "kubernetes.io/vac-protection"),
];

fn finalizer_of(resource: &Resource) -> Option<&'static str> {
    FINALIZERS.iter().find(|(kind, _)| is_kind(resource, kind)).map(|(_, finalizer)| *finalizer)
}

fn admit(request: &AdmissionRequest<'_>, object: &mut Value) {
    if request.operation != Operation::Create || !request.subresource.is_empty() {
        return;
    }
    if let Some(finalizer) = finalizer_of(request.resource)
        && !meta::has_finalizer(object, finalizer)
    {
        let finalizers = meta::finalizers(object).chain([finalizer]).map(ToOwned::to_owned).collect();
        meta::set_finalizers(object, finalizers);
    }
}
