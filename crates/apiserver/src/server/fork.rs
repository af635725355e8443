//! Copies a server, for the simulator: every schedule starts from the same state, and none must see the effects of
//! another.
//!
//! **Invariant:** copies share only data that never changes: kind rows, and store entries.

use std::sync::{Arc, Mutex};

use homeostat_core::{Clock, Entropy};
use homeostat_store::{Event, SharedStore};

use super::{
    ApiServer, BackgroundWorker, Compression, ExpensiveRequests, Metrics, ResponseCompression, ServerState,
};

impl ApiServer {
    /// Returns a server on a copy of this server's store, taken while `background` had nothing to do. It shares the
    /// parts that are expensive to create and nothing that changes, so a simulator can create thousands per second.
    ///
    /// # Errors
    /// Fails if the copy cannot be watched.
    pub fn fork(
        &self,
        background: &BackgroundWorker,
        store: SharedStore,
        clock: Clock,
        entropy: Entropy,
    ) -> Result<(Self, BackgroundWorker), homeostat_store::Error> {
        let backend = Arc::new(self.shared.backend.forked(store, clock, entropy)?);
        let background = background.forked(Arc::clone(&backend));
        let shared = Arc::new(ServerState {
            metrics: Metrics::new(backend.clock.now()),
            backend,
            admission: Arc::new(self.shared.admission.forked()),
            authenticator: Arc::clone(&self.shared.authenticator),
            expensive: ExpensiveRequests::new(),
            documents: Mutex::new(None),
            // Events in a simulation are not events on this server.
            audit: None,
            compression: Compression::new(ResponseCompression::Never),
        });
        Ok((Self { shared, identity: self.identity.clone() }, background))
    }

    /// Observes changes that the owner of the store has repeated there. Another copy of this server made them when it
    /// handled a request, so this one has not seen them yet. Triggers the same follow-up work as a commit.
    pub fn observe_repeated(&self, changes: &[Arc<Event>]) {
        for change in changes {
            self.shared.backend.observe_change(&change.key, change.old.as_ref(), change.new.as_ref());
        }
    }
}
