//! Devices: the kinds of `resource.k8s.io`, one file each.

pub(crate) mod device_class;
pub(crate) mod resource_claim;
pub(crate) mod resource_claim_template;
pub(crate) mod resource_slice;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &device_class::DEVICE_CLASS,
    &resource_claim::RESOURCE_CLAIM,
    &resource_claim_template::RESOURCE_CLAIM_TEMPLATE,
    &resource_slice::RESOURCE_SLICE,
];
