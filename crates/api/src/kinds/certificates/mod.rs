//! The kind of `certificates.k8s.io`.

pub mod certificate_signing_request;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&certificate_signing_request::CERTIFICATE_SIGNING_REQUEST];
