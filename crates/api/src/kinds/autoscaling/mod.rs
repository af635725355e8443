//! The kind of `autoscaling`, served in two versions.

pub(crate) mod horizontal_pod_autoscaler;
pub(crate) mod scale;
pub(crate) mod versions;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &horizontal_pod_autoscaler::HORIZONTAL_POD_AUTOSCALER_V1,
    &horizontal_pod_autoscaler::HORIZONTAL_POD_AUTOSCALER_V2,
];
