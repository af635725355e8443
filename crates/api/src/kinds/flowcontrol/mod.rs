//! Limits for concurrent requests: the kinds of `flowcontrol.apiserver.k8s.io`, one file each.

pub(crate) mod flow_schema;
pub(crate) mod priority_level_configuration;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] =
    &[&flow_schema::FLOW_SCHEMA, &priority_level_configuration::PRIORITY_LEVEL_CONFIGURATION];
