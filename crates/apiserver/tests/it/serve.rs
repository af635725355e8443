//! Tests real TLS over loopback: credentials, protocols, hostile clients, shutdown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use homeostat::testing::PausedTime;
use homeostat_apiserver::auth::{Authenticator, Identity};
use homeostat_apiserver::body::Body;
use homeostat_apiserver::limits;
use homeostat_apiserver::serve::{
    CertificateNames, Config, CredentialStorage, Credentials, RequestBody, Server,
};
use homeostat_core::{Clock, Entropy};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

/// A server with the handler below and its own folder.
pub(crate) struct Running {
    address: SocketAddr,
    kubeconfig: PathBuf,
    pub(crate) credentials: Credentials,
    stop: CancellationToken,
    task: JoinHandle<()>,
    folder: tempfile::TempDir,
}

fn config(folder: &tempfile::TempDir) -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        storage: CredentialStorage::Folder(folder.path().join("pki")),
        kubeconfig: folder.path().join("kubeconfig"),
        clock: Clock::system(),
        entropy: Entropy::system(),
    }
}

fn start_in(folder: tempfile::TempDir) -> Running {
    let server = Server::bind(config(&folder)).unwrap();
    let address = server.local_addr();
    let kubeconfig = server.kubeconfig().to_owned();
    let credentials = Credentials::load(
        &CredentialStorage::Folder(folder.path().join("pki")),
        &CertificateNames::default(),
        Clock::system(),
        &Entropy::system(),
    )
    .unwrap();
    let authenticator =
        Authenticator::new(Clock::system()).with_token(&server.credentials().admin_token, Identity::admin());
    let stop = CancellationToken::new();
    let run = server.run(tower::service_fn(answer), Arc::new(authenticator), stop.clone());
    let task = tokio::spawn(async move { run.await.unwrap() });
    Running { address, kubeconfig, credentials, stop, task, folder }
}

pub(crate) fn start() -> Running {
    start_in(tempfile::tempdir().unwrap())
}

/// Responds with the user; offers endless watches; counts bodies; panics on request.
async fn answer(request: Request<RequestBody>) -> Result<Response<Body>, Infallible> {
    let name = request.extensions().get::<Identity>().map(|who| who.name.clone()).unwrap();
    let body = match request.uri().path() {
        "/panic" => panic!("asked to"),
        "/hold" => std::future::pending().await,
        "/api/v1/pods" => {
            let first = futures::stream::iter([name.into_bytes().into()]);
            Body::stream(first.chain(futures::stream::pending()))
        }
        "/count" => match request.into_body().collect().await {
            Ok(body) => Body::from(body.to_bytes().len().to_string()),
            Err(error) => Body::from(error.to_string()),
        },
        "/api/v1/namespaces/a/pods/x/proxy/endless" => {
            Body::Proxied(futures::stream::repeat(Ok(vec![b'x'; 1000].into())).boxed())
        }
        "/list" => Body::Pieces((0..10_000).map(|_| vec![b'x'; 1000].into()).collect()),
        _ => Body::from(name),
    };
    Ok(Response::new(body))
}

