//! The credentials of the server: its own CA, the serving certificate, the administrator's credentials, and the key
//! that signs service account tokens. They are created at the first start, kept, and renewed before they expire.
//!
//! **Invariant:** every file is readable by its owner only, is written as a whole or not at all, and is replaced only
//! if it is missing, empty, about to expire or belongs to another key; an existing file that cannot be read is an
//! error and is not overwritten.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

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

use super::{Error, client_certificate, files};
use crate::auth::jwt::SigningKey;

/// Lifetimes in days. The CA outlives any installation; the others are renewed at a restart.
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;
/// Certificates are renewed this long before they expire, so that a server restarted monthly never serves an expired
/// one.
const RENEW_DAYS: i64 = 30;
/// Random words in the administrator's token: 256 bits.
const TOKEN_WORDS: usize = 4;
/// Names of every API server, inside a cluster and outside.
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

/// Where credentials are stored.
#[derive(Clone, Debug)]
pub enum CredentialStorage {
    /// In memory: they are lost with the process.
    Memory,
    /// In files of this folder.
    Folder(PathBuf),
}

/// The credentials of the server.
pub struct Credentials {
    /// The CA's certificate, PEM.
    pub ca_pem: String,
    /// The administrator's bearer token.
    pub admin_token: String,
    ca: Issuer<'static, KeyPair>,
    serving: CertificateAndKey,
    service_account_key: Vec<u8>,
    clock: Clock,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
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
        let now = clock.now();
        let files = CredentialFiles { storage, now };
        let ca_key = files.key("ca.key")?;
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
        let service_account_key = files.service_account_key()?;
        let made = Self { ca_pem, admin_token: token.trim().into(), ca, serving, service_account_key, clock };
        made.keep_admin_certificate(&files, is_new)?;
        Ok(made)
    }

    /// Issues a certificate for a user and its groups, valid for a year.
    pub fn issue_client(&self, user: &str, groups: &[&str]) -> Result<CertificateAndKey, Error> {
        let key = KeyPair::generate().map_err(Error::Certificate)?;
        let certificate = self.client_certificate(user, groups, &key).map_err(Error::Certificate)?;
        Ok(CertificateAndKey { certificate, key: key.serialize_pem() })
    }

    /// Returns the serving certificate and its key, as rustls takes them.
    pub fn serving(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let chain = CertificateDer::pem_slice_iter(self.serving.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::broken("apiserver.crt", &error))?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes())
            .map_err(|error| Error::broken("apiserver.key", &error))?;
        Ok((chain, key))
    }

    /// Returns the CA's certificate, as rustls takes it.
    pub fn ca_certificate(&self) -> Result<CertificateDer<'static>, Error> {
        CertificateDer::from_pem_slice(self.ca_pem.as_bytes())
            .map_err(|error| Error::broken("ca.crt", &error))
    }

    /// Returns the key that signs service account tokens.
    pub fn service_account_key(&self) -> Result<SigningKey, Error> {
        SigningKey::from_pkcs8(&self.service_account_key)
            .ok_or_else(|| Error::broken("sa.key", &"not a P-256 key in PKCS#8"))
    }

    fn client_certificate(&self, user: &str, groups: &[&str], key: &KeyPair) -> Result<String, rcgen::Error> {
        client_certificate::issue(&client_params(self.clock.now(), LEAF_DAYS)?, key, &self.ca, user, groups)
    }

    /// Keeps a certificate for those who prefer it to the token. Only on disk: nobody could read it in memory.
    fn keep_admin_certificate(&self, kept: &CredentialFiles<'_>, must_renew: bool) -> Result<(), Error> {
        if matches!(kept.storage, CredentialStorage::Memory) {
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

/// Issues a certificate for a user and its groups with the CA in this folder, which must exist. A server may be running: nothing
/// in the folder is changed.
pub fn issue_user(
    folder: &Path,
    user: &str,
    groups: &[&str],
    days: u16,
    now: Timestamp,
) -> Result<IssuedUser, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })
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
            return make().map(|made| (made, true)).map_err(Error::Certificate);
        };
        let path = folder.join(name);
        if let Some(kept) = read_private(&path)?
            && is_usable(&kept)
        {
            return Ok((kept, false));
        }
        let fresh = make().map_err(Error::Certificate)?;
        files::write_private(&path, fresh.as_bytes())?;
        Ok((fresh, true))
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
        self.text(name, |pem| !must_renew && is_certificate_usable(pem, key, names, self.now), make)
    }

    fn service_account_key(&self) -> Result<Vec<u8>, Error> {
        let make = || {
            let key = KeyPair::try_from(SigningKey::generate().as_slice())?;
            Ok(key.serialize_pem())
        };
        let (pem, _) = self.text("sa.key", |_| true, make)?;
        KeyPair::from_pem(&pem).map(|key| key.serialize_der()).map_err(|error| self.broken("sa.key", &error))
    }

    fn broken(&self, name: &str, why: &dyn std::fmt::Display) -> Error {
        let path = match self.storage {
            CredentialStorage::Memory => name.into(),
            CredentialStorage::Folder(folder) => folder.join(name).display().to_string(),
        };
        Error::broken(&path, why)
    }
}

/// Returns whether the text can be sent as a bearer token.
fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

/// Returns the contents of a file, and closes it to other users.
fn read_private(path: &Path) -> Result<Option<String>, Error> {
    files::close_to_others(path)?;
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.into(), source }),
    }
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
    // One day back: clocks differ, and the library's dates are whole days.
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

fn serving_params(now: Timestamp, names: &CertificateNames) -> Result<CertificateParams, rcgen::Error> {
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
