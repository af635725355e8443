//! Raw bytes over TLS, for what no proper client would send: broken requests, partial requests, endless bodies.
//!
//! Each exchange has its own connection: the request asks to close it, and the response is everything until the end.
//! How the server treats a bad connection is visible: a response, or none.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::server::{PATIENCE, Server};

/// Where to connect, and as which user.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) address: String,
    tls: TlsConnector,
    /// A header sent with every request built here; absent if the certificate identifies the user.
    authorization: Option<String>,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as a Status object.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no Status ({error}): {}", self.beginning()))
    }

    /// Returns the beginning of the body, for messages.
    pub(crate) fn beginning(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).into_owned()
    }

    /// Parses the head. `None` if the connection ended before the head was complete.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let code = head.split(' ').nth(1)?.parse().ok()?;
        let body = &bytes[end + 4..];
        let body =
            if head.contains("transfer-encoding: chunked") { join_chunks(body) } else { body.to_vec() };
        Some(Self { code, body })
    }
}

fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap_or(0);
        let Some(chunk) = rest.get(end + 2..end + 2 + size).filter(|chunk| !chunk.is_empty()) else { break };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

impl Wire {
    /// Connects as the administrator of the server's kubeconfig.
    pub(crate) fn new(server: &Server) -> Self {
        let kubeconfig = load(&server.kubeconfig);
        let cluster = &kubeconfig["clusters"][0]["cluster"];
        let user = &kubeconfig["users"][0]["user"];
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate(&cluster["certificate-authority-data"]))
            .expect("the authority is a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_root_certificates(roots);
        let config = match user.get("client-certificate-data") {
            Some(data) => config
                .with_client_auth_cert(vec![certificate(data)], private_key(&user["client-key-data"]))
                .expect("certificate and key belong together"),
            None => config.with_no_client_auth(),
        };
        let token = user["token"].as_str().map(|token| format!("Authorization: Bearer {token}"));
        Self {
            address: server.url.trim_start_matches("https://").to_owned(),
            tls: TlsConnector::from(Arc::new(config)),
            authorization: token,
        }
    }

    /// Returns the same connection settings for another user with this token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let authorization = Some(format!("Authorization: Bearer {token}"));
        Self { address: self.address.clone(), tls: self.tls.clone(), authorization }
    }

    /// Returns a connection after its handshake.
    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.try_connect().await.expect("the handshake succeeds")
    }

    /// Returns a connection after its handshake, or why there is none.
    pub(crate) async fn try_connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await?;
        let name = ServerName::try_from("127.0.0.1").expect("an address is a name");
        self.tls.connect(name, stream).await
    }

    /// Builds a request from any bytes in its parts.
    pub(crate) fn request(&self, line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
        let length = format!("Content-Length: {}", body.len());
        let host = format!("Host: {}", self.address);
        let first = format!("{line} HTTP/1.1");
        let mut lines = vec![first.as_str(), &host, "Connection: close", &length];
        lines.extend(self.authorization.as_deref());
        lines.extend(headers);
        let head = lines.join("\r\n") + "\r\n\r\n";
        [head.as_bytes(), body].concat()
    }

    /// Sends the bytes and reads to the end. `None` if the server closes without a response.
    pub(crate) async fn exchange(&self, request: &[u8]) -> Option<Answer> {
        let (mut reader, mut writer) = tokio::io::split(self.connect().await);
        let mut bytes = Vec::new();
        // The server may respond and close before it has read everything: only the response matters, not how the
        // connection broke.
        let send = async {
            let _ = writer.write_all(request).await;
            let _ = writer.flush().await;
        };
        let receive = async {
            let _ = reader.read_to_end(&mut bytes).await;
        };
        let both = async { tokio::join!(send, receive) };
        tokio::time::timeout(PATIENCE, both).await.expect("the server answers or closes in time");
        Answer::parse(&bytes)
    }
}

fn load(kubeconfig: &Path) -> Value {
    let text = std::fs::read_to_string(kubeconfig).expect("the server wrote a kubeconfig");
    serde_saphyr::from_str(&text).expect("a kubeconfig is YAML")
}

fn decoded(data: &Value) -> Vec<u8> {
    STANDARD.decode(data.as_str().expect("the kubeconfig holds its certificates")).expect("they are base64")
}

fn certificate(data: &Value) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(&decoded(data)).expect("a certificate in PEM")
}

fn private_key(data: &Value) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(&decoded(data)).expect("a key in PEM")
}
