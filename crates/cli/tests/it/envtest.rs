//! The programs of `homeostat assets`, started and stopped as by Go's envtest and fabric8's kube-api-test.
//!
//! The flags have the forms in which these two pass them. The suites of controller-runtime themselves are in
//! `docs/why/suites.md`.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};

use homeostat::testing::has_tool;
use homeostat_apiserver::serve::kubeconfig::text_with_certificate;
use homeostat_apiserver::serve::{CertificateNames, CredentialStorage, Credentials};
use homeostat_core::{Clock, Entropy};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};

use crate::server::{PATIENCE, eventually};

/// The files that a suite writes before it starts the programs.
struct SuiteFolder {
    folder: tempfile::TempDir,
    admin: (String, String),
}

/// A running program and its address.
struct Program {
    process: Child,
    url: String,
    _stderr: BufReader<ChildStderr>,
}

impl SuiteFolder {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let written = Command::new(env!("CARGO_BIN_EXE_homeostat"))
            .args(["assets", "written"])
            .current_dir(folder.path())
            .output()
            .await
            .unwrap();
        assert!(written.status.success(), "{written:?}");
        let printed = String::from_utf8(written.stdout).unwrap();
        assert_eq!(printed.trim_end(), folder.path().join("written").to_str().unwrap());
        // A copied folder works, too.
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        for name in ["kube-apiserver", "etcd"] {
            std::fs::copy(folder.path().join("written").join(name), folder.path().join("bin").join(name))
                .unwrap();
        }
        let names = CertificateNames::default();
        let issuer =
            Credentials::load(&CredentialStorage::Memory, &names, Clock::system(), &Entropy::system());
        let issuer = issuer.unwrap();
        let admin = issuer.issue_client("admin", &["system:masters"]).unwrap();
        let signer = issuer.issue_client("signer", &[]).unwrap();
        std::fs::create_dir(folder.path().join("certs")).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join("certs").join(name), text).unwrap();
        write("client-cert-auth-ca.crt", &issuer.ca_pem);
        write("sa-signer.crt", &signer.certificate);
        write("sa-signer.key", &signer.key);
        Self { folder, admin: (admin.certificate, admin.key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("bin").join(name));
        command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    async fn etcd(&self) -> Program {
        let data = self.path("data");
        let mut command = self.command("etcd");
        command.args([
            "--advertise-client-urls=http://127.0.0.1:0",
            &format!("--data-dir={}", data.display()),
            "--listen-client-urls=http://127.0.0.1:0",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync=true",
        ]);
        Program::start(command).await
    }

    /// Starts the server with envtest's flags.
    async fn api_server(&self, etcd: &Program, controllers: &str) -> Program {
        let certificates = self.path("certs");
        let file = |flag: &str, name: &str| format!("--{flag}={}", certificates.join(name).display());
        let mut command = self.command("kube-apiserver");
        command.env("HOMEOSTAT_ENVTEST", controllers).args([
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            &file("cert-dir", ""),
            &file("client-ca-file", "client-cert-auth-ca.crt"),
            "--disable-admission-plugins=ServiceAccount",
            &format!("--etcd-servers={}", etcd.url),
            "--secure-port=0",
            "--service-account-issuer=https://127.0.0.1:1234/",
            &file("service-account-key-file", "sa-signer.crt"),
            &file("service-account-signing-key-file", "sa-signer.key"),
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        Program::start(command).await
    }

    /// Returns a client with the certificate that the suite issued.
    async fn client(&self, server: &Program) -> kube::Client {
        let authority = std::fs::read_to_string(self.path("certs/apiserver.crt")).unwrap();
        let (certificate, key) = &self.admin;
        let text = text_with_certificate(&server.url, &authority, certificate, key);
        let options = KubeConfigOptions::default();
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        kube::Client::try_from(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap())
            .unwrap()
    }
}

impl Program {
    /// Starts a program and waits until it prints its address.
    async fn start(mut command: Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        let url = tokio::time::timeout(PATIENCE, async {
            loop {
                let start = said.len();
                assert!(stderr.read_line(&mut said).await.unwrap() > 0, "it ended: {said}");
                if let Some((_, url)) = said[start..].split_once(" on http") {
                    return format!("http{}", url.trim_end());
                }
            }
        });
        Self { url: url.await.expect("it serves"), process, _stderr: stderr }
    }

    /// Asks it to end, and waits until it has.
    async fn terminate(mut self) -> ExitStatus {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        tokio::time::timeout(PATIENCE, self.process.wait()).await.expect("it ends").unwrap()
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test]
async fn a_server_without_controllers_stores_its_objects_in_the_folder_of_etcd() {
    let suite = SuiteFolder::new().await;
    let etcd = suite.etcd().await;
    let server = suite.api_server(&etcd, "").await;
    let client = suite.client(&server).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    let mut dependent = config_map("dependent");
    dependent.metadata.owner_references = Some(vec![kube::Resource::owner_ref(&owner, &()).unwrap()]);
    maps.create(&PostParams::default(), &dependent).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    eventually("garbage is collected", || async {
        maps.get_opt("dependent").await.unwrap().is_none().then_some(())
    })
    .await;
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let fresh: Namespace = serde_json::from_value(json!({"metadata": {"name": "fresh"}})).unwrap();
    namespaces.create(&PostParams::default(), &fresh).await.unwrap();
    namespaces.delete("fresh", &DeleteParams::default()).await.unwrap();
    eventually("the namespace is deleted", || async {
        namespaces.get_opt("fresh").await.unwrap().is_none().then_some(())
    })
    .await;
    let accounts: Api<ServiceAccount> = Api::all(client);
    assert!(accounts.list(&ListParams::default()).await.unwrap().items.is_empty(), "no account is created");

    assert!(server.terminate().await.success());
    let again = suite.api_server(&etcd, "-gc,serviceaccounts").await;
    let client = suite.client(&again).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.get("kept").await.expect("it was stored in etcd's folder");
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client);
    eventually("the account is made", || async { accounts.get_opt("default").await.unwrap() }).await;
    assert!(again.terminate().await.success());
    assert!(etcd.terminate().await.success());
}

#[tokio::test]
async fn tokens_are_signed_with_the_key_of_the_suite() {
    let suite = SuiteFolder::new().await;
    let etcd = suite.etcd().await;
    let server = suite.api_server(&etcd, "").await;
    let client = suite.client(&server).await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("robot", &PostParams::default(), &request).await.unwrap();
    assert_eq!(token.spec.unwrap().audiences.unwrap(), ["https://127.0.0.1:1234/"]);
    let token = token.status.unwrap().token;
    let review: TokenReview = serde_json::from_value(json!({"spec": {"token": token}})).unwrap();
    let review = Api::<TokenReview>::all(client).create(&PostParams::default(), &review).await.unwrap();
    let status = review.status.unwrap();
    assert_eq!(status.user.unwrap().username.unwrap(), "system:serviceaccount:default:robot");
    assert!(server.terminate().await.success());
}

async fn output(folder: &SuiteFolder, program: &str, arguments: &[&str]) -> Output {
    folder.command(program).args(arguments).stdout(Stdio::piped()).output().await.unwrap()
}

#[tokio::test]
async fn every_flag_is_known_and_nothing_else() {
    let suite = SuiteFolder::new().await;
    let help = output(&suite, "kube-apiserver", &["--help"]).await;
    let text = String::from_utf8(help.stdout).unwrap();
    let has = |flag: &str| text.lines().any(|line| line.trim_start() == flag);
    assert!(
        help.status.success() && has("--secure-port") && has("--audit-log-path") && !has("--insecure-port")
    );
    assert!(output(&suite, "etcd", &["--help"]).await.status.success());
    let refused = output(&suite, "kube-apiserver", &["--insecure-port=0"]).await;
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown flag: --insecure-port"));
    let alone = output(&suite, "kube-apiserver", &["--secure-port", "0"]).await;
    assert!(String::from_utf8_lossy(&alone.stderr).contains("--etcd-servers must be specified"));
}

/// Starts both programs with the flags of fabric8.
async fn start_as_fabric8(suite: &SuiteFolder, client_authority: &str, signing_key: &str) -> [Program; 2] {
    let data = suite.path("data");
    let mut command = suite.command("etcd");
    command.arg("-data-dir").arg(&data).arg("-wal-dir").arg(suite.path("wal")).args([
        "--listen-client-urls",
        "http://127.0.0.1:0",
        "--advertise-client-urls",
        "http://127.0.0.1:0",
        "--initial-cluster",
        "default=http://localhost:1",
        "--initial-advertise-peer-urls",
        "http://localhost:1",
        "--listen-peer-urls",
        "http://localhost:1",
    ]);
    let etcd = Program::start(command).await;
    let certificates = |name: &str| suite.path("certs").join(name);
    let mut command = suite.command("kube-apiserver");
    let pairs: [(&str, &Path); 10] = [
        ("--cert-dir", &certificates("")),
        ("--secure-port", Path::new("0")),
        ("--etcd-servers", Path::new(&etcd.url)),
        ("--authorization-mode", Path::new("RBAC")),
        ("--service-account-issuer", Path::new("https://localhost")),
        ("--service-account-issuer", &certificates(signing_key)),
        ("--service-account-signing-key-file", &certificates(signing_key)),
        ("--service-account-key-file", &certificates(signing_key)),
        ("--disable-admission-plugins", Path::new("ServiceAccount")),
        ("--client-ca-file", &certificates(client_authority)),
    ];
    for (flag, value) in pairs {
        command.arg(flag).arg(value);
    }
    command.args(["--allow-privileged", "--service-cluster-ip-range", "10.0.0.0/24"]);
    let server = Program::start(command).await;
    [etcd, server]
}

#[tokio::test]
async fn the_flags_of_fabric8_start_both_programs() {
    let suite = SuiteFolder::new().await;
    let [_etcd, server] = start_as_fabric8(&suite, "client-cert-auth-ca.crt", "sa-signer.key").await;
    let namespaces: Api<Namespace> = Api::all(suite.client(&server).await);
    namespaces.get("default").await.unwrap();
    assert!(server.terminate().await.success());
}

/// fabric8 creates an RSA key in the older PEM form and one self-signed certificate. The certificate is not marked as
/// an authority, but serves as the authority for clients; the same key signs tokens. fabric8 ends the programs with
/// SIGKILL.
#[tokio::test]
async fn the_certificates_of_fabric8_authenticate_also_after_a_kill() {
    if !has_tool("openssl", "apt-get install openssl") {
        return;
    }
    let mut suite = SuiteFolder::new().await;
    let (key, certificate) = (suite.path("certs/client.key"), suite.path("certs/client.crt"));
    let made =
        Command::new("openssl").args(["genrsa", "-traditional", "-out"]).arg(&key).arg("2048").output();
    assert!(made.await.unwrap().status.success());
    let mut command = Command::new("openssl");
    command.args(["req", "-new", "-x509", "-subj", "/O=system:masters/CN=kubernetes-admin", "-days", "7"]);
    command.args(["-addext", "basicConstraints=CA:FALSE", "-key"]).arg(&key).arg("-out").arg(&certificate);
    let made = command.output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    suite.admin = (read(&certificate), read(&key));

    let [mut etcd, mut server] = start_as_fabric8(&suite, "client.crt", "client.key").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(suite.client(&server).await);
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    for program in [&mut server, &mut etcd] {
        program.process.kill().await.unwrap();
    }
    let [_etcd, server] = start_as_fabric8(&suite, "client.crt", "client.key").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(suite.client(&server).await);
    maps.get("kept").await.unwrap();
}
