//! The work that outlives a request: dependents follow their owners, namespaces and definitions are deleted with
//! their contents, every namespace gets its default objects, old events are deleted.
//!
//! Writers leave `Notices`; the [`BackgroundWorker`] work through them. A notice names an object to look at, never
//! what happened: its handler reads the current state, so a notice that is handled twice or late does no harm.

mod bulk_deletion;
mod definitions;
mod events;
mod garbage_collector;
mod namespaces;
mod nodes;
mod quotas;
mod roles;
mod storage_in_use;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use homeostat_api::status::Status;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, commit_refusal};
use crate::background_notices::Notice;
use crate::{api_services, bootstrap, history_progress};

/// How often expired events are deleted.
const EXPIRY_PERIOD: Duration = Duration::from_mins(1);
/// How long a notice that could not be handled (the store was busy) waits. The others do not wait for it.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The background work of a server.
pub struct BackgroundWorker {
    backend: Arc<Backend>,
    /// The server's address, and the certificate authority that clients in Pods should trust.
    bootstrap: bootstrap::objects::Config,
}

impl BackgroundWorker {
    /// Returns the background tasks of another server with the same address and certificate authority.
    pub(crate) fn forked(&self, backend: Arc<Backend>) -> Self {
        Self { backend, bootstrap: self.bootstrap.clone() }
    }

    pub(crate) fn new(backend: Arc<Backend>, bootstrap: bootstrap::objects::Config) -> Self {
        Self { backend, bootstrap }
    }

    /// Works until `shutdown`. If the future is dropped earlier, the next start finds the unhandled notices again.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        // Boxed here, so that it is compiled here and not in every program that starts a server.
        Box::pin(self.work(shutdown))
    }

    /// Makes the steps that follow look at everything that is stored, as [`run`](Self::run) does when it begins.
    pub fn observe_store(&self) {
        self.backend.notices.rebuild(&self.backend.store.snapshot());
    }

    /// Names what [`step`](Self::step) would process next; `None` if there is nothing to do.
    pub fn next_step(&self) -> Option<String> {
        self.backend.notices.peek().map(|notice| match notice {
            Notice::Object(key) => format!("collect {key}"),
            Notice::Gone(_) => "collect dependents".to_owned(),
            Notice::Namespace(name) => format!("look after namespace {name}"),
            Notice::Definition(name) => format!("look after definition {name}"),
            Notice::ClusterRoles => "aggregate roles".to_owned(),
            Notice::Node(name) => format!("look after node {name}"),
            Notice::Quotas(namespace) => format!("count for quotas of {namespace}"),
            Notice::ApiServer | Notice::ApiServices => "restore objects of the server".to_owned(),
        })
    }

    /// Does one piece of work, in place of [`run`](Self::run): the simulator decides when. What fails is tried again by
    /// a later step. Returns whether there was anything to do.
    pub fn step(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let Some(notice) = self.backend.notices.take() else { return false };
            if let Some(postponed) = self.handle_or_return(notice).await {
                self.backend.notices.leave(postponed);
            }
            true
        })
    }

    async fn work(self, shutdown: CancellationToken) {
        self.backend.notices.rebuild(&self.backend.store.snapshot());
        let mut expiry = tokio::time::interval(EXPIRY_PERIOD);
        let mut history = tokio::time::interval(history_progress::PERIOD);
        history.reset();
        let mut retry = tokio::time::interval(RETRY_DELAY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut postponed = Vec::new();
        loop {
            // Notices come last: there may always be one more, and the other events are rare.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                commit = self.backend.notices.next_abandoned() => self.backend.finish(commit).await,
                _ = retry.tick(), if !postponed.is_empty() => self.backend.notices.leave_all(&mut postponed),
                _ = expiry.tick() => events::delete_expired(&self.backend).await,
                // A store that refuses is asked again later; until then tokens stay valid for longer.
                _ = history.tick() => drop(history_progress::advance(&self.backend).await),
                notice = self.backend.notices.next() => postponed.extend(self.handle_or_return(notice).await),
            }
        }
    }

    /// Handles a notice, or returns it to be handled later. A panic is our bug, and costs the work of this notice,
    /// not the server.
    async fn handle_or_return(&self, notice: Notice) -> Option<Notice> {
        match AssertUnwindSafe(self.handle(&notice)).catch_unwind().await {
            Ok(Ok(())) => None,
            Ok(Err(status)) => {
                tracing::warn!(?notice, message = %status.message, "cannot handle the notice yet, will try again");
                Some(notice)
            }
            Err(_) => {
                tracing::error!(?notice, "a background task panicked on this notice; please report this");
                None
            }
        }
    }

    async fn handle(&self, notice: &Notice) -> Result<(), Status> {
        match notice {
            Notice::Object(key) => garbage_collector::reconcile(&self.backend, key).await,
            Notice::Gone(uid) => {
                garbage_collector::notify_dependents(&self.backend, uid);
                Ok(())
            }
            Notice::Namespace(name) => {
                namespaces::reconcile(&self.backend, name, &self.bootstrap.ca_pem).await
            }
            Notice::Node(name) => nodes::reconcile(&self.backend, name).await,
            Notice::Quotas(namespace) => quotas::reconcile(&self.backend, namespace).await,
            Notice::ApiServer => bootstrap::restore_api_server(&self.backend, &self.bootstrap)
                .await
                .map_err(|error| commit_refusal(&error)),
            Notice::ClusterRoles => roles::sync_aggregated(&self.backend).await,
            Notice::ApiServices => api_services::sync(&self.backend).await,
            Notice::Definition(name) => self.handle_definition(name).await,
        }
    }

    async fn handle_definition(&self, name: &str) -> Result<(), Status> {
        definitions::reconcile(&self.backend, name).await?;
        api_services::sync(&self.backend).await
    }
}
