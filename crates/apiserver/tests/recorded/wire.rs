//! Provides the server under test and the connections to it: HTTP/1.1 over TLS, as any client speaks it.
//!
//! By default each area gets its own server in this process, with its background tasks and everything in memory. With
//! `HOMEOSTAT_TEST_KUBECONFIG` all of them use that kubeconfig's server instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::serve::{Config, CredentialStorage, Server};
use homeostat_core::{Clock, Entropy};
use homeostat_store::{Memory, SharedStore};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// Names the kubeconfig of another server to compare.
pub(crate) const KUBECONFIG: &str = "HOMEOSTAT_TEST_KUBECONFIG";

/// A server to compare with the recording.
pub(crate) struct Target {
    /// `127.0.0.1:6443`.
    pub(crate) authority: String,
    pub(crate) kubeconfig: PathBuf,
    token: String,
    connector: TlsConnector,
    /// Stops the server and removes its folder, if they are ours.
    _own: Option<(DropGuard, tempfile::TempDir)>,
}

/// A request to send.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// `None` removes a header that is sent by default.
    pub(crate) headers: Vec<(String, Option<String>)>,
    pub(crate) body: Option<Bytes>,
}

impl Target {
    pub(crate) async fn start() -> Self {
        if let Some(kubeconfig) = std::env::var_os(KUBECONFIG) {
            return Self::at(Path::new(&kubeconfig), None).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let server = Server::bind(Config {
            listen: ([127, 0, 0, 1], 0).into(),
            storage: CredentialStorage::Memory,
            kubeconfig: kubeconfig.clone(),
            clock: Clock::system(),
            entropy: Entropy::system(),
        })
        .unwrap();
        let store: SharedStore = Arc::new(Memory::new());
        let authenticator = Arc::new(server.authenticator(Arc::clone(&store)).unwrap());
        let builder = ApiServer::builder(store)
            .authenticator(Arc::clone(&authenticator))
            .root_ca(&*server.credentials().ca_pem)
            .address(server.advertised());
        let (api, background) = builder.build().await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(background.run(stop.clone()));
        tokio::spawn(server.run(api, authenticator, stop.clone()));
        Self::at(&kubeconfig, Some((stop.drop_guard(), folder))).await
    }

    async fn at(kubeconfig: &Path, own: Option<(DropGuard, tempfile::TempDir)>) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let token =
            document["users"][0]["user"]["token"].as_str().expect("a kubeconfig with a token").to_owned();
        let parsed = Kubeconfig::from_yaml(&text).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap();
        let tls = config.rustls_client_config().unwrap();
        let authority = config.cluster_url.authority().unwrap().to_string();
        let connector = TlsConnector::from(Arc::new(tls));
        Self { authority, kubeconfig: std::path::absolute(kubeconfig).unwrap(), token, connector, _own: own }
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host).to_owned();
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        let stream = self.connector.connect(name, stream).await.map_err(|error| error.to_string())?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Connection { sender, _task: AbortOnDropHandle::new(task) })
    }

    fn request(&self, outgoing: &Outgoing<'_>) -> Result<Request<Full<Bytes>>, String> {
        let mut headers = HeaderMap::new();
        let authorization = format!("Bearer {}", self.token);
        let usual = [
            ("host", &*self.authority),
            ("user-agent", "oracle/1"),
            ("accept", "application/json"),
            ("accept-encoding", "identity"),
            ("authorization", &authorization),
        ];
        let usual = usual.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
        for (name, value) in usual.iter().chain(&outgoing.headers) {
            let name: HeaderName = name.parse().map_err(|error| format!("header {name}: {error}"))?;
            headers.remove(&name);
            if let Some(value) = value {
                let value: HeaderValue = value.parse().map_err(|error| format!("{name}: {error}"))?;
                headers.insert(name, value);
            }
        }
        let mut request = Request::new(Full::new(outgoing.body.clone().unwrap_or_default()));
        *request.method_mut() =
            Method::from_bytes(outgoing.method.as_bytes()).map_err(|error| error.to_string())?;
        *request.uri_mut() =
            outgoing.path.parse::<Uri>().map_err(|error| format!("{}: {error}", outgoing.path))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Opens a stream on a new connection.
    pub(crate) async fn open(&self, outgoing: &Outgoing<'_>, limit: Duration) -> Result<Stream, String> {
        let opening = async {
            let mut connection = self.connect().await?;
            let request = self.request(outgoing)?;
            let response = connection.sender.send_request(request).await.map_err(|error| describe(&error))?;
            let (head, body) = response.into_parts();
            let (status, headers) = (head.status.as_u16(), head.headers);
            Ok(Stream { status, headers, body, rest: Vec::new(), is_closed: false, _connection: connection })
        };
        let opened = tokio::time::timeout(limit, opening).await;
        opened.unwrap_or_else(|_| Err(format!("no answer to a watch within {limit:?}")))
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _task: AbortOnDropHandle<()>,
}

/// One connection that is reused until the server closes it.
#[derive(Default)]
pub(crate) struct Client {
    connection: Option<Connection>,
}

impl Client {
    pub(crate) async fn send(
        &mut self,
        target: &Target,
        outgoing: &Outgoing<'_>,
        limit: Duration,
    ) -> Result<Reply, String> {
        let sent = tokio::time::timeout(limit, self.send_again(target, outgoing)).await;
        sent.unwrap_or_else(|_| {
            self.connection = None;
            Err(format!("{} {}: no answer within {limit:?}", outgoing.method, outgoing.path))
        })
    }

    /// Sends again if the server has closed a connection that was kept open.
    async fn send_again(&mut self, target: &Target, outgoing: &Outgoing<'_>) -> Result<Reply, String> {
        if let Some(connection) = self.connection.take()
            && let Ok(reply) = self.send_on(connection, target.request(outgoing)?).await
        {
            return Ok(reply);
        }
        let connection = target.connect().await?;
        self.send_on(connection, target.request(outgoing)?).await
    }

    async fn send_on(
        &mut self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
    ) -> Result<Reply, String> {
        connection.sender.ready().await.map_err(|error| describe(&error))?;
        let response = connection.sender.send_request(request).await.map_err(|error| describe(&error))?;
        let (head, body) = response.into_parts();
        let data = body.collect().await.map_err(|error| describe(&error))?.to_bytes();
        self.connection = Some(connection);
        Ok(Reply::new(head.status.as_u16(), head.headers, data))
    }
}

fn describe(error: &hyper::Error) -> String {
    format!("the server gave no whole answer: {error}: {:?}", std::error::Error::source(error))
}

/// A complete response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) data: Bytes,
    pub(crate) document: Option<Value>,
}

