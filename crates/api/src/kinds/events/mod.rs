//! The newer form of Events, in the group `events.k8s.io`.

pub mod convert;
pub(crate) mod event;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&event::EVENT];
