//! Holds the state that all reconciles of one controller share: its name, its cache, and its memory of its own writes.

use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::Source;

use super::{LastApplied, OperatorShared};
use crate::cache::ObjectCache;
use crate::watch::Scope;

/// The state that all reconciles of one controller share.
pub(crate) struct ControllerShared {
    /// The controller's name in the journal, in logs and in metrics.
    pub(crate) source: Source,
    pub(crate) operator: Arc<OperatorShared>,
    pub(crate) scope: Scope,
    /// The objects of its main kind.
    pub(crate) cache: ObjectCache,
    pub(crate) finalizer: String,
    /// A condition that becomes false when the object cannot be decoded.
    pub(crate) dependent_condition: Option<&'static str>,
    /// The configuration last applied to each child, so that applying it again costs nothing.
    pub(crate) last_applied: Arc<LastApplied>,
}

impl ControllerShared {
    /// Returns whether this controller may write on behalf of `key` now.
    pub(crate) fn leads(&self, key: &Key) -> bool {
        self.operator.fence.leads(key)
    }
}
