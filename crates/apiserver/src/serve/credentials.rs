//! Manages the server's credentials: its own CA, the serving certificate, the administrator's credentials, and the key
//! that signs service account tokens. They are created at the first start, kept, and renewed before they expire.
//!
//! **Invariant:** every file is readable only by its owner, is written as a whole or not at all, and is replaced only
//! if it is missing, empty, about to expire or belongs to a different key. An existing file that cannot be read is an
//! error and is not overwritten. The key of an existing CA is never replaced: that would invalidate every
//! certificate.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use homeostat_core::{Clock, Entropy};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;

use super::external_credentials::ExternalCredentials;
use super::{Error, files};
use crate::auth::jwt::{SigningKey, TokenKeys};
use crate::certificates::authority::CertificateAuthority;
use crate::certificates::client_certificate;

/// Lifetimes in days. The CA outlives any installation; the other certificates are renewed in time.
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;
/// How long before they expire certificates are renewed, by a running server or at the next start.
const RENEW_DAYS: i64 = 30;
/// The number of random words in the administrator's token: 256 bits.
const TOKEN_WORDS: usize = 4;
/// The names of every API server, inside and outside a cluster.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The names in a serving certificate, in addition to those of every API server.
#[derive(Clone, Debug, Default)]
pub struct CertificateNames {
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Host names.
    pub hosts: Vec<String>,
}

/// The place where credentials are stored.
#[derive(Clone, Debug)]
pub enum CredentialStorage {
    /// In memory: they are lost when the process exits.
    Memory,
    /// In files in this folder.
    Folder(PathBuf),
    /// In files that another program writes and that this server only reads.
    Given(ExternalCredentials),
}

/// The credentials of the server.
pub struct Credentials {
    /// The CA's certificate, PEM.
    pub ca_pem: String,
    /// The administrator's bearer token; empty if there is none.
    pub admin_token: String,
    /// The CA certificates that issue trusted client certificates, PEM; may be empty.
    pub(super) client_ca_pem: String,
    pub(super) serving: CertificateAndKey,
    pub(super) token_keys: TokenKeyTexts,
    /// The CA of this server; `None` if certificates are issued elsewhere.
    pub(super) ca: Option<Arc<Issuer<'static, KeyPair>>>,
    pub(super) clock: Clock,
    /// The contents of the files, if credentials are kept in memory.
    pub(super) in_memory: BTreeMap<String, String>,
}

/// The keys for service account tokens, and the names of their issuer.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct TokenKeyTexts {
    /// The signing key, PEM.
    pub(super) signing: String,
    /// Additional keys whose tokens are accepted, PEM.
    pub(super) others: Vec<String>,
    /// The names of the issuer; empty for the default one.
    pub(super) issuers: Vec<String>,
}