impl Running {
    pub(crate) async fn tls(
        &self,
        protocol: &str,
        pair: Option<(&str, &str)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.credentials.ca_certificate().unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![protocol.into()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends these bytes over HTTP/1.1 and reads until the server closes.
    async fn raw(&self, pair: Option<(&str, &str)>, request: &str) -> String {
        let mut stream = self.tls("http/1.1", pair).await.unwrap();
        // A refusal may arrive, and the connection close, before everything is sent.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) async fn get(&self, pair: Option<(&str, &str)>, path: &str, headers: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        let answer = self.raw(pair, &request).await;
        let code = answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_default();
        (code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    /// Returns the header that identifies the administrator.
    pub(crate) fn authorization(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.credentials.admin_token)
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn credentials_identify_their_user() {
    let server = start();
    let token = format!("Authorization: Bearer {}\r\n", server.credentials.admin_token);
    let jane = server.credentials.issue_client("jane", &["team"]).unwrap();
    let jane = Some((&*jane.certificate, &*jane.key));
    let elsewhere = Credentials::load(
        &CredentialStorage::Memory,
        &CertificateNames::default(),
        Clock::system(),
        &Entropy::system(),
    )
    .unwrap();
    let untrusted = elsewhere.issue_client("jane", &["system:masters"]).unwrap();
    let untrusted = Some((&*untrusted.certificate, &*untrusted.key));
    for (pair, headers, code, body) in [
        (None, "", 200, "system:anonymous"),
        (None, &*token, 200, "kubernetes-admin"),
        (None, "Authorization: Bearer wrong\r\n", 401, ""),
        (None, "Authorization: Basic YTpi\r\n", 200, "system:anonymous"),
        (jane, "", 200, "jane"),
        (jane, "Authorization: Bearer wrong\r\n", 200, "jane"),
        (untrusted, "", 401, ""),
        (untrusted, "Authorization: Bearer wrong\r\n", 401, ""),
        (untrusted, &*token, 200, "kubernetes-admin"),
    ] {
        let (found, text) = server.get(pair, "/who", headers).await;
        assert_eq!(found, code, "{headers:?} {text}");
        assert!(
            text.contains(body) && (code != 401 || text.contains(r#""reason":"Unauthorized""#)),
            "{text}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn the_serving_certificate_is_not_a_client_certificate() {
    let server = start();
    let folder = server.folder.path().join("pki");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (certificate, key) = (read("apiserver.crt"), read("apiserver.key"));
    assert_eq!(server.get(Some((&certificate, &key)), "/who", "").await.0, 401);
    let (certificate, key) = (read("admin.crt"), read("admin.key"));
    assert_eq!(server.get(Some((&certificate, &key)), "/who", "").await.1, "kubernetes-admin");
    server.stop().await;
}

#[tokio::test]
async fn credentials_survive_a_restart_and_are_closed_to_others() {
    let first = start();
    let token = first.credentials.admin_token.clone();
    let ca = first.credentials.ca_pem.clone();
    let text = std::fs::read_to_string(&first.kubeconfig).unwrap();
    assert!(text.contains(&format!("server: https://{}", first.address)) && text.contains(&token));
    assert!(text.contains("current-context: homeostat"));
    for path in [first.kubeconfig.clone(), first.folder.path().join("pki/ca.key")] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    first.stop.cancel();
    first.task.await.unwrap();
    let second = start_in(first.folder);
    assert_eq!((&second.credentials.admin_token, &second.credentials.ca_pem), (&token, &ca));
    second.stop().await;
}

#[tokio::test]
async fn a_removed_key_is_recreated_with_its_certificate() {
    let first = start();
    let ca = first.credentials.ca_pem.clone();
    first.stop.cancel();
    first.task.await.unwrap();
    let pki = first.folder.path().join("pki");
    std::fs::remove_file(pki.join("apiserver.key")).unwrap();
    std::fs::write(pki.join("admin.token"), "\n").unwrap();
    let second = start_in(first.folder);
    assert_eq!(second.credentials.ca_pem, ca);
    assert!(!second.credentials.admin_token.is_empty());
    second.stop().await;
}

#[tokio::test]
async fn a_broken_credential_is_reported_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("pki")).unwrap();
    let path = folder.path().join("pki/ca.key");
    std::fs::write(&path, "rubbish").unwrap();
    let error = Server::bind(config(&folder)).err().unwrap().to_string();
    assert!(error.contains("pki/ca.key") && error.contains("remove it"), "{error}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "rubbish");
}

#[tokio::test]
async fn a_port_in_use_is_a_clear_error() {
    let server = start();
    let folder = tempfile::tempdir().unwrap();
    let taken = Config { listen: server.address, ..config(&folder) };
    let error = Server::bind(taken).err().unwrap().to_string();
    assert!(error.contains(&server.address.to_string()) && error.contains("--listen"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn http2_serves_many_streams_and_a_panic_costs_one_request() {
    let server = start();
    let stream = server.tls("h2", None).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = |path: &str| {
        let uri = format!("https://localhost{path}");
        Request::get(uri).body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap()
    };
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(sender.send_request(request("/api/v1/pods?watch=1")).await.unwrap());
    }
    let answer = sender.send_request(request("/panic")).await.unwrap();
    assert_eq!(answer.status(), 500);
    let answer = sender.send_request(request("/list")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 10_000_000);
    let frame = watches[0].body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "system:anonymous");
    server.stop.cancel();
    for mut watch in watches.drain(1..) {
        while let Some(frame) = watch.body_mut().frame().await {
            frame.unwrap();
        }
    }
    drop((sender, watches));
    server.task.await.unwrap();
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_ends_watches_cleanly_and_quickly() {
    let server = start();
    let mut stream = server.tls("http/1.1", None).await.unwrap();
    stream.write_all(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 16 * 1024];
    let length = stream.read(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).starts_with("HTTP/1.1 200"));
    let stopped = tokio::time::timeout(limits::DRAIN_TIME / 2, server.stop());
    let mut rest = Vec::new();
    let (stopped, read) = tokio::join!(stopped, stream.read_to_end(&mut rest));
    stopped.expect("a watch must not hold the server up");
    read.unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the end of the watch is marked: {rest:?}");
}

#[tokio::test]
async fn requests_that_are_not_http_get_a_refusal() {
    let server = start();
    let many = "X-Many: y\r\n".repeat(150);
    let long = format!("X-Long: {}\r\n", "y".repeat(limits::HEADER_BYTES_MAX));
    assert_eq!(server.get(None, "/who", &many).await.0, 431);
    // The request is refused while the client is still sending: the response may be lost with the connection.
    assert!([431, 0].contains(&server.get(None, "/who", &long).await.0));
    let smuggled = "POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\
        Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /who HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = server.raw(None, smuggled).await;
    assert!(answer.matches("HTTP/1.1").count() <= 1, "one request, at most one answer: {answer}");
    for bad in [
        "GET /who HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
        "GET /who HTTP/1.1\r\nBad Header: y\r\n\r\n",
        "POST /count HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /count HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "\0\0\0\r\n\r\n",
    ] {
        let answer = server.raw(None, bad).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
    }
    assert_eq!(server.get(None, "/who", "").await.0, 200, "other clients are not affected");
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_refused_before_it_is_read() {
    let server = start();
    let length = limits::BODY_BYTES_MAX + 1;
    let request =
        format!("POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let answer = server.raw(None, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("Request entity too large: limit is 3145728"), "{answer}");
    let body = "x".repeat(usize::try_from(length).unwrap());
    let answer = server.raw(None, &format!("{request}{body}")).await;
    assert!(
        answer.starts_with("HTTP/1.1 413"),
        "a client that is still sending sees the refusal, too: {answer}"
    );
    let body = "x".repeat(usize::try_from(limits::BODY_BYTES_MAX).unwrap());
    let request = format!(
        "POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(server.raw(None, &request).await.ends_with("3145728"));
    server.stop().await;
}

#[tokio::test]
async fn a_connection_without_tls_is_refused() {
    let server = start();
    let told = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    for (sent, expected) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", told),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", told),
        ("SSH-2.0-client\r\n", ""),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let reading = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer));
        reading.await.unwrap().unwrap();
        assert_eq!(answer, expected, "{sent}");
    }
    assert_eq!(server.get(None, "/who", "").await.0, 200);
    server.stop().await;
}

/// Time stands still and jumps to the next deadline when every task waits, so these waits take no real time.
#[tokio::test(start_paused = true)]
async fn slow_clients_are_disconnected_in_time() {
    let server = start();
    let started = tokio::time::Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read(&mut [0; 16]).await.unwrap(), 0, "no handshake");
    assert!(started.elapsed() <= limits::HANDSHAKE_TIME + Duration::from_secs(1));
    for start in ["", "GET /who HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
        let started = tokio::time::Instant::now();
        assert_eq!(server.raw(None, start).await, "", "no whole request");
        assert!(started.elapsed() <= limits::HEADER_TIME + Duration::from_secs(1));
    }
    let started = tokio::time::Instant::now();
    // An authenticated user: unauthenticated clients have less time.
    let known = server.authorization();
    let trickle = format!(
        "POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{known}Content-Length: 100\r\n\r\nx"
    );
    let answer = server.raw(None, &trickle).await;
    assert!(answer.ends_with("the request body did not arrive within 60 s"), "{answer}");
    assert!(started.elapsed() <= limits::BODY_TIME + limits::UNREAD_BODY_TIME + Duration::from_secs(1));
    assert_eq!(server.get(None, "/who", "").await.0, 200);
    server.stop().await;
}

/// Time advances only where the test says so: automatic time would jump over all waits for the network.
#[tokio::test(start_paused = true)]
async fn missing_bodies_lock_nobody_out_for_long() {
    let server = start();
    let known = server.authorization();
    let head = format!("POST /count HTTP/1.1\r\nHost: x\r\n{known}Content-Length: 100\r\n");
    let head = format!("{head}Expect: 100-continue\r\n\r\n");
    let mut waiting = Vec::new();
    for at in 0..limits::USER_WRITES_MAX {
        // The first is late before all others, and the last after them.
        if at == 1 || at == limits::USER_WRITES_MAX - 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let _held = PausedTime::new();
        let mut stream = server.tls("http/1.1", None).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut asked = vec![0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut asked).await.unwrap();
        assert!(asked.starts_with(b"HTTP/1.1 100"), "it waits for the body");
        stream.write_all(b"x").await.unwrap();
        waiting.push(stream);
    }
    let whole = format!(
        "POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{known}Content-Length: 3\r\n\r\nabc"
    );
    let still = PausedTime::new();
    let refused = server.raw(None, &whole).await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    drop(still);
    tokio::time::sleep(limits::BODY_LATE_TIME).await;
    let still = PausedTime::new();
    for _ in 0..10 {
        let answer = server.raw(None, &whole).await;
        assert!(answer.ends_with("\r\n\r\n3"), "{answer}");
    }
    let mut answer = vec![0; 1000];
    let read = waiting[0].read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.contains("other requests needed its slot"), "{answer}");
    let mut last = waiting.pop().unwrap();
    last.write_all(&[b'x'; 99]).await.unwrap();
    let mut answer = vec![0; 1000];
    let read = last.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.ends_with("100"), "a late body that kept its slot is still read: {answer}");
    drop((waiting, still));
    server.stop().await;
}

#[tokio::test]
async fn watches_of_a_user_are_limited() {
    let server = start();
    let mut watches = Vec::new();
    let mut refused = None;
    // A connection has a limited number of streams.
    for _ in 0..2 {
        let stream = server.tls("h2", None).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..limits::USER_WATCHES_MAX * 3 / 5 {
            let request = Request::get("https://localhost/api/v1/pods?watch=1");
            let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            match answer.status().as_u16() {
                200 => watches.push((answer, sender.clone())),
                _ => refused = Some(answer),
            }
        }
    }
    assert_eq!(watches.len(), limits::USER_WATCHES_MAX);
    let refused = refused.expect("there is a limit");
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    drop(watches);
    server.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_and_watches_take_no_slots() {
    let server = start();
    let stream = server.tls("h2", None).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let send = |path: &str| {
        let request = Request::get(format!("https://localhost{path}"));
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let mut sender = sender.clone();
        async move { sender.send_request(request).await.unwrap() }
    };
    let mut held = tokio::task::JoinSet::new();
    for _ in 0..limits::USER_READS_MAX {
        held.spawn(send("/hold"));
    }
    let refused = loop {
        // Streams are accepted in order, but concurrently: until the last is accepted, there are free slots.
        let answer = send("/who").await;
        if answer.status() != 200 {
            break answer;
        }
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(send("/api/v1/pods?watch=1").await.status(), 200);
    drop(held);
    while send("/who").await.status() != 200 {}
    server.stop.cancel();
    drop(sender);
    server.task.await.unwrap();
    let _ = connection.await.unwrap();
}
