//! ResourceClaimTemplate: a template for requests for devices.

use crate::printing::{Column, name_and_age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// A template for requests for devices.
pub(crate) static RESOURCE_CLAIM_TEMPLATE: BuiltInKind = BuiltInKind {
    strategy: PLAIN.returned(),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(name_and_age),
    ..BuiltInKind::namespaced("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
};
