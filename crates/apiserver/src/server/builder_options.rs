//! Further options of a server: its audit log, address, certificate signer and CA, and options that only stand-ins for other
//! programs need (kube-apiserver alone, without its controller manager, as test suites start it).
//!
//! The more common options are next to the [`Builder`] itself.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Builder;
use crate::audit::AuditLog;
use crate::background::BackgroundTasks;
use crate::certificates::authority::CertificateAuthority;
use crate::certificates::root_ca::RootCa;

impl Builder {
    /// Sets the audit log. The default is none.
    #[must_use]
    pub fn audit(mut self, log: Option<Arc<AuditLog>>) -> Self {
        self.audit = log;
        self
    }

    /// Sets the address on which the server listens, for programs that look it up. The default is none.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Allows everyone to do everything, regardless of roles. Off by default.
    #[must_use]
    pub fn allow_everything(mut self, allows_everything: bool) -> Self {
        self.allows_everything = allows_everything;
        self
    }

    /// Sets the authority that signs approved certificate requests. The default is none.
    #[must_use]
    pub fn authority(mut self, authority: Option<Arc<CertificateAuthority>>) -> Self {
        self.authority = authority;
        self
    }

    /// Sets the certificate authority that is written into every namespace: the PEM, or one that is followed.
    #[must_use]
    pub fn root_ca(mut self, authority: impl Into<RootCa>) -> Self {
        self.root_ca = authority.into();
        self
    }

    /// Sets which background tasks run. The default is all of them.
    #[must_use]
    pub fn background(mut self, tasks: BackgroundTasks) -> Self {
        self.background = tasks;
        self
    }
}
