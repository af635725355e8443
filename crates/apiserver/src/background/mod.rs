//! Does the work that outlives a request: deletes dependents with their owners, deletes namespaces and definitions with
//! their contents, gives every namespace its default objects, and deletes old events.
//!
//! Writers leave notices in the `BackgroundQueue`, and the [`BackgroundWorker`] works through them. A notice names an
//! object to look at, never what happened to it. Its handler reads the current state, so a notice that is handled twice
//! or late does no harm.

mod bulk_deletion;
mod certificate_requests;
mod definitions;
mod events;
mod garbage_collector;
mod namespaces;
mod nodes;
mod policy_types;
mod quotas;
mod roles;
mod slow_tasks;
mod storage_in_use;
mod token_secrets;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::status::Status;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use self::slow_tasks::{SlowTasks, slow_namespace};
use crate::auth::{Authenticator, TokenIssuer};
use crate::backend::{Backend, commit_refusal};
use crate::background_queue::BackgroundNotice;
use crate::certificates::authority::CertificateAuthority;
use crate::certificates::root_ca::RootCa;
use crate::{api_services, bootstrap, idle_revision_bump};

/// How often expired events are deleted.
const EXPIRY_PERIOD: Duration = Duration::from_mins(1);
/// How long to wait before retrying a notice that could not be handled because the store was busy. Other notices do
/// not wait for it.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Which of the tasks that Kubernetes runs in its controller manager are enabled. The other tasks are part of the
/// server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundTasks {
    /// Deletes dependents after their owners, and removes the finalizers of deletions and of storage.
    pub garbage_collection: bool,
    /// Empties and removes namespaces that are being deleted.
    pub namespace_deletion: bool,
    /// How long a namespace is left alone before it is emptied. Kubernetes waits five seconds, and some tests finish
    /// deleting a namespace themselves.
    pub namespace_deletion_delay: Duration,
    /// Gives every namespace its default ServiceAccount and the ConfigMap with the certificate authority, and fills
    /// Secrets with account tokens.
    pub namespace_defaults: bool,
}

impl Default for BackgroundTasks {
    /// Enables all of them.
    fn default() -> Self {
        Self {
            garbage_collection: true,
            namespace_deletion: true,
            namespace_deletion_delay: Duration::ZERO,
            namespace_defaults: true,
        }
    }
}

/// The background work of a server.
pub struct BackgroundWorker {
    backend: Arc<Backend>,
    tasks: BackgroundTasks,
    authenticator: Option<Arc<Authenticator>>,
    authority: Option<Arc<CertificateAuthority>>,
    /// The certificate authority that clients in Pods should trust.
    root_ca: RootCa,
    /// The server's address, and the certificate authority at its start.
    bootstrap: bootstrap::objects::BootstrapConfig,
}

impl BackgroundWorker {
    /// Returns the background tasks of another server with the same address and certificate authority.
    pub(crate) fn forked(&self, backend: Arc<Backend>) -> Self {
        Self {
            backend,
            tasks: self.tasks,
            authenticator: self.authenticator.clone(),
            authority: self.authority.clone(),
            root_ca: self.root_ca.clone(),
            bootstrap: self.bootstrap.clone(),
        }
    }

    pub(crate) fn new(
        backend: Arc<Backend>,
        tasks: BackgroundTasks,
        bootstrap: bootstrap::objects::BootstrapConfig,
    ) -> Self {
        let root_ca = RootCa::default();
        Self { backend, tasks, authenticator: None, authority: None, root_ca, bootstrap }
    }

    /// Writes this certificate authority into every namespace, again when it changes.
    pub(crate) fn with_root_ca(mut self, root_ca: RootCa) -> Self {
        self.root_ca = root_ca;
        self
    }

    /// Signs tokens with the issuer of this authenticator, and certificates with this authority.
    pub(crate) fn with_credentials(
        mut self,
        authenticator: Arc<Authenticator>,
        authority: Option<Arc<CertificateAuthority>>,
    ) -> Self {
        (self.authenticator, self.authority) = (Some(authenticator), authority);
        self
    }

