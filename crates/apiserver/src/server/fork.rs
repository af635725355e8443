//! Copies of a server, for the simulator: every schedule starts from the same state, and none must see what another did.
//!
//! **Invariant:** what two copies share never changes: rows of kinds, and the entries of the store.

use std::sync::{Arc, Mutex};

use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;

use super::{ApiServer, BackgroundWorker, ExpensiveRequests, Metrics, ServerState};

impl ApiServer {
    /// Returns a server over a copy of this server's store, taken while `background` had nothing to do. It shares what is expensive to
    /// make and nothing that changes, so a simulator can have thousands a second.
    ///
    /// # Errors
    /// When the copy cannot be watched.
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
        });
        Ok((Self { shared, identity: self.identity.clone() }, background))
    }
}
