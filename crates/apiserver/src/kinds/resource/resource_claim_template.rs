//! ResourceClaimTemplate: a template for requests for devices.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::{Column, name_and_age};
use crate::kinds::strategy::PLAIN;

/// A template for requests for devices.
pub(crate) static RESOURCE_CLAIM_TEMPLATE: Kind = Kind {
    strategy: PLAIN.returned(),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(name_and_age),
    ..Kind::namespaced("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
};
