//! The keys of the house: a CA of its own, the serving certificate, the administrator's credentials, and the key
//! service account tokens are signed with. Made at the first start, kept, renewed before they expire.
//!
//! **Invariant:** every file is readable by its owner only, is written whole or not at all, and is replaced only when
//! it is missing, empty, about to expire or of another key; a file that is there and does not read is an error, not overwritten.

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

use crate::auth::jwt::SigningKey;
use crate::serve::Error;
use crate::serve::files;

/// Lifetimes, in days. The CA outlives any installation's patience; the others are renewed at a restart.
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;
/// Renew this long before the end, so that a server restarted monthly never serves an expired certificate.
const RENEW_DAYS: i64 = 30;
/// Random words in the administrator's token: 256 bits.
const TOKEN_WORDS: usize = 4;
/// Names every API server answers to, inside a cluster and out.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// What a serving certificate is good for, beside the names every API server has.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Names of hosts.
    pub hosts: Vec<String>,
}

/// Where credentials are kept.
#[derive(Clone, Debug)]
pub enum Keep {
    /// In memory: they die with the process.
    Memory,
    /// In files of this folder.
    Folder(PathBuf),
}

/// The keys of the house.
pub struct Credentials {
    /// The CA's certificate, PEM.
    pub ca_pem: String,
    /// The administrator's bearer token.
    pub admin_token: String,
    ca: Issuer<'static, KeyPair>,
    serving: Pair,
    service_account_key: Vec<u8>,
    clock: Clock,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Credentials {
    /// Takes what is kept and makes the rest. The serving certificate is good for these names too.
    pub fn load(keep: &Keep, names: &Names, clock: Clock, entropy: &Entropy) -> Result<Self, Error> {
        let now = clock.now();
        let shelf = Shelf { keep, now };
        let ca_key = shelf.key("ca.key")?;
        let nameless = Names::default();
        let (ca_pem, is_new) = shelf.certificate("ca.crt", &ca_key, &nameless, false, || {
            ca_params(now)?.self_signed(&ca_key).map(|made| made.pem())
        })?;
        let ca = Issuer::from_ca_cert_pem(&ca_pem, ca_key).map_err(|error| shelf.broken("ca.crt", &error))?;
        let key = shelf.key("apiserver.key")?;
        let (certificate, _) = shelf.certificate("apiserver.crt", &key, names, is_new, || {
            serving_params(now, names)?.signed_by(&key, &ca).map(|made| made.pem())
        })?;
        let serving = Pair { certificate, key: key.serialize_pem() };
        let (token, _) =
            shelf.text("admin.token", |kept| !kept.trim().is_empty(), || Ok(random_token(entropy)))?;
        if !is_token(token.trim()) {
            return Err(shelf.broken("admin.token", &"a token has letters, digits and -._~+/= only"));
        }
        let service_account_key = shelf.service_account_key()?;
        let made = Self { ca_pem, admin_token: token.trim().into(), ca, serving, service_account_key, clock };
        made.keep_admin_certificate(&shelf, is_new)?;
        Ok(made)
    }

    /// A certificate that names a user and its groups, good for a year.
    pub fn issue_client(&self, user: &str, groups: &[&str]) -> Result<Pair, Error> {
        let key = KeyPair::generate().map_err(Error::Certificate)?;
        let certificate = self.client_certificate(user, groups, &key).map_err(Error::Certificate)?;
        Ok(Pair { certificate, key: key.serialize_pem() })
    }

    /// The serving certificate and its key, as rustls takes them.
    pub fn serving(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let chain = CertificateDer::pem_slice_iter(self.serving.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::broken("apiserver.crt", &error))?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes())
            .map_err(|error| Error::broken("apiserver.key", &error))?;
        Ok((chain, key))
    }

