//! TLS as kube-apiserver speaks it: certificates are asked for, not required; one of an unknown CA is no reason to
//! break the handshake, it makes the request a 401.
//!
//! **Invariant:** whoever presents a certificate has proved to hold its key; whether we trust the certificate is
//! decided once per connection in [`Trust::peer`], never during the handshake.

use std::sync::Arc;

use homeostat_core::Clock;
use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use x509_parser::prelude::X509Certificate;

use super::Error;
use super::refused::{self, Refused};
use crate::auth::{AUTHENTICATED, Identity, Peer};
use crate::bootstrap::Credentials;

/// What both protocols are called in the handshake.
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// Session tickets sent after a full handshake: one is enough, a resuming client gets a new one.
const TICKETS: usize = 1;
/// Why a certificate that is in order names nobody.
const NAMELESS: &str = "its subject has no common name (CN), which is the user's name";

/// The TLS side of the server.
pub(crate) fn server_config(credentials: &Credentials) -> Result<Arc<ServerConfig>, Error> {
    let (chain, key) = credentials.serving()?;
    let provider = Arc::new(provider());
    let verifier = Arc::new(AnyCertificate::new(provider.clone(), &credentials.ca_certificate()?)?);
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

/// AES-128 first: as safe here, a quarter faster on large lists than AES-256, and Go's own choice.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// Decides whom a presented certificate names.
pub(crate) struct Trust {
    verifier: Arc<dyn ClientCertVerifier>,
    clock: Clock,
    refused: Refused,
}

impl Trust {
    pub(crate) fn new(credentials: &Credentials, clock: Clock) -> Result<Self, Error> {
        let verifier = trusted(Arc::new(provider()), &credentials.ca_certificate()?)?;
        Ok(Self { verifier, clock, refused: Refused::default() })
    }

    /// What these certificates prove about the other end.
    pub(crate) fn peer(&self, presented: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some([leaf, intermediates @ ..]) = presented else { return Peer::Unnamed };
        let now = self.clock.now();
        let seconds = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
        let seen_at = UnixTime::since_unix_epoch(seconds);
        let certificate = x509_parser::parse_x509_certificate(leaf).ok().map(|(_, certificate)| certificate);
        let peer = match self.verifier.verify_client_cert(leaf, intermediates, seen_at) {
            Ok(_) => certificate.as_ref().and_then(named).ok_or_else(|| NAMELESS.to_owned()),
            Err(error) => Err(refused::reason(certificate.as_ref(), &error)),
        };
        peer.unwrap_or_else(|reason| {
            let subject = certificate.map(|certificate| certificate.subject().to_string());
            self.refused.tell(now, &subject.unwrap_or_default(), &reason);
            Peer::Untrusted
        })
    }
}

/// The common name is the user, the last one if there are several, as in Go; every organization is a group. Without a
/// common name it names nobody.
fn named(certificate: &X509Certificate<'_>) -> Option<Peer> {
    let text =
        |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned).ok();
    let subject = certificate.subject();
    let name = subject.iter_common_name().last().and_then(text).filter(|name| !name.is_empty())?;
    let mut groups = subject.iter_organization().filter_map(text).collect::<Vec<_>>();
    groups.push(AUTHENTICATED.into());
    let until = certificate.validity().not_after.timestamp();
    let until = Timestamp::from_second(until).unwrap_or(Timestamp::MAX);
    Some(Peer::Named { identity: Identity { name, groups, ..Identity::default() }, until })
}

fn trusted(
    provider: Arc<CryptoProvider>,
    ca: &CertificateDer<'static>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).map_err(Error::Tls)?;
    WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .map_err(|error| Error::broken("ca.crt", &error))
}

/// Lets every certificate through the handshake whose key the client holds.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl AnyCertificate {
    fn new(provider: Arc<CryptoProvider>, ca: &CertificateDer<'static>) -> Result<Self, Error> {
        let hints = trusted(provider.clone(), ca)?.root_hint_subjects().to_vec();
        Ok(Self { provider, hints })
    }
}

impl ClientCertVerifier for AnyCertificate {
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
            // Certificates of the first version, which webpki does not read, prove their key all the same.
            let Ok((_, read)) = x509_parser::parse_x509_certificate(certificate) else { return Err(error) };
            let key = SubjectPublicKeyInfoDer::from(read.public_key().raw);
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
