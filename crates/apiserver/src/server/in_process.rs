//! Lets the surrounding process use a server: it acts as other users, and adds the logs and streams of its node and the
//! journals of its operators.

use std::sync::Arc;

use super::ApiServer;
use crate::auth::Identity;
use crate::logs::LogSource;
use crate::streams::StreamSource;
use crate::write_history::JournalSource;

impl ApiServer {
    /// Returns the same server for in-process callers who act as another user.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { shared: Arc::clone(&self.shared), identity }
    }

    /// Reads the logs of Pods on this source's node from this source from now on. There is only one source: the first
    /// one wins.
    pub fn serve_logs(&self, source: Arc<dyn LogSource>) {
        let _ = self.shared.backend.logs.set(source);
    }

    /// Connects to containers of Pods on this source's node through this source from now on. There is only one
    /// source: the first one wins.
    pub fn serve_streams(&self, source: Arc<dyn StreamSource>) {
        let _ = self.shared.backend.streams.set(source);
    }

    /// Stops keeping the history of writes, so that `why` does not know about them. This is for measuring what it
    /// costs.
    #[doc(hidden)]
    pub fn disable_history(&self) {
        self.shared.backend.writes.disable();
    }

    /// Adds the journal of an operator in this process, for callers of `why` who may read the object.
    pub fn serve_journal(&self, source: Arc<dyn JournalSource>) {
        self.shared.backend.writes.add_journal(source);
    }
}