/// A certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateAndKey {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Credentials {
    /// Loads the stored credentials and creates the missing ones. The serving certificate is also valid for these
    /// names.
    pub fn load(
        storage: &CredentialStorage,
        names: &CertificateNames,
        clock: Clock,
        entropy: &Entropy,
    ) -> Result<Self, Error> {
        Self::load_after(storage, names, clock, entropy, None)
    }

    /// Like [`load`](Self::load), but in a server that is already running, keeping the parts that its credentials hold
    /// in memory.
    pub(super) fn load_after(
        storage: &CredentialStorage,
        names: &CertificateNames,
        clock: Clock,
        entropy: &Entropy,
        earlier: Option<BTreeMap<String, String>>,
    ) -> Result<Self, Error> {
        if let CredentialStorage::Given(given) = storage {
            return given.load(names, clock);
        }
        let now = clock.now();
        let has_started = earlier.is_some();
        let in_memory = RefCell::new(earlier.unwrap_or_default());
        let files = CredentialFiles { storage, now, has_started, in_memory };
        let ca_key = files.ca_key()?;
        let nameless = CertificateNames::default();
        let (ca_pem, is_new) = files.certificate("ca.crt", &ca_key, &nameless, false, || {
            ca_params(now)?.self_signed(&ca_key).map(|made| made.pem())
        })?;
        let ca = Issuer::from_ca_cert_pem(&ca_pem, ca_key).map_err(|error| files.broken("ca.crt", &error))?;
        let key = files.key("apiserver.key")?;
        let (certificate, _) = files.certificate("apiserver.crt", &key, names, is_new, || {
            serving_params(now, names)?.signed_by(&key, &ca).map(|made| made.pem())
        })?;
        let serving = CertificateAndKey { certificate, key: key.serialize_pem() };
        let (token, _) =
            files.text("admin.token", |kept| !kept.trim().is_empty(), || Ok(random_token(entropy)))?;
        if !is_token(token.trim()) {
            return Err(files.broken("admin.token", &"a token has letters, digits and -._~+/= only"));
        }
        let mut made = Self {
            client_ca_pem: ca_pem.clone(),
            ca_pem,
            admin_token: token.trim().into(),
            serving,
            token_keys: files.token_keys()?,
            ca: Some(Arc::new(ca)),
            clock,
            in_memory: BTreeMap::new(),
        };
        made.keep_admin_certificate(&files, is_new)?;
        made.in_memory = files.in_memory.into_inner();
        Ok(made)
    }

    /// Issues a certificate for a user and its groups, valid for a year.
    pub fn issue_client(&self, user: &str, groups: &[&str]) -> Result<CertificateAndKey, Error> {
        let key = KeyPair::generate().map_err(Error::Certificate)?;
        let certificate = self.client_certificate(user, groups, &key).map_err(Error::Certificate)?;
        Ok(CertificateAndKey { certificate, key: key.serialize_pem() })
    }

    /// Returns the serving certificate and its key, in the form that rustls expects.
    pub fn serving(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let chain = CertificateDer::pem_slice_iter(self.serving.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::broken("apiserver.crt", &error))?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes())
            .map_err(|error| Error::broken("apiserver.key", &error))?;
        Ok((chain, key))
    }

    /// Returns the CA's certificate, in the form that rustls expects.
    pub fn ca_certificate(&self) -> Result<CertificateDer<'static>, Error> {
        CertificateDer::from_pem_slice(self.ca_pem.as_bytes())
            .map_err(|error| Error::broken("ca.crt", &error))
    }

    /// Returns the CA certificates that issue trusted client certificates.
    pub(super) fn client_cas(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        CertificateDer::pem_slice_iter(self.client_ca_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::broken("the certificates of the client CA", &error))
    }

    /// Returns the CA as a signer of certificate requests; `None` if certificates are issued elsewhere.
    pub(super) fn authority(&self) -> Result<Option<CertificateAuthority>, Error> {
        let Some(ca) = &self.ca else { return Ok(None) };
        Ok(Some(CertificateAuthority::new(Arc::clone(ca), self.ca_expiry()?)))
    }

    /// Returns when the CA's certificate expires, in seconds since 1970.
    pub(super) fn ca_expiry(&self) -> Result<i64, Error> {
        let der = self.ca_certificate()?;
        let (_, certificate) =
            x509_parser::parse_x509_certificate(&der).map_err(|error| Error::broken("ca.crt", &error))?;
        Ok(certificate.validity().not_after.timestamp())
    }

    /// Returns the keys of service account tokens.
    pub fn token_keys(&self) -> Result<TokenKeys, Error> {
        TokenKeys::from_pem(&self.token_keys.signing, &self.token_keys.others)
            .map_err(|why| Error::broken("the keys of service account tokens", &why))
    }

    fn client_certificate(&self, user: &str, groups: &[&str], key: &KeyPair) -> Result<String, rcgen::Error> {
        let ca = self.ca.as_ref().ok_or(rcgen::Error::RemoteKeyError)?;
        client_certificate::issue(&client_params(self.clock.now(), LEAF_DAYS)?, key, ca, user, groups)
    }

    /// Stores a certificate for administrators who prefer it to the token. This is done only on disk, because nobody
    /// could read it from memory.
    fn keep_admin_certificate(&self, kept: &CredentialFiles<'_>, must_renew: bool) -> Result<(), Error> {
        if !matches!(kept.storage, CredentialStorage::Folder(_)) {
            return Ok(());
        }
        let key = kept.key("admin.key")?;
        kept.certificate("admin.crt", &key, &CertificateNames::default(), must_renew, || {
            self.client_certificate("kubernetes-admin", &[crate::auth::MASTERS], &key)
        })?;
        Ok(())
    }
}

/// A user's certificate, and the CA that the user trusts.
pub struct IssuedUser {
    /// The certificate and its key.
    pub certificate: CertificateAndKey,
    /// The CA's certificate, PEM.
    pub ca_pem: String,
}

