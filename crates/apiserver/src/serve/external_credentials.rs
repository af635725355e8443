//! Reads credentials from files that another program writes, which kube-apiserver gets from its flags.
//!
//! **Invariant:** the files are only read, with the same exception as in kube-apiserver: if the folder for the
//! serving certificate does not contain one, it is created there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use homeostat_core::Clock;
use rcgen::KeyPair;

use super::credentials::{CertificateAndKey, Credentials, TokenKeyTexts, serving_params};
use super::{CertificateNames, Error, files};

/// The files that hold a server's credentials.
#[derive(Clone, Debug, Default)]
pub struct ExternalCredentials {
    /// The serving certificate and its key.
    pub serving: ServingFiles,
    /// The CA certificates that issue trusted client certificates. Without it, no client certificate is trusted.
    pub client_ca: Option<PathBuf>,
    /// The key that signs service account tokens. Without it, a new key is used until the process exits.
    pub token_key: Option<PathBuf>,
    /// Additional keys whose tokens are accepted: public keys, certificates or private keys.
    pub other_token_keys: Vec<PathBuf>,
    /// The names of the token issuer. New tokens get the first one.
    pub issuers: Vec<String>,
}

/// The location of the serving certificate.
#[derive(Clone, Debug)]
pub enum ServingFiles {
    /// These files.
    Files {
        /// The certificate, and any intermediate certificates.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// `apiserver.crt` and `apiserver.key` in this folder, created if they are missing.
    Folder(PathBuf),
}

impl Default for ServingFiles {
    fn default() -> Self {
        Self::Folder(PathBuf::from("."))
    }
}

impl ExternalCredentials {
    pub(super) fn load(&self, names: &CertificateNames, clock: Clock) -> Result<Credentials, Error> {
        let serving = self.serving.load(names, clock)?;
        let signing = match &self.token_key {
            Some(path) => read(path)?,
            None => KeyPair::generate().map_err(Error::Certificate)?.serialize_pem(),
        };
        let others = self.other_token_keys.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let loaded = Credentials {
            // The CA is unknown, so clients get the serving certificate: a client that trusts it trusts this server.
            ca_pem: serving.certificate.clone(),
            admin_token: String::new(),
            client_ca_pem: self.client_ca.as_deref().map(read).transpose()?.unwrap_or_default(),
            serving,
            token_keys: TokenKeyTexts { signing, others, issuers: self.issuers.clone() },
            ca: None,
            clock,
            in_memory: BTreeMap::new(),
        };
        loaded.token_keys()?;
        Ok(loaded)
    }
}

impl ServingFiles {
    fn load(&self, names: &CertificateNames, clock: Clock) -> Result<CertificateAndKey, Error> {
        let (certificate, key) = match self {
            Self::Files { certificate, key } => (certificate.clone(), key.clone()),
            Self::Folder(folder) => {
                let pair = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
                if !pair.0.exists() && !pair.1.exists() {
                    make_pair(&pair.0, &pair.1, names, clock)?;
                }
                pair
            }
        };
        Ok(CertificateAndKey { certificate: read(&certificate)?, key: read(&key)? })
    }
}

/// Creates a self-signed serving certificate.
fn make_pair(certificate: &Path, key: &Path, names: &CertificateNames, clock: Clock) -> Result<(), Error> {
    let made = || {
        let pair = KeyPair::generate()?;
        let signed = serving_params(clock.now(), names)?.self_signed(&pair)?;
        Ok((signed.pem(), pair.serialize_pem()))
    };
    let (certificate_pem, key_pem) = made().map_err(Error::Certificate)?;
    files::write_private(certificate, certificate_pem.as_bytes())?;
    files::write_private(key, key_pem.as_bytes())
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}
