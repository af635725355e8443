//! The kind of `certificates.k8s.io`.

pub(crate) mod certificate_signing_request;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&certificate_signing_request::CERTIFICATE_SIGNING_REQUEST];
