//! The kind that says who serves what, of `apiregistration.k8s.io`.

pub(crate) mod api_service;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&api_service::API_SERVICE];
