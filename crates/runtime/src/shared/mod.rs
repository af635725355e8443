//! Holds the state that all controllers of an operator share: one client, the caches, the journal, time and randomness,
//! the user's state, the event recorder, the fence and the declared writes.

use homeostat_core::journal::Source;
use homeostat_core::{Clock, Entropy};
use kube::Client;

pub(crate) mod controller_shared;
pub(crate) mod last_applied;
pub(crate) mod user_values;

pub(crate) use controller_shared::ControllerShared;
pub(crate) use last_applied::LastApplied;
use user_values::UserValues;

use crate::admin_address::AdminAddress;
use crate::cache::caches::Caches;
use crate::events::EventRecorder;
use crate::fence::Fence;
use crate::journal::Journal;
use crate::planned_calls::PlannedCalls;
use crate::rights::declared_writes::DeclaredWrites;
use crate::watch::Scope;

/// The state that all controllers of an operator share.
pub(crate) struct OperatorShared {
    /// The operator's name: field manager, lease, finalizer prefix, event source.
    pub(crate) name: Source,
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) scope: Scope,
    pub(crate) journal: Journal,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) states: UserValues,
    pub(crate) recorder: EventRecorder,
    pub(crate) fence: Fence,
    pub(crate) declared: DeclaredWrites,
    /// The announced address of the admin server.
    pub(crate) admin_address: Option<AdminAddress>,
    /// In a plan, records external writes instead of sending them.
    pub(crate) planned_calls: Option<PlannedCalls>,
}

impl OperatorShared {
    /// Returns the namespace for names without one: the only namespace that the operator works in, or else the client's
    /// own.
    pub(crate) fn home_namespace(&self) -> String {
        self.scope.namespace.clone().unwrap_or_else(|| self.client.default_namespace().to_owned())
    }
}
