//! Defines the errors that prevent the server from starting. Once it is serving, a bad client affects only its own
//! connection.

use std::net::SocketAddr;
use std::path::PathBuf;

/// An error while starting to serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}; choose another with --listen, port 0 takes any free one")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A stored credential cannot be read.
    #[error("cannot read {path}: {reason}; remove it to have it recreated")]
    Broken {
        /// The file.
        path: String,
        /// The problem with it.
        reason: String,
    },
    /// The key of the CA is gone, but its certificate is not.
    #[error(
        "{} is missing, but {} is there: with a new key, every certificate and kubeconfig issued so far would become \
         invalid. Restore the key from a backup; or, to begin anew with another authority, remove the certificate, too",
        key.display(), certificate.display()
    )]
    LostKey {
        /// Where the key should be.
        key: PathBuf,
        /// The certificate.
        certificate: PathBuf,
    },
    /// The folder has no CA that could issue certificates.
    #[error(
        "there is no {}: this is not the data folder of a server that has run; name that folder with --data-dir",
        path.display()
    )]
    NoAuthority {
        /// The missing file.
        path: PathBuf,
    },
    /// A certificate could not be created.
    #[error("cannot create a certificate: {0}")]
    Certificate(#[source] rcgen::Error),
    /// TLS could not be set up with the credentials.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] rustls::Error),
}

impl Error {
    pub(crate) fn broken(path: &str, reason: &dyn std::fmt::Display) -> Self {
        Self::Broken { path: path.into(), reason: reason.to_string() }
    }
}
