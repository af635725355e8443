//! Sends one HTTP request to a container, for probes and hooks.
//!
//! Only the status line of the response is read. Over HTTPS, certificates are not verified, as in Kubernetes: the
//! question is whether the container responds, and containers often use self-signed certificates.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The maximum number of bytes read from a response; a status line is shorter.
const HEAD_BYTES_MAX: u64 = 1024;

/// A request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRequest {
    host: String,
    port: u16,
    is_encrypted: bool,
    text: String,
}

impl ContainerRequest {
    /// Builds the request for an action of this container, to its Pod's address unless the action names a host.
    pub(crate) fn new(action: &HTTPGetAction, container: &Container, own: &str) -> Result<Self, String> {
        Ok(Self {
            host: host_or_own(action.host.as_deref(), own).to_owned(),
            port: port_number(&action.port, container)?,
            is_encrypted: action.scheme.as_deref() == Some("HTTPS"),
            text: request_text(action),
        })
    }

    /// Sends the request. Returns a message if it fails.
    pub(crate) async fn send(&self) -> Result<(), String> {
        let stream = connect(&self.host, self.port).await?;
        if !self.is_encrypted {
            return exchange(stream, &self.text).await;
        }
        let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
        let config = tls_without_verification().map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        exchange(stream.map_err(|error| format!("tls: {error}"))?, &self.text).await
    }
}

/// Returns the requested host, or the Pod's own address.
pub(crate) fn host_or_own<'a>(asked: Option<&'a str>, own: &'a str) -> &'a str {
    asked.filter(|host| !host.is_empty()).unwrap_or(own)
}

/// Finds a port by its number, or by its name in the container.
pub(crate) fn port_number(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            ports.find(|one| one.name.as_deref() == Some(name)).map(|one| one.container_port)
        }
    };
    number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| match port {
        IntOrString::Int(number) => format!("no such port: {number}"),
        IntOrString::String(name) => format!("container {} has no port named {name:?}", container.name),
    })
}

pub(crate) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((host, port)).await.map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> Result<(), String> {
    stream.write_all(text.as_bytes()).await.map_err(|error| error.to_string())?;
    stream.flush().await.map_err(|error| error.to_string())?;
    let mut head = Vec::new();
    let mut limited = stream.take(HEAD_BYTES_MAX);
    while !head.contains(&b'\n') {
        if limited.read_buf(&mut head).await.map_err(|error| error.to_string())? == 0 {
            break;
        }
    }
    check_status_line(&head)
}

fn request_text(action: &HTTPGetAction) -> String {
    let path = action.path.as_deref().filter(|path| path.starts_with('/')).unwrap_or("/");
    let headers = action.http_headers.iter().flatten();
    let mut text = format!("GET {path} HTTP/1.1\r\n");
    let mut has_host = false;
    for header in headers {
        // A header that contains a line break could start another header, so it is left out.
        if !header.name.contains(['\r', '\n']) && !header.value.contains(['\r', '\n']) {
            has_host |= header.name.eq_ignore_ascii_case("host");
            text.extend([&*header.name, ": ", &*header.value, "\r\n"]);
        }
    }
    if !has_host {
        text.push_str("Host: localhost\r\n");
    }
    text.push_str("User-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    text
}

/// Accepts a status from 200 to 399.
fn check_status_line(head: &[u8]) -> Result<(), String> {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err(format!("the response is not HTTP: {line:?}")),
    }
}

fn tls_without_verification() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificateVerifier(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Accepts any certificate.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_answers() {
        let check = |head: &str, is_good: bool| {
            assert_eq!(check_status_line(head.as_bytes()).is_ok(), is_good, "{head}");
        };
        check("HTTP/1.1 200 OK\r\n", true);
        check("HTTP/1.0 302 Found\r\n", true);
        check("HTTP/1.1 404 Not Found\r\n", false);
        check("hello", false);
        check("", false);
    }
}
