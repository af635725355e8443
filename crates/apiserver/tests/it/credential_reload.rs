//! Tests certificates and keys that are replaced in their files while the server runs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::{Authenticator, Identity, StaticTokens};
use homeostat_apiserver::body::Body;
use homeostat_apiserver::serve::{
    CertificateNames, Config, CredentialStorage, Credentials, RequestBody, Server,
};
use homeostat_core::{Clock, Entropy, Key};
use homeostat_store::{Expect, Memory, Op, SharedStore, Txn, Value};
use http::{Request, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::test_server::TestServer;

/// How often the server checks, and how often the test does.
const INTERVAL: Duration = Duration::from_millis(20);
/// The longest wait; it only ends a test that hangs.
const PATIENCE: Duration = Duration::from_mins(5);

fn load(folder: &Path) -> Credentials {
    let storage = CredentialStorage::Folder(folder.to_owned());
    Credentials::load(&storage, &CertificateNames::default(), Clock::system(), &Entropy::system()).unwrap()
}

async fn answer(request: Request<RequestBody>) -> Result<Response<Body>, Infallible> {
    let name = request.extensions().get::<Identity>().map(|who| who.name.clone()).unwrap();
    Ok(Response::new(Body::from(name)))
}

struct Running {
    address: SocketAddr,
    authenticator: Arc<Authenticator>,
    pki: PathBuf,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

fn bind(folder: &Path) -> Server {
    let server = Server::bind(Config {
        listen: ([127, 0, 0, 1], 0).into(),
        storage: CredentialStorage::Folder(folder.join("pki")),
        kubeconfig: folder.join("kubeconfig"),
        clock: Clock::system(),
        entropy: Entropy::system(),
    });
    server.unwrap().reload_every(INTERVAL)
}

async fn start() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let server = bind(folder.path());
    let pki = folder.path().join("pki");
    let store: SharedStore = Arc::new(Memory::new());
    let account = json!({"metadata": {"name": "robot", "uid": "u"}}).to_string();
    let key = Key::new("", "serviceaccounts", "a", "robot");
    store.commit(Txn::one(key, Expect::Any, Op::Put(Value::plain(account)))).await.unwrap();
    let authenticator = Arc::new(server.authenticator(store).unwrap());
    let (address, stop) = (server.local_addr(), CancellationToken::new());
    let run = server.run(tower::service_fn(answer), Arc::clone(&authenticator), stop.clone());
    let task = tokio::spawn(async move { run.await.unwrap() });
    Running { address, authenticator, pki, stop, task, _folder: folder }
}

impl Running {
    /// Sends a request with a client certificate of this authority, and trusts it; returns the user that the server
    /// sees.
    async fn ask(&self, authority: &Credentials) -> Option<String> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.ca_certificate().unwrap()).unwrap();
        let pair = authority.issue_client("jane", &[]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer.starts_with("HTTP/1.1 200").then(|| answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    fn token(&self) -> String {
        let answer = self.authenticator.issuer().unwrap().request("a", "robot", json!({"spec": {}})).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_certificates_are_used_without_a_restart() {
    let server = start().await;
    let before = load(&server.pki);
    assert_eq!(server.ask(&before).await.as_deref(), Some("jane"));
    let elsewhere = tempfile::tempdir().unwrap();
    let after = load(elsewhere.path());
    assert_eq!(server.ask(&after).await, None);
    // The certificates come first: they do not match their keys until those are replaced, too, and must not be issued
    // again in the meantime.
    for name in ["ca.crt", "apiserver.crt", "admin.crt", "ca.key", "apiserver.key", "admin.key"] {
        std::fs::copy(elsewhere.path().join(name), server.pki.join(name)).unwrap();
    }
    let placed = contents(&server.pki);
    eventually("the new certificates are used", async || server.ask(&after).await.as_deref() == Some("jane"))
        .await;
    assert_eq!(server.ask(&before).await, None, "the old authority is not trusted any more");
    let unchanged = ["ca.crt", "ca.key"].map(|name| server.pki.join(name));
    for path in unchanged {
        assert_eq!(placed[&path], std::fs::read(&path).unwrap(), "{}", path.display());
    }
    // Unreadable files change nothing.
    std::fs::write(server.pki.join("apiserver.key"), "nonsense").unwrap();
    let ca = std::fs::read(server.pki.join("ca.key")).unwrap();
    std::fs::remove_file(server.pki.join("ca.key")).unwrap();
    for _ in 0..10 {
        tokio::time::sleep(INTERVAL).await;
        assert_eq!(server.ask(&after).await.as_deref(), Some("jane"));
    }
    assert!(!server.pki.join("ca.key").exists());
    std::fs::write(server.pki.join("ca.key"), ca).unwrap();
    server.stop.cancel();
    server.task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_keys_rotate_and_earlier_ones_may_stay() {
    let server = start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    load(elsewhere.path());
    let first = server.token();
    let accepts = |token: &str| server.authenticator.accept(token, &[]).is_ok();
    assert!(accepts(&first));
    std::fs::copy(server.pki.join("sa.key"), server.pki.join("sa-previous.pem")).unwrap();
    std::fs::copy(elsewhere.path().join("sa.key"), server.pki.join("sa.key")).unwrap();
    let header = |token: &str| token.split('.').next().unwrap().to_owned();
    eventually("the new key signs", async || header(&server.token()) != header(&first)).await;
    let second = server.token();
    assert!(accepts(&first) && accepts(&second), "tokens of both keys are accepted");
    std::fs::remove_file(server.pki.join("sa-previous.pem")).unwrap();
    eventually("the old key is forgotten", async || !accepts(&first)).await;
    assert!(accepts(&second));
    server.stop.cancel();
    server.task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_of_tokens_is_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.csv");
    std::fs::write(&file, "first,jane,1\n").unwrap();
    let server = bind(folder.path()).with_tokens(StaticTokens::load(&file).unwrap());
    let authenticator = Arc::new(server.authenticator(Arc::new(Memory::new())).unwrap());
    let stop = CancellationToken::new();
    let task = tokio::spawn(server.run(tower::service_fn(answer), Arc::clone(&authenticator), stop.clone()));
    let owner = |token: &str| authenticator.accept(token, &[]).ok().map(|accepted| accepted.identity.name);
    assert_eq!(owner("first").as_deref(), Some("jane"));
    std::fs::write(&file, "second,joe,2\n").unwrap();
    eventually("the new token is accepted", async || owner("second").as_deref() == Some("joe")).await;
    assert_eq!(owner("first"), None, "a token that was removed is refused");
    std::fs::write(&file, "broken\n").unwrap();
    for _ in 0..10 {
        tokio::time::sleep(INTERVAL).await;
        assert_eq!(owner("second").as_deref(), Some("joe"), "a broken file changes nothing");
    }
    stop.cancel();
    task.await.unwrap().unwrap();
}

/// Clients trust what is written in ConfigMaps, token Secrets and the kubeconfig.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_authority_is_published_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = bind(folder.path());
    let store: SharedStore = Arc::new(Memory::new());
    let authenticator = Arc::new(server.authenticator(Arc::clone(&store)).unwrap());
    let builder =
        ApiServer::builder(store).authenticator(Arc::clone(&authenticator)).root_ca(server.root_ca());
    let plane = TestServer::start_with(builder).await;
    let stop = CancellationToken::new();
    let task = tokio::spawn(server.run(tower::service_fn(answer), authenticator, stop.clone()));
    let secret = json!({"metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token"});
    let in_default = "/api/v1/namespaces/default";
    plane.until(&format!("{in_default}/serviceaccounts/default"), |answer| answer.code == 200).await;
    plane.post(&format!("{in_default}/secrets"), secret).await.expect(201);
    plane.until(&format!("{in_default}/secrets/t"), |answer| answer.body["data"]["ca.crt"].is_string()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let after = load(elsewhere.path());
    for name in ["ca.crt", "apiserver.crt", "admin.crt", "ca.key", "apiserver.key", "admin.key"] {
        std::fs::copy(elsewhere.path().join(name), folder.path().join("pki").join(name)).unwrap();
    }
    let encoded = STANDARD.encode(&after.ca_pem);
    for namespace in ["default", "kube-public"] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        plane.until(&path, |answer| answer.body["data"]["ca.crt"] == *after.ca_pem).await;
    }
    plane.until(&format!("{in_default}/secrets/t"), |answer| answer.body["data"]["ca.crt"] == *encoded).await;
    let kubeconfig = || std::fs::read_to_string(folder.path().join("kubeconfig")).unwrap();
    eventually("the kubeconfig has it", async || kubeconfig().contains(&encoded)).await;
    stop.cancel();
    task.await.unwrap().unwrap();
}
