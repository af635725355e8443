//! What the process around a server does with it: it acts as other users, and adds the logs of its node and the
//! journals of its operators.

use std::sync::Arc;

use super::ApiServer;
use crate::auth::Identity;
use crate::logs::LogSource;
use crate::write_history::JournalSource;

impl ApiServer {
    /// Returns the same server for in-process callers that act as another user.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { shared: Arc::clone(&self.shared), identity }
    }

    /// Reads the logs of Pods on this source's node from this source from now on. There is one source; the first one
    /// counts.
    pub fn serve_logs(&self, source: Arc<dyn LogSource>) {
        let _ = self.shared.backend.logs.set(source);
    }

    /// Adds the journal of an operator of this process, for callers of `why` who may read the object.
    pub fn serve_journal(&self, source: Arc<dyn JournalSource>) {
        self.shared.backend.writes.add_journal(source);
    }
}
