//! Stands in for `console.rs` without the feature `console`, when no caller can request a console.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::Authenticator;
use homeostat_core::{Clock, Entropy};
use homeostat_runtime::Journal;
use tokio_util::sync::CancellationToken;

use super::Error;

/// Whether this build has a console.
pub(super) const IS_BUILT: bool = false;

/// Stands for a console, and cannot be constructed.
pub(super) struct BoundConsole(Infallible);

/// Stands for a console to show operators on, and cannot be constructed.
#[derive(Clone)]
pub(super) struct ConsoleOperators(Infallible);

impl BoundConsole {
    #[expect(clippy::unused_async, reason = "the same signature as with the feature")]
    pub(super) async fn bind(
        address: SocketAddr,
        _api: ApiServer,
        _authenticator: Option<Arc<Authenticator>>,
        _clock: Clock,
        _entropy: &Entropy,
    ) -> Result<Self, Error> {
        let source = std::io::Error::other("this program was built without the feature `console`");
        Err(Error::Console { address, source })
    }

    pub(super) fn url(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn operators(&self) -> ConsoleOperators {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as with the feature")]
    pub(super) async fn run(self, _stop: CancellationToken) {
        match self.0 {}
    }
}

impl ConsoleOperators {
    pub(super) fn show(&self, _journal: Journal) {
        match self.0 {}
    }
}
