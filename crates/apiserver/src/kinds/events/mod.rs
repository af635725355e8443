//! The newer face of Events, of `events.k8s.io`.

pub(crate) mod convert;
pub(crate) mod event;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&event::EVENT];
