//! Runs the real kube-apiserver with its etcd, to measure beside it: durable, on loopback, with an administrator's token.
//!
//! Nothing is tuned: both run with their defaults, as `homeostat up` does. ServiceAccount admission is off, because no
//! controller creates accounts.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::process::client_of;
use crate::Outcome;

/// How long kube-apiserver may take to start: it needs some seconds, on a busy machine several times as many.
const START_MAX: Duration = Duration::from_secs(120);
/// The pause between two questions whether it is ready.
const READY_PAUSE: Duration = Duration::from_millis(50);
/// The administrator's token. The server listens on loopback and ends with the measurement.
const TOKEN: &str = "reference";

/// A running kube-apiserver and its etcd; both are killed when dropped.
pub(super) struct ReferenceProcess {
    etcd: Child,
    server: Child,
    folder: PathBuf,
    kubeconfig: PathBuf,
    /// The time from the start of etcd until the server is ready.
    pub(super) started_in: Duration,
}

impl ReferenceProcess {
    /// Starts both programs of this folder, or of its subfolder `bin`, and waits until the server is ready.
    pub(super) async fn start(programs: &Path) -> Outcome<Self> {
        let (etcd, server) = (find_program(programs, "etcd")?, find_program(programs, "kube-apiserver")?);
        let folder = std::env::temp_dir().join(format!("homeostat-bench-reference-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        write_credentials(&folder)?;
        let [client_port, peer_port, port] = free_ports()?;
        let begun = Instant::now();
        let etcd = start_etcd(&etcd, &folder, client_port, peer_port)?;
        let server = start_server(&server, &folder, client_port, port)?;
        let kubeconfig = write_kubeconfig(&folder, port)?;
        let mut process = Self { etcd, server, folder, kubeconfig, started_in: Duration::ZERO };
        process.wait_until_ready(begun).await?;
        process.started_in = begun.elapsed();
        Ok(process)
    }

    async fn wait_until_ready(&mut self, begun: Instant) -> Outcome<()> {
        let client = client_of(&self.kubeconfig).await?;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            if client.request_text(request).await.is_ok_and(|text| text == "ok") {
                return Ok(());
            }
            if let Some(status) = self.server.try_wait()? {
                let log = std::fs::read_to_string(self.folder.join("kube-apiserver.log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(format!("kube-apiserver ended before it was ready ({status}): {last}").into());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("kube-apiserver was not ready within {START_MAX:?}").into());
            }
            tokio::time::sleep(READY_PAUSE).await;
        }
    }

    /// Returns the path of a kubeconfig for the administrator.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the IDs of both processes.
    pub(super) fn ids(&self) -> Vec<u32> {
        vec![self.server.id(), self.etcd.id()]
    }
}

impl Drop for ReferenceProcess {
    fn drop(&mut self) {
        // These fail only if the processes or the folder are already gone.
        for child in [&mut self.server, &mut self.etcd] {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn find_program(folder: &Path, name: &str) -> Outcome<PathBuf> {
    let places = [folder.join(name), folder.join("bin").join(name)];
    let found = places.into_iter().find(|place| place.is_file());
    Ok(found.ok_or_else(|| format!("{} has no {name}, and its subfolder bin has none", folder.display()))?)
}

/// Writes the key that signs service accounts' tokens, without which kube-apiserver does not start, and the token file.
fn write_credentials(folder: &Path) -> Outcome<()> {
    let key = folder.join("accounts.key");
    let made =
        Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return Err("openssl, which makes the key of the reference's service accounts, failed".into());
    }
    std::fs::write(folder.join("tokens.csv"), format!("{TOKEN},admin,1,\"system:masters\"\n"))?;
    Ok(())
}

/// Returns ports that are free now. Another process could take one before it is used; then the start fails.
fn free_ports() -> Outcome<[u16; 3]> {
    let listeners = [
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    ];
    let [first, second, third] = &listeners;
    Ok([first.local_addr()?.port(), second.local_addr()?.port(), third.local_addr()?.port()])
}

fn start_etcd(program: &Path, folder: &Path, client_port: u16, peer_port: u16) -> Outcome<Child> {
    let (client, peer) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
    let log = File::create(folder.join("etcd.log"))?;
    Ok(Command::new(program)
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?)
}

fn start_server(program: &Path, folder: &Path, etcd_port: u16, port: u16) -> Outcome<Child> {
    let key = folder.join("accounts.key");
    let log = File::create(folder.join("kube-apiserver.log"))?;
    Ok(Command::new(program)
        .arg("--cert-dir")
        .arg(folder.join("certificates"))
        .arg("--token-auth-file")
        .arg(folder.join("tokens.csv"))
        .arg("--service-account-key-file")
        .arg(&key)
        .arg("--service-account-signing-key-file")
        .arg(&key)
        .args(["--service-account-issuer", &format!("https://127.0.0.1:{port}/")])
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")])
        .args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()])
        .args(["--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24"])
        .args(["--disable-admission-plugins", "ServiceAccount"])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?)
}

/// Writes a kubeconfig. kube-apiserver makes its own certificate, so the client does not check it.
fn write_kubeconfig(folder: &Path, port: u16) -> Outcome<PathBuf> {
    let path = folder.join("kubeconfig");
    let cluster = json!({"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true});
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "reference", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "reference", "context": {"cluster": "reference", "user": "admin"}}],
        "current-context": "reference",
    });
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}