    /// The CA's certificate, as rustls takes it.
    pub fn ca_certificate(&self) -> Result<CertificateDer<'static>, Error> {
        CertificateDer::from_pem_slice(self.ca_pem.as_bytes())
            .map_err(|error| Error::broken("ca.crt", &error))
    }

    /// The key service account tokens are signed with.
    pub fn service_account_key(&self) -> Result<SigningKey, Error> {
        SigningKey::from_pkcs8(&self.service_account_key)
            .ok_or_else(|| Error::broken("sa.key", &"not a P-256 key in PKCS#8"))
    }

    fn client_certificate(&self, user: &str, groups: &[&str], key: &KeyPair) -> Result<String, rcgen::Error> {
        let mut params = leaf_params(self.clock.now(), ExtendedKeyUsagePurpose::ClientAuth)?;
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.signed_by(key, &self.ca).map(|made| made.pem())
    }

    /// For those who prefer a certificate to the token. Only on disk: nobody could read it in memory.
    fn keep_admin_certificate(&self, kept: &Shelf<'_>, must_renew: bool) -> Result<(), Error> {
        if matches!(kept.keep, Keep::Memory) {
            return Ok(());
        }
        let key = kept.key("admin.key")?;
        kept.certificate("admin.crt", &key, &Names::default(), must_renew, || {
            self.client_certificate("kubernetes-admin", &[crate::auth::MASTERS], &key)
        })?;
        Ok(())
    }
}

/// Reads and writes the kept files.
struct Shelf<'a> {
    keep: &'a Keep,
    now: Timestamp,
}

impl Shelf<'_> {
    /// The kept text if it is good, else a new one, and whether it is new.
    fn text(
        &self,
        name: &str,
        is_good: impl Fn(&str) -> bool,
        make: impl FnOnce() -> Result<String, rcgen::Error>,
    ) -> Result<(String, bool), Error> {
        let Keep::Folder(folder) = self.keep else {
            return make().map(|made| (made, true)).map_err(Error::Certificate);
        };
        let path = folder.join(name);
        if let Some(kept) = read(&path)?
            && is_good(&kept)
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
        names: &Names,
        must_renew: bool,
        make: impl FnOnce() -> Result<String, rcgen::Error>,
    ) -> Result<(String, bool), Error> {
        self.text(name, |pem| !must_renew && is_good(pem, key, names, self.now), make)
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
        let path = match self.keep {
            Keep::Memory => name.into(),
            Keep::Folder(folder) => folder.join(name).display().to_string(),
        };
        Error::broken(&path, why)
    }
}

/// Can it be sent as a bearer token?
fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

/// The contents of a file, closed to others from now on.
fn read(path: &Path) -> Result<Option<String>, Error> {
    files::close_to_others(path)?;
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.into(), source }),
    }
}

/// Is the certificate of this key, outlives the renewal margin and has all names?
fn is_good(pem: &str, key: &KeyPair, names: &Names, now: Timestamp) -> bool {
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

fn params(now: Timestamp, days: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // A day back: clocks differ, and whole days are what the library's date has.
    let [year, month, day] = date(now - SignedDuration::from_hours(24));
    params.not_before = rcgen::date_time_ymd(year, small(month), small(day));
    let [year, month, day] = date(now + SignedDuration::from_hours(24 * days));
    params.not_after = rcgen::date_time_ymd(year, small(month), small(day));
    Ok(params)
}

fn ca_params(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(now, CA_DAYS)?;
    params.distinguished_name.push(DnType::CommonName, "homeostat-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn leaf_params(now: Timestamp, usage: ExtendedKeyUsagePurpose) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(now, LEAF_DAYS)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn serving_params(now: Timestamp, names: &Names) -> Result<CertificateParams, rcgen::Error> {
    let mut params = leaf_params(now, ExtendedKeyUsagePurpose::ServerAuth)?;
    params.distinguished_name.push(DnType::CommonName, "homeostat");
    for name in NAMES.into_iter().chain(names.hosts.iter().map(String::as_str)) {
        params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    params.subject_alt_names.extend(names.addresses.iter().copied().map(SanType::IpAddress));
    Ok(params)
}

fn date(at: Timestamp) -> [i32; 3] {
    let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
    [date.year().into(), date.month().into(), date.day().into()]
}

fn small(part: i32) -> u8 {
    u8::try_from(part).expect("months and days are small and positive")
}

fn random_token(entropy: &Entropy) -> String {
    let bytes = (0..TOKEN_WORDS).flat_map(|_| entropy.next_u64().to_le_bytes()).collect::<Vec<_>>();
    URL_SAFE_NO_PAD.encode(bytes)
}
