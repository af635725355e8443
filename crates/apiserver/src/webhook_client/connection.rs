//! Opens a TLS connection to a webhook, which trusts the certificates in `caBundle`, or those of the machine.
//!
//! As in Go, a certificate in the bundle is trusted even if it is the server's own rather than an authority's.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::target::WebhookTarget;

/// A connection for one call; closed when dropped.
pub(super) struct WebhookConnection {
    sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

impl WebhookConnection {
    /// Sends the call and waits for the head of the response.
    pub(super) async fn send(
        &mut self,
        question: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        self.sender.send_request(question).await.map_err(|error| {
            let is_closed = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
            if is_closed { "EOF".to_owned() } else { error.to_string() }
        })
    }
}

/// Connects to a webhook.
pub(super) async fn connect(
    (host, port): (String, u16),
    config: &Value,
    target: &WebhookTarget,
) -> Result<WebhookConnection, String> {
    let stream = TcpStream::connect((&*host, port)).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        _ => format!("dial tcp {host}:{port}: {error}"),
    })?;
    let tls = client_config(config["caBundle"].as_str().unwrap_or_default())?;
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
    let stream = stream.map_err(|error| tls_failure(&error))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It stops with its owner at the latest.
    let driver = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    Ok(WebhookConnection { sender, _driver: driver })
}

/// Describes why a handshake failed, with Go's wording where there is one.
fn tls_failure(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let why = match inner {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "certificate signed by unknown authority"
        }
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "certificate has expired or is not yet valid",
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "certificate is not valid for the name of the server",
        Some(Error::InvalidCertificate(_)) => "certificate is not valid",
        _ => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn client_config(bundle: &str) -> Result<ClientConfig, String> {
    let pem =
        STANDARD.decode(bundle).map_err(|error| format!("unable to load root certificates: {error}"))?;
    // As in Kubernetes, a bundle that consists of whitespace counts as absent.
    let pem = if pem.trim_ascii().is_empty() { Vec::new() } else { pem };
    let mut bundled = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        bundled.push(certificate.map_err(|error| format!("unable to load root certificates: {error}"))?);
    }
    if !pem.is_empty() && bundled.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let roots = if pem.is_empty() { system_roots() } else { root_store(&bundled) };
    let provider = Arc::new(ring::default_provider());
    let authorities = if roots.is_empty() {
        None
    } else {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        Some(verifier.map_err(|error| error.to_string())?)
    };
    let verifier = BundleVerifier { bundled, authorities, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn root_store(certificates: &[CertificateDer<'static>]) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    Arc::new(roots)
}

/// Returns the authorities that this machine trusts, read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    Arc::clone(ROOTS.get_or_init(|| root_store(&rustls_native_certs::load_native_certs().certs)))
}

/// Trusts the authorities in a bundle, and servers whose own certificate is in it.
#[derive(Debug)]
struct BundleVerifier {
    bundled: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<rustls::crypto::CryptoProvider>,
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.bundled.iter().any(|known| known == end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
            return check_validity(end_entity, now);
        }
        match &self.authorities {
            Some(verifier) => verifier.verify_server_cert(end_entity, intermediates, name, stapled, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn check_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<ServerCertVerified, Error> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    if (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now) {
        Ok(ServerCertVerified::assertion())
    } else {
        Err(CertificateError::Expired.into())
    }
}
