//! LimitRange: bounds and defaults for resources in a namespace.

use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};

/// Bounds and defaults for resources in a namespace.
pub(crate) static LIMIT_RANGE: Kind = Kind {
    short_names: &["limits"],
    strategy: PLAIN.created_by_update(),
    defaults: Some(defaults::core::limit_range),
    validate: Some(validate::quota::limit_range),
    warn_unenforced: Some(warn_only_stored),
    ..Kind::namespaced("", "v1", "limitranges", "LimitRange")
};
