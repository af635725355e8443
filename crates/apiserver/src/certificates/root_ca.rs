//! The certificate authority that clients of this server trust, for those who write it down: it may be renewed or replaced
//! while the server runs.

use tokio::sync::watch;

/// The current certificate authority, PEM; empty if there is none.
#[derive(Clone, Debug)]
pub struct RootCa(watch::Receiver<String>);

impl RootCa {
    /// Follows the certificate authority that is sent.
    pub(crate) fn following(sender: &watch::Sender<String>) -> Self {
        Self(sender.subscribe())
    }

    /// Returns the certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.borrow().clone()
    }

    /// Waits until it changes. One that never will waits for ever.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for RootCa {
    /// None.
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for RootCa {
    /// Returns an authority that stays the same.
    fn from(pem: &str) -> Self {
        Self(watch::channel(pem.to_owned()).1)
    }
}
