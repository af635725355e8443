//! Reloads credentials that change while the server runs: files are re-read at intervals, and our own certificates are
//! renewed before they expire.
//!
//! **Invariant:** new credentials are used as a whole or not at all. If they cannot be read, the server keeps the
//! current ones, logs why, and tries again. Existing connections keep the identity that was proved on them.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use homeostat_core::{Clock, Entropy};
use tokio_rustls::TlsAcceptor;

use super::tls::{self, ClientTrust};
use super::{CertificateNames, CredentialStorage, Credentials, Error};
use crate::auth::Authenticator;
use crate::certificates::authority::CertificateAuthority;

/// How often files are re-read. kube-apiserver does so at least once a minute; reading a few small files costs
/// nothing.
const FILE_INTERVAL: Duration = Duration::from_secs(10);
/// How often credentials in memory are checked. They can only expire, and are renewed a month before that.
const MEMORY_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The data that a TLS connection needs, from one state of the credentials.
pub(crate) struct TlsState {
    pub(super) acceptor: TlsAcceptor,
    pub(super) client_trust: ClientTrust,
}

impl TlsState {
    fn new(credentials: &Credentials) -> Result<Self, Error> {
        Ok(Self {
            acceptor: TlsAcceptor::from(tls::server_config(credentials)?),
            client_trust: ClientTrust::new(credentials, credentials.clock)?,
        })
    }
}

/// The current state of TLS, for new connections.
pub(crate) struct ReloadableTls(RwLock<Arc<TlsState>>);

impl ReloadableTls {
    pub(super) fn new(credentials: &Credentials) -> Result<Self, Error> {
        Ok(Self(RwLock::new(Arc::new(TlsState::new(credentials)?))))
    }

    pub(super) fn current(&self) -> Arc<TlsState> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, state: TlsState) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }
}

/// The source of credentials.
#[derive(Clone)]
pub(super) struct CredentialSource {
    pub(super) storage: CredentialStorage,
    pub(super) names: CertificateNames,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
}

impl CredentialSource {
    pub(super) fn interval(&self) -> Duration {
        match self.storage {
            CredentialStorage::Memory => MEMORY_INTERVAL,
            CredentialStorage::Folder(_) | CredentialStorage::Given(_) => FILE_INTERVAL,
        }
    }

    fn load_after(&self, before: &Credentials) -> Result<Credentials, Error> {
        let kept = Some(before.in_memory.clone());
        let mut loaded =
            Credentials::load_after(&self.storage, &self.names, self.clock, &self.entropy, kept)?;
        if let CredentialStorage::Given(given) = &self.storage
            && given.token_key.is_none()
        {
            // No key was configured: keep the one that was generated at startup.
            loaded.token_keys.signing.clone_from(&before.token_keys.signing);
        }
        Ok(loaded)
    }
}

/// Re-reads credentials periodically, and applies changed ones.
pub(super) struct CredentialReloader {
    pub(super) source: CredentialSource,
    pub(super) interval: Duration,
    pub(super) tls: Arc<ReloadableTls>,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) authority: Option<Arc<CertificateAuthority>>,
}

impl CredentialReloader {
    /// Runs until it is dropped.
    pub(super) async fn run(self, first: Credentials) {
        let mut current = Arc::new(first);
        // Each failure is logged once, not at every attempt.
        let mut last_failure = String::new();
        loop {
            tokio::time::sleep(self.interval).await;
            let (source, before) = (self.source.clone(), Arc::clone(&current));
            let loaded = tokio::task::spawn_blocking(move || source.load_after(&before)).await;
            let Ok(loaded) = loaded else { continue };
            match loaded.and_then(|loaded| self.adopt(&current, loaded)) {
                Ok(None) => last_failure.clear(),
                Ok(Some(loaded)) => {
                    last_failure.clear();
                    current = Arc::new(loaded);
                }
                Err(error) if error.to_string() == last_failure => {}
                Err(error) => {
                    last_failure = error.to_string();
                    tracing::warn!(%error, "cannot use the changed credentials, keeping the previous ones");
                }
            }
        }
    }

    /// Applies credentials; returns `None` if they have not changed.
    fn adopt(&self, before: &Credentials, loaded: Credentials) -> Result<Option<Credentials>, Error> {
        let has_new_tls = loaded.serving != before.serving || loaded.client_ca_pem != before.client_ca_pem;
        let has_new_keys = loaded.token_keys != before.token_keys;
        if !has_new_tls && !has_new_keys {
            return Ok(None);
        }
        let (tls, keys) = (TlsState::new(&loaded)?, loaded.token_keys()?);
        if has_new_tls {
            if let (Some(authority), Some(ca)) = (&self.authority, &loaded.ca) {
                authority.set(Arc::clone(ca), loaded.ca_expiry()?);
            }
            self.tls.set(tls);
            tracing::info!("using new certificates");
        }
        if let Some(issuer) = self.authenticator.issuer().filter(|_| has_new_keys) {
            issuer.set_keys(keys);
            tracing::info!("using new keys of service account tokens");
        }
        Ok(Some(loaded))
    }
}