/// Issues a certificate for a user and its groups with the CA in this folder, which must exist. A server may be
/// running: nothing in the folder is changed.
pub fn issue_user(
    folder: &Path,
    user: &str,
    groups: &[&str],
    days: u16,
    now: Timestamp,
) -> Result<IssuedUser, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::NoAuthority { path },
            _ => Error::File { path, source },
        })
    };
    let broken = |name: &str, why: &dyn std::fmt::Display| {
        Error::broken(&folder.join(name).display().to_string(), why)
    };
    let ca_pem = read("ca.crt")?;
    let ca_key = KeyPair::from_pem(&read("ca.key")?).map_err(|error| broken("ca.key", &error))?;
    let ca = Issuer::from_ca_cert_pem(&ca_pem, ca_key).map_err(|error| broken("ca.crt", &error))?;
    let issue = || {
        let key = KeyPair::generate()?;
        let certificate =
            client_certificate::issue(&client_params(now, days.into())?, &key, &ca, user, groups)?;
        Ok(CertificateAndKey { certificate, key: key.serialize_pem() })
    };
    let certificate = issue().map_err(Error::Certificate)?;
    Ok(IssuedUser { certificate, ca_pem })
}

/// Reads and writes the stored files.
struct CredentialFiles<'a> {
    storage: &'a CredentialStorage,
    now: Timestamp,
    /// Whether a server is already using them. In that case an administrator may be replacing the files one by one,
    /// so a missing or mismatched file is an error and is not re-created.
    has_started: bool,
    in_memory: RefCell<BTreeMap<String, String>>,
}

impl CredentialFiles<'_> {
    /// Returns the stored text if it is usable, otherwise a new one, and whether it is new.
    fn text(
        &self,
        name: &str,
        is_usable: impl Fn(&str) -> bool,
        make: impl FnOnce() -> Result<String, rcgen::Error>,
    ) -> Result<(String, bool), Error> {
        let CredentialStorage::Folder(folder) = self.storage else {
            let kept = self.in_memory.borrow().get(name).filter(|kept| is_usable(kept)).cloned();
            if let Some(kept) = kept {
                return Ok((kept, false));
            }
            let fresh = make().map_err(Error::Certificate)?;
            self.in_memory.borrow_mut().insert(name.to_owned(), fresh.clone());
            return Ok((fresh, true));
        };
        let path = folder.join(name);
        match read_private(&path)? {
            Some(kept) if is_usable(&kept) => return Ok((kept, false)),
            None if self.has_started => {
                return Err(Error::File { path, source: std::io::ErrorKind::NotFound.into() });
            }
            _ => {}
        }
        let fresh = make().map_err(Error::Certificate)?;
        files::write_private(&path, fresh.as_bytes())?;
        Ok((fresh, true))
    }

    /// Returns the key of the CA. Fails if only the key is gone: a new one would invalidate every certificate.
    fn ca_key(&self) -> Result<KeyPair, Error> {
        if let CredentialStorage::Folder(folder) = self.storage {
            let (certificate, key) = (folder.join("ca.crt"), folder.join("ca.key"));
            let is_there =
                |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
            if is_there(&certificate) && !is_there(&key) {
                return Err(Error::LostKey { key, certificate });
            }
        }
        self.key("ca.key")
    }

    fn key(&self, name: &str) -> Result<KeyPair, Error> {
        let (pem, _) = self.text(name, |_| true, || KeyPair::generate().map(|key| key.serialize_pem()))?;
        KeyPair::from_pem(&pem).map_err(|error| self.broken(name, &error))
    }

    fn certificate(
        &self,
        name: &str,
        key: &KeyPair,
        names: &CertificateNames,
        must_renew: bool,
        make: impl FnOnce() -> Result<String, rcgen::Error>,
    ) -> Result<(String, bool), Error> {
        if let CredentialStorage::Folder(folder) = self.storage
            && self.has_started
            && let Some(kept) = read_private(&folder.join(name))?
            && !belongs_to_key(&kept, key)
        {
            return Err(self.broken(name, &"it does not belong to its key"));
        }
        self.text(name, |pem| !must_renew && is_certificate_usable(pem, key, names, self.now), make)
    }

    /// Returns the token keys: the one in `sa.key` signs, and those in `sa-previous.pem`, if it exists, are also
    /// accepted.
    fn token_keys(&self) -> Result<TokenKeyTexts, Error> {
        let make = || {
            let key = KeyPair::try_from(SigningKey::generate().as_slice())?;
            Ok(key.serialize_pem())
        };
        let (signing, _) = self.text("sa.key", |_| true, make)?;
        let others = match self.storage {
            CredentialStorage::Folder(folder) => read_private(&folder.join("sa-previous.pem"))?,
            _ => None,
        };
        let others: Vec<String> = others.into_iter().collect();
        TokenKeys::from_pem(&signing, &others).map_err(|why| self.broken("sa.key", &why))?;
        Ok(TokenKeyTexts { signing, others, issuers: Vec::new() })
    }

    fn broken(&self, name: &str, why: &dyn std::fmt::Display) -> Error {
        let path = match self.storage {
            CredentialStorage::Folder(folder) => folder.join(name).display().to_string(),
            CredentialStorage::Memory | CredentialStorage::Given(_) => name.into(),
        };
        Error::broken(&path, why)
    }
}