impl Reply {
    pub(crate) fn new(status: u16, headers: HeaderMap, data: Bytes) -> Self {
        let media = content_type(&headers);
        let may_be_json =
            media.contains("json") || (!media.contains("yaml") && matches!(data.first(), Some(b'{' | b'[')));
        let document = may_be_json.then(|| serde_json::from_slice(&data).ok()).flatten();
        Self { status, headers, data, document }
    }

    pub(crate) fn content_type(&self) -> &str {
        content_type(&self.headers)
    }
}

pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A response that arrives line by line.
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    rest: Vec<u8>,
    pub(crate) is_closed: bool,
    _connection: Connection,
}

impl Stream {
    /// Returns the next line, if one arrives in time.
    pub(crate) async fn line(&mut self, limit: Duration) -> Option<Vec<u8>> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(line);
            }
            if self.is_closed {
                let rest = std::mem::take(&mut self.rest);
                return (!rest.is_empty()).then_some(rest);
            }
            match tokio::time::timeout_at(deadline, self.body.frame()).await.ok()? {
                Some(Ok(frame)) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => self.is_closed = true,
            }
        }
    }

    /// Reads a whole response that is not a stream.
    pub(crate) async fn whole(mut self) -> Reply {
        let mut data = self.rest;
        while let Some(Ok(frame)) = self.body.frame().await {
            data.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        Reply::new(self.status, self.headers, data.into())
    }
}
