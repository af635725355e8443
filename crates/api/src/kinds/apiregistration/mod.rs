//! API registration: the kind of `apiregistration.k8s.io`.

pub mod api_service;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&api_service::API_SERVICE];