/// Returns whether the string can be sent as a bearer token.
fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

/// Returns the contents of a file, and removes other users' permissions.
fn read_private(path: &Path) -> Result<Option<String>, Error> {
    files::close_to_others(path)?;
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.into(), source }),
    }
}

/// Returns whether the text is a certificate for this key.
fn belongs_to_key(pem: &str, key: &KeyPair) -> bool {
    CertificateDer::from_pem_slice(pem.as_bytes()).is_ok_and(|der| {
        x509_parser::parse_x509_certificate(&der)
            .is_ok_and(|(_, certificate)| certificate.public_key().raw == key.subject_public_key_info())
    })
}

/// Returns whether the certificate belongs to this key, outlives the renewal margin and has all names.
fn is_certificate_usable(pem: &str, key: &KeyPair, names: &CertificateNames, now: Timestamp) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(&der) else { return false };
    if certificate.public_key().raw != key.subject_public_key_info() {
        return false;
    }
    let margin = RENEW_DAYS * 24 * 3600;
    if certificate.validity().not_after.timestamp() < now.as_second() + margin {
        return false;
    }
    let found = certificate.subject_alternative_name().ok().flatten();
    let found = found.map(|found| found.value.general_names.clone()).unwrap_or_default();
    let has_hosts = names.hosts.iter().all(|host| found.contains(&GeneralName::DNSName(host)));
    has_hosts
        && names.addresses.iter().all(|address| {
            let octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            found.iter().any(|name| *name == GeneralName::IPAddress(&octets))
        })
}

fn certificate_params(now: Timestamp, days: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // The certificate is valid from one day ago: clocks differ, and the library's dates are whole days.
    let [year, month, day] = date_parts(now - SignedDuration::from_hours(24));
    params.not_before = rcgen::date_time_ymd(year, month_or_day(month), month_or_day(day));
    let [year, month, day] = date_parts(now + SignedDuration::from_hours(24 * days));
    params.not_after = rcgen::date_time_ymd(year, month_or_day(month), month_or_day(day));
    Ok(params)
}

fn ca_params(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = certificate_params(now, CA_DAYS)?;
    params.distinguished_name.push(DnType::CommonName, "homeostat-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn client_params(now: Timestamp, days: i64) -> Result<CertificateParams, rcgen::Error> {
    leaf_params(now, days, ExtendedKeyUsagePurpose::ClientAuth)
}

fn leaf_params(
    now: Timestamp,
    days: i64,
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = certificate_params(now, days)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

pub(super) fn serving_params(
    now: Timestamp,
    names: &CertificateNames,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = leaf_params(now, LEAF_DAYS, ExtendedKeyUsagePurpose::ServerAuth)?;
    params.distinguished_name.push(DnType::CommonName, "homeostat");
    for name in NAMES.into_iter().chain(names.hosts.iter().map(String::as_str)) {
        params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    params.subject_alt_names.extend(names.addresses.iter().copied().map(SanType::IpAddress));
    Ok(params)
}

fn date_parts(at: Timestamp) -> [i32; 3] {
    let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
    [date.year().into(), date.month().into(), date.day().into()]
}

fn month_or_day(part: i32) -> u8 {
    u8::try_from(part).expect("months and days are small and positive")
}

fn random_token(entropy: &Entropy) -> String {
    let bytes = (0..TOKEN_WORDS).flat_map(|_| entropy.next_u64().to_le_bytes()).collect::<Vec<_>>();
    URL_SAFE_NO_PAD.encode(bytes)
}