    /// Runs until `shutdown`. If the future is dropped earlier, the next start finds the unhandled notices again.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        // The future is boxed here, so that it is compiled here and not in every program that starts a server.
        Box::pin(self.work(shutdown))
    }

    /// Makes the following steps look at everything in the store, as [`run`](Self::run) does when it begins.
    pub fn observe_store(&self) {
        self.backend.notices.rebuild(&self.backend.store.snapshot());
    }

    /// Describes what [`step`](Self::step) would process next; `None` if there is nothing to do.
    pub fn next_step(&self) -> Option<String> {
        self.backend.notices.peek().map(|notice| match notice {
            BackgroundNotice::Object(key) => format!("collect {key}"),
            BackgroundNotice::Gone(_) => "collect dependents".to_owned(),
            BackgroundNotice::Namespace(name) => format!("look after namespace {name}"),
            BackgroundNotice::Definition(name) => format!("look after definition {name}"),
            BackgroundNotice::CertificateRequest(name) => format!("look after certificate request {name}"),
            BackgroundNotice::TokenSecrets(namespace) => format!("look after token secrets of {namespace}"),
            BackgroundNotice::PolicyTypes(name) => format!("check types of policy {name}"),
            BackgroundNotice::ClusterRoles => "aggregate roles".to_owned(),
            BackgroundNotice::Node(name) => format!("look after node {name}"),
            BackgroundNotice::Quotas(namespace) => format!("count for quotas of {namespace}"),
            BackgroundNotice::ApiServer | BackgroundNotice::ApiServices => {
                "restore objects of the server".to_owned()
            }
        })
    }

    /// Does one piece of work in place of [`run`](Self::run), so that the simulator decides when. A later step retries
    /// work that failed. Returns whether there was anything to do.
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
        let mut history = tokio::time::interval(idle_revision_bump::PERIOD);
        history.reset();
        let mut retry = tokio::time::interval(RETRY_DELAY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut postponed = Vec::new();
        let mut slow = SlowTasks::new(&self);
        let mut root_ca = self.root_ca.clone();
        loop {
            // Notices come last, because there may always be another one, and the other events are rare. Slow tasks
            // yield.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                commit = self.backend.notices.next_abandoned() => self.backend.finish(commit).await,
                _ = retry.tick(), if !postponed.is_empty() => self.backend.notices.leave_all(&mut postponed),
                _ = expiry.tick() => self.delete_expired().await,
                () = root_ca.changed() => self.leave_namespaces(),
                // If the store refuses, it is tried again later; until then, tokens stay valid for longer.
                _ = history.tick() => drop(idle_revision_bump::advance(&self.backend).await),
                unhandled = slow.run() => postponed.extend(unhandled),
                notice = self.backend.notices.next() => match slow_namespace(&self.backend, &notice) {
                    Some(namespace) => slow.add(namespace, notice),
                    None => postponed.extend(self.handle_or_return(notice).await),
                },
            }
        }
    }

    /// Leaves notices to look at every namespace and its Secrets with tokens, which hold a copy of the certificate
    /// authority.
    fn leave_namespaces(&self) {
        for entry in self.backend.store.snapshot().range(&NAMESPACE.storage().prefix(), "") {
            self.backend.notices.leave(BackgroundNotice::Namespace(entry.key.name().into()));
            self.backend.notices.leave(BackgroundNotice::TokenSecrets(entry.key.name().into()));
        }
    }

    async fn delete_expired(&self) {
        events::delete_expired(&self.backend).await;
        if self.authority.is_some() {
            certificate_requests::delete_old(&self.backend).await;
        }
    }

    /// Handles a notice, or returns it to be handled later. A panic is our bug, and costs only the work of this
    /// notice, not the server.
    async fn handle_or_return(&self, notice: BackgroundNotice) -> Option<BackgroundNotice> {
        if self.is_early(&notice) {
            return Some(notice);
        }
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

    /// Returns the issuer of tokens, if Secrets are filled with tokens.
    fn token_issuer(&self) -> Option<&TokenIssuer> {
        self.authenticator.as_ref().filter(|_| self.tasks.namespace_defaults)?.issuer()
    }

    /// Returns whether the notice is about a namespace whose deletion has only just begun.
    fn is_early(&self, notice: &BackgroundNotice) -> bool {
        let delay = self.tasks.namespace_deletion_delay;
        match notice {
            BackgroundNotice::Namespace(name) if !delay.is_zero() => {
                namespaces::deletion_age(&self.backend, name).is_some_and(|age| age < delay)
            }
            _ => false,
        }
    }

    async fn handle(&self, notice: &BackgroundNotice) -> Result<(), Status> {
        match notice {
            BackgroundNotice::Object(_) | BackgroundNotice::Gone(_) if !self.tasks.garbage_collection => {
                Ok(())
            }
            BackgroundNotice::Object(key) => garbage_collector::reconcile(&self.backend, key).await,
            BackgroundNotice::Gone(uid) => {
                garbage_collector::notify_dependents(&self.backend, uid);
                Ok(())
            }
            BackgroundNotice::Namespace(name) => {
                namespaces::reconcile(&self.backend, name, self.tasks, &self.root_ca.pem()).await
            }
            BackgroundNotice::Node(name) => nodes::reconcile(&self.backend, name).await,
            BackgroundNotice::Quotas(namespace) => quotas::reconcile(&self.backend, namespace).await,
            BackgroundNotice::ApiServer => bootstrap::restore_api_server(&self.backend, &self.bootstrap)
                .await
                .map_err(|error| commit_refusal(&error)),
            BackgroundNotice::CertificateRequest(name) => match &self.authority {
                Some(authority) => certificate_requests::reconcile(&self.backend, authority, name).await,
                None => Ok(()),
            },
            BackgroundNotice::TokenSecrets(namespace) => match self.token_issuer() {
                Some(issuer) => {
                    token_secrets::reconcile(&self.backend, issuer, namespace, &self.root_ca.pem()).await
                }
                None => Ok(()),
            },
            BackgroundNotice::PolicyTypes(name) => policy_types::reconcile(&self.backend, name).await,
            BackgroundNotice::ClusterRoles => roles::sync_aggregated(&self.backend).await,
            BackgroundNotice::ApiServices => api_services::sync(&self.backend).await,
            BackgroundNotice::Definition(name) => self.handle_definition(name).await,
        }
    }

    async fn handle_definition(&self, name: &str) -> Result<(), Status> {
        definitions::reconcile(&self.backend, name).await?;
        api_services::sync(&self.backend).await
    }
}
