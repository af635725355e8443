//! Sets up TLS as in kube-apiserver: client certificates are requested but not required; one from an unknown CA does
//! not fail the handshake but turns the request into a 401.
//!
//! **Invariant:** a client that presents a certificate has proved that it holds its key; whether we trust the
//! certificate is decided once per connection in [`ClientTrust::peer`], never during the handshake.

use std::sync::Arc;

use homeostat_core::Clock;
use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use x509_parser::prelude::X509Certificate;

use super::Credentials;
use super::Error;
use super::certificate_refusals::CertificateRefusalLog;
use super::x509_version_1;
use crate::auth::{AUTHENTICATED, ClientCertificateProof, Identity};

/// The protocol names in the handshake.
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// The number of session tickets sent after a full handshake: one is enough, since a resuming client gets a new one.
const TICKETS: usize = 1;
/// The reason for refusing a valid certificate that names no user.
const NAMELESS: &str = "its subject has no common name (CN), which is the user's name";

/// Returns the TLS configuration of the server.
pub(crate) fn server_config(credentials: &Credentials) -> Result<Arc<ServerConfig>, Error> {
    let (chain, key) = credentials.serving()?;
    let provider = Arc::new(crypto_provider());
    let verifier = Arc::new(AcceptAnyCertificate::new(provider.clone(), &credentials.client_cas()?)?);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(Error::Tls)?;
    config.alpn_protocols = vec![HTTP2.into(), HTTP1.into()];
    config.ignore_client_order = true;
    config.send_tls13_tickets = TICKETS;
    config.ticketer = ring::Ticketer::new().map_err(Error::Tls)?;
    Ok(Arc::new(config))
}

/// Prefers AES-128: equally safe here, a quarter faster than AES-256 on large lists, and Go's own choice.
fn crypto_provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// Determines which user a presented certificate names.
pub(crate) struct ClientTrust {
    /// `None` if no client certificate is trusted.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    authorities: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    clock: Clock,
    refusals: CertificateRefusalLog,
}

impl ClientTrust {
    pub(crate) fn new(credentials: &Credentials, clock: Clock) -> Result<Self, Error> {
        let provider = crypto_provider();
        let algorithms = provider.signature_verification_algorithms;
        let authorities = credentials.client_cas()?;
        let verifier = ca_verifier(Arc::new(provider), &authorities)?;
        Ok(Self { verifier, authorities, algorithms, clock, refusals: CertificateRefusalLog::default() })
    }

    /// Returns the proof that these certificates give about the client.
    pub(crate) fn peer(&self, presented: Option<&[CertificateDer<'_>]>) -> ClientCertificateProof {
        let Some([leaf, intermediates @ ..]) = presented else { return ClientCertificateProof::Unnamed };
        let now = self.clock.now();
        let certificate = x509_parser::parse_x509_certificate(leaf).ok().map(|(_, certificate)| certificate);
        let verified = match &certificate {
            // As in Go, a certificate may be its own authority.
            Some(certificate) if self.authorities.iter().any(|authority| authority == leaf) => {
                verify_dates(certificate, now)
            }
            Some(certificate) if x509_version_1::is_version_1(certificate) => {
                self.verify_version_1(certificate, now)
            }
            _ => self.verify(leaf, intermediates, now),
        };
        let name = || certificate.as_ref().and_then(peer_of).ok_or_else(|| NAMELESS.to_owned());
        verified.and_then(|()| name()).unwrap_or_else(|reason| {
            let subject = certificate.map(|certificate| certificate.subject().to_string());
            self.refusals.log_refusal(now, &subject.unwrap_or_default(), &reason);
            ClientCertificateProof::Untrusted
        })
    }

    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<(), String> {
        let seconds = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
        let seen_at = UnixTime::since_unix_epoch(seconds);
        let verifier = self.verifier.as_ref().ok_or("this server trusts no client certificates")?;
        let outcome = verifier.verify_client_cert(leaf, intermediates, seen_at);
        outcome.map(|_| ()).map_err(|error| error.to_string())
    }

    fn verify_version_1(&self, certificate: &X509Certificate<'_>, now: Timestamp) -> Result<(), String> {
        let mut verified = Err("this server trusts no client certificates".to_owned());
        for authority in &self.authorities {
            let (_, ca) =
                x509_parser::parse_x509_certificate(authority).map_err(|error| error.to_string())?;
            verified = x509_version_1::verify(certificate, &ca, now.as_second(), &self.algorithms)
                .map_err(Into::into);
            if verified.is_ok() {
                break;
            }
        }
        verified
    }
}

/// Checks that a certificate that is trusted by itself is currently valid and, if it states its purpose, that it is for
/// clients.
fn verify_dates(certificate: &X509Certificate<'_>, now: Timestamp) -> Result<(), String> {
    let validity = certificate.validity();
    if !(validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now.as_second()) {
        return Err("it is not valid at this time".to_owned());
    }
    match certificate.extended_key_usage() {
        Ok(Some(usage)) if !usage.value.client_auth && !usage.value.any => {
            Err("it is not a certificate for clients".to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns the user of a certificate: its common name (the last one if there are several, as in Go), with every
/// organization as a group. Returns `None` if there is no common name.
fn peer_of(certificate: &X509Certificate<'_>) -> Option<ClientCertificateProof> {
    let text =
        |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned).ok();
    let subject = certificate.subject();
    let name = subject.iter_common_name().last().and_then(text).filter(|name| !name.is_empty())?;
    let mut groups = subject.iter_organization().filter_map(text).collect::<Vec<_>>();
    groups.push(AUTHENTICATED.into());
    let until = certificate.validity().not_after.timestamp();
    let until = Timestamp::from_second(until).unwrap_or(Timestamp::MAX);
    Some(ClientCertificateProof::Named { identity: Identity { name, groups, ..Identity::default() }, until })
}

/// Returns a verifier for certificates issued by these authorities; `None` if there are none.
fn ca_verifier(
    provider: Arc<CryptoProvider>,
    authorities: &[CertificateDer<'static>],
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
    if authorities.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(Error::Tls)?;
    }
    let built = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
    built.map(|verifier| Some(verifier as _)).map_err(|error| Error::broken("ca.crt", &error))
}

/// Lets every certificate pass the handshake, provided that the client holds its key.
#[derive(Debug)]
struct AcceptAnyCertificate {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl AcceptAnyCertificate {
    fn new(provider: Arc<CryptoProvider>, authorities: &[CertificateDer<'static>]) -> Result<Self, Error> {
        let verifier = ca_verifier(provider.clone(), authorities)?;
        let hints = verifier.map(|verifier| verifier.root_hint_subjects().to_vec()).unwrap_or_default();
        Ok(Self { provider, hints })
    }
}

impl ClientCertVerifier for AcceptAnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms).or_else(|error| {
            // Certificates of version 1, which webpki cannot parse, can still prove possession of their key.
            let Ok((_, read)) = x509_parser::parse_x509_certificate(certificate) else { return Err(error) };
            let key = SubjectPublicKeyInfoDer::from(read.public_key().raw);
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
