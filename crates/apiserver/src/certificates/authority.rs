//! Implements the certificate authority of this server, which signs approved requests.
//!
//! **Invariant:** a certificate never outlives the authority, is never a CA itself, and has exactly the usages that
//! were approved.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::certificate_request::CertificateRequest;
use super::client_certificate::issue_to;

/// The maximum lifetime, the same as for Kubernetes' signers.
const LIFETIME_MAX: SignedDuration = SignedDuration::from_hours(365 * 24);
/// The minimum lifetime.
const LIFETIME_MIN: SignedDuration = SignedDuration::from_mins(10);
/// How long before its creation a certificate becomes valid, because clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A certificate with a shorter lifetime than this keeps all of it despite the backdating.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
/// The object identifier of alternative names.
const ALTERNATIVE_NAMES: [u64; 4] = [2, 5, 29, 17];

/// A certificate authority that can be replaced while it is in use.
pub struct CertificateAuthority(RwLock<AuthorityState>);

#[derive(Clone)]
struct AuthorityState {
    issuer: Arc<Issuer<'static, KeyPair>>,
    /// When its certificate expires, in seconds since 1970.
    not_after: i64,
}

impl CertificateAuthority {
    /// Creates an authority that issues with this key until its certificate expires.
    pub(crate) fn new(issuer: Arc<Issuer<'static, KeyPair>>, not_after: i64) -> Self {
        Self(RwLock::new(AuthorityState { issuer, not_after }))
    }

    /// Replaces the key and the certificate.
    pub(crate) fn set(&self, issuer: Arc<Issuer<'static, KeyPair>>, not_after: i64) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = AuthorityState { issuer, not_after };
    }

    /// Signs a request, and returns the certificate as PEM. The requested lifetime is honoured within bounds.
    pub(crate) fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        lifetime: Option<SignedDuration>,
        now: Timestamp,
    ) -> Result<String, String> {
        let AuthorityState { issuer, not_after } =
            self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        if now.as_second() >= not_after {
            return Err("the certificate of the authority has expired".to_owned());
        }
        let lifetime = lifetime.unwrap_or(LIFETIME_MAX).clamp(LIFETIME_MIN, LIFETIME_MAX);
        let end = if lifetime < SHORT { now + lifetime } else { now + lifetime - BACKDATE };
        let issue = || {
            let mut params = CertificateParams::new(Vec::new())?;
            let moment = |second: i64| {
                let seconds = Duration::from_secs(u64::try_from(second).unwrap_or_default());
                rcgen::date_time_ymd(1970, 1, 1) + seconds
            };
            params.not_before = moment((now - BACKDATE).as_second());
            params.not_after = moment(end.as_second().min(not_after));
            params.is_ca = IsCa::ExplicitNoCa;
            params.use_authority_key_identifier_extension = true;
            params.key_usages = usages.iter().filter_map(|usage| key_usage(usage)).collect();
            params.key_usages.dedup();
            params.extended_key_usages = usages.iter().filter_map(|usage| extended_usage(usage)).collect();
            if let Some(names) = &request.alternative_names {
                let extension = CustomExtension::from_oid_content(&ALTERNATIVE_NAMES, names.clone());
                params.custom_extensions.push(extension);
            }
            issue_to(&params, &KeyPair::generate()?, &issuer, &request.holder)
        };
        issue().map_err(|error: rcgen::Error| format!("failed to sign certificate: {error}"))
    }
}

fn key_usage(usage: &str) -> Option<KeyUsagePurpose> {
    Some(match usage {
        "signing" | "digital signature" => KeyUsagePurpose::DigitalSignature,
        "content commitment" => KeyUsagePurpose::ContentCommitment,
        "key encipherment" => KeyUsagePurpose::KeyEncipherment,
        "key agreement" => KeyUsagePurpose::KeyAgreement,
        "data encipherment" => KeyUsagePurpose::DataEncipherment,
        "cert sign" => KeyUsagePurpose::KeyCertSign,
        "crl sign" => KeyUsagePurpose::CrlSign,
        "encipher only" => KeyUsagePurpose::EncipherOnly,
        "decipher only" => KeyUsagePurpose::DecipherOnly,
        _ => return None,
    })
}

fn extended_usage(usage: &str) -> Option<ExtendedKeyUsagePurpose> {
    let other = |last: &[u64]| ExtendedKeyUsagePurpose::Other([&[1, 3, 6, 1, 5, 5, 7, 3][..], last].concat());
    Some(match usage {
        "any" => ExtendedKeyUsagePurpose::Any,
        "server auth" => ExtendedKeyUsagePurpose::ServerAuth,
        "client auth" => ExtendedKeyUsagePurpose::ClientAuth,
        "code signing" => ExtendedKeyUsagePurpose::CodeSigning,
        "email protection" | "s/mime" => ExtendedKeyUsagePurpose::EmailProtection,
        "ipsec end system" => other(&[5]),
        "ipsec tunnel" => other(&[6]),
        "ipsec user" => other(&[7]),
        "timestamping" => ExtendedKeyUsagePurpose::TimeStamping,
        "ocsp signing" => ExtendedKeyUsagePurpose::OcspSigning,
        "microsoft sgc" => ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
        "netscape sgc" => ExtendedKeyUsagePurpose::Other(vec![2, 16, 840, 1, 113_730, 4, 1]),
        _ => return None,
    })
}
