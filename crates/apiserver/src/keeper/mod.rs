//! Keeps the promises that outlive a request: dependents follow their owners, namespaces and definitions end with
//! what is in them, every namespace has its default objects, old events go.
//!
//! Writers leave `Notices`; the [`Keeper`] works through them. A notice names what to look at, never what
//! happened: the keeper reads the present state, so a notice handled twice or late does no harm.

mod collect;
mod definitions;
mod events;
pub(crate) mod history;
mod namespaces;
mod notices;
mod roles;
mod services;
mod storage;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub(crate) use notices::{Abandoned, Notice, Notices};
pub(crate) use services::changes as service_changes;

use crate::backend::{Backend, refusal};
use crate::bootstrap;
use crate::status::Status;

/// How often expired events are looked for.
const EXPIRY_PERIOD: Duration = Duration::from_mins(1);
/// How long a notice that could not be worked through (the store was busy) waits. The others do not wait for it.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The background worker of a server.
pub struct Keeper {
    backend: Arc<Backend>,
    /// Where the server is, and the certificate authority clients in Pods should trust.
    born: bootstrap::objects::Config,
}

impl Keeper {
    pub(crate) fn new(backend: Arc<Backend>, born: bootstrap::objects::Config) -> Self {
        Self { backend, born }
    }

    /// Works until `shutdown`. Dropping it in between leaves notices that the next start finds again by itself.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        // Boxed here, so that it is compiled here and not in every program that starts a server.
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: CancellationToken) {
        self.backend.notices.rebuild(&self.backend);
        let mut expiry = tokio::time::interval(EXPIRY_PERIOD);
        let mut history = tokio::time::interval(history::PERIOD);
        history.reset();
        let mut retry = tokio::time::interval(RETRY_DELAY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut postponed = Vec::new();
        loop {
            // Notices come last: there may always be one more, and the others are rare.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                commit = self.backend.notices.next_abandoned() => self.backend.finish(commit).await,
                _ = retry.tick(), if !postponed.is_empty() => self.backend.notices.leave_all(&mut postponed),
                _ = expiry.tick() => events::expire(&self.backend).await,
                // A store that refuses is asked again in a while; until then tokens are good for longer.
                _ = history.tick() => drop(history::advance(&self.backend).await),
                notice = self.backend.notices.next() => postponed.extend(self.guard(notice).await),
            }
        }
    }

    /// Handles a notice, or gives it back to be handled later. A panic is our bug, and costs what the notice asked
    /// for, not the server.
    async fn guard(&self, notice: Notice) -> Option<Notice> {
        match AssertUnwindSafe(self.handle(&notice)).catch_unwind().await {
            Ok(Ok(())) => None,
            Ok(Err(status)) => {
                tracing::warn!(?notice, message = %status.message, "will look again");
                Some(notice)
            }
            Err(_) => {
                tracing::error!(?notice, "looking after it made the keeper panic; please report this");
                None
            }
        }
    }

    async fn handle(&self, notice: &Notice) -> Result<(), Status> {
        match notice {
            Notice::Object(key) => collect::look_at(&self.backend, key).await,
            Notice::Gone(uid) => {
                collect::orphaned(&self.backend, uid);
                Ok(())
            }
            Notice::Namespace(name) => namespaces::look_at(&self.backend, name, &self.born.ca_pem).await,
            Notice::ApiServer => {
                bootstrap::restore(&self.backend, &self.born).await.map_err(|error| refusal(&error))
            }
            Notice::ClusterRoles => roles::settle(&self.backend).await,
            Notice::ApiServices => services::settle(&self.backend).await,
            Notice::Definition(name) => self.handle_definition(name).await,
        }
    }

    async fn handle_definition(&self, name: &str) -> Result<(), Status> {
        definitions::look_at(&self.backend, name).await?;
        services::settle(&self.backend).await
    }
}
