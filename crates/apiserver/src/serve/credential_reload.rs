//! Credentials that change while the server runs: files are re-read at intervals, and our own certificates are
//! renewed before they expire. A new CA is told to those who write it down, and written into the kubeconfig.
//!
//! **Invariant:** new credentials are used as a whole or not at all. If they cannot be read, the server keeps the
//! current ones, logs why, and tries again. Existing connections keep the identity that was proved on them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use homeostat_core::{Clock, Entropy};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::tls::{self, ClientTrust};
use super::{CertificateNames, CredentialStorage, Credentials, Error, kubeconfig};
use crate::auth::{Authenticator, StaticTokens};
use crate::certificates::authority::CertificateAuthority;

/// How often files are re-read. kube-apiserver does so at least once a minute; reading a few small files costs
/// nothing.
pub(super) const FILE_INTERVAL: Duration = Duration::from_secs(10);
/// How often credentials in memory are checked. They can only expire, and are renewed a month before.
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
    /// The static tokens that are accepted now.
    pub(super) tokens: StaticTokens,
    /// Tells which CA to trust.
    pub(super) root_ca: watch::Sender<String>,
    /// The kubeconfig (nowhere if empty), and the URL of our server in it.
    pub(super) kubeconfig: (PathBuf, String),
}

/// The last failure of something that is repeated. Each is logged once, not at every attempt.
#[derive(Default)]
struct LastFailure(String);

impl LastFailure {
    /// Logs a failure that is not the last one again. Returns the success.
    fn log<T>(&mut self, what: &str, outcome: Result<T, String>) -> Option<T> {
        match outcome {
            Ok(done) => {
                self.0.clear();
                Some(done)
            }
            Err(error) => {
                if error != self.0 {
                    tracing::warn!(%error, "cannot use the changed {what}, keeping the previous ones");
                }
                self.0 = error;
                None
            }
        }
    }
}

impl CredentialReloader {
    /// Runs until it is dropped.
    pub(super) async fn run(mut self, first: Credentials) {
        let mut current = Arc::new(first);
        let (mut failed_load, mut failed_tokens) = (LastFailure::default(), LastFailure::default());
        loop {
            tokio::time::sleep(self.interval).await;
            failed_tokens.log("tokens", self.reload_tokens().await);
            let (source, before) = (self.source.clone(), Arc::clone(&current));
            let loaded = tokio::task::spawn_blocking(move || source.load_after(&before)).await;
            let Ok(loaded) = loaded else { continue };
            let adopted = loaded.and_then(|loaded| self.adopt(&current, loaded));
            let adopted = failed_load.log("credentials", adopted.map_err(|error| error.to_string()));
            if let Some(loaded) = adopted.flatten() {
                current = Arc::new(loaded);
            }
        }
    }

    /// Reads the file of static tokens again, and puts changed ones to use.
    async fn reload_tokens(&mut self) -> Result<(), String> {
        let Some(file) = self.tokens.file().map(Path::to_owned) else { return Ok(()) };
        let told = |error: String| format!("{}: {error}", file.display());
        let path = file.clone();
        let loaded = tokio::task::spawn_blocking(move || StaticTokens::load(&path)).await;
        let loaded = loaded.map_err(|error| told(error.to_string()))?.map_err(told)?;
        if loaded != self.tokens {
            self.authenticator.set_tokens(&loaded);
            self.tokens = loaded;
            tracing::info!("using new static tokens");
        }
        Ok(())
    }

    /// Tells everyone the new CA. The kubeconfig is not worth a failure: the server serves with the new CA anyway.
    fn publish_ca(&self, pem: &str) {
        self.root_ca.send_replace(pem.to_owned());
        let (path, url) = &self.kubeconfig;
        if let Err(error) = kubeconfig::renew_authority(path, url, pem) {
            tracing::warn!(%error, "cannot write the new certificate authority into the kubeconfig");
        }
    }

    /// Puts credentials to use; returns `None` if they have not changed.
    fn adopt(&self, before: &Credentials, loaded: Credentials) -> Result<Option<Credentials>, Error> {
        let has_new_tls = loaded.serving != before.serving || loaded.client_ca_pem != before.client_ca_pem;
        let has_new_keys = loaded.token_keys != before.token_keys;
        let has_new_ca = loaded.ca_pem != before.ca_pem;
        if !has_new_tls && !has_new_keys && !has_new_ca {
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
        if has_new_ca {
            self.publish_ca(&loaded.ca_pem);
        }
        Ok(Some(loaded))
    }
}
