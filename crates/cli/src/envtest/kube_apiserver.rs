//! The stand-in for kube-apiserver: the embedded control plane, with kube-apiserver's flags for where to listen, whom
//! to trust and what to check. It reports unsupported flags once on stderr, and exits on unknown ones, as
//! kube-apiserver does.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat::embedded::{
    AdmissionConfig, Builder, ControlPlane, ExternalCredentials, ServingFiles, StaticTokens,
};
use tokio_util::sync::CancellationToken;

use super::DATA_FOLDER_PATH;
use super::controllers::{self, Controllers};
use super::flags::{CommandLine, Flags, KnownFlags};
use super::known_flags::{KUBE_APISERVER_SWITCHES, KUBE_APISERVER_VALUES};
use crate::up::stop_on_signal;

const FLAGS: KnownFlags = KnownFlags { values: KUBE_APISERVER_VALUES, switches: KUBE_APISERVER_SWITCHES };

/// The flags that have an effect here, and those that need none because what they allow or set is always the case.
const HEEDED: [&str; 39] = [
    "admission-control",
    "admission-control-config-file",
    "advertise-address",
    "allow-privileged",
    "alsologtostderr",
    "anonymous-auth",
    "apiserver-count",
    "authorization-mode",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "enable-aggregator-routing",
    "enable-garbage-collector",
    "enable-priority-and-fairness",
    "endpoint-reconciler-type",
    "etcd-prefix",
    "etcd-servers",
    "external-hostname",
    "kubernetes-service-node-port",
    "log-flush-frequency",
    "logging-format",
    "logtostderr",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "profiling",
    "secure-port",
    "service-account-issuer",
    "service-account-key-file",
    "service-account-lookup",
    "service-account-signing-key-file",
    "storage-backend",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "v",
    "vmodule",
    "watch-cache",
];
/// The port without `--secure-port`.
const DEFAULT_PORT: u16 = 6443;
/// The folder of certificates without `--cert-dir`.
const DEFAULT_CERTIFICATES: &str = "/var/run/kubernetes";
/// How long etcd may take to report its data folder.
const ETCD_TIME: Duration = Duration::from_secs(10);

/// Runs until a signal.
pub(super) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let flags = match FLAGS.parse(arguments)? {
        CommandLine::Help => {
            print!("{}", FLAGS.help("kube-apiserver"));
            return Ok(());
        }
        CommandLine::Version => {
            println!("Kubernetes {}", homeostat_apiserver::kubernetes_version());
            return Ok(());
        }
        CommandLine::Run(flags) => flags,
    };
    crate::init_logging(tracing::Level::WARN);
    for name in flags.names().filter(|name| !HEEDED.contains(name)) {
        eprintln!("warning: --{name} has no effect in homeostat");
    }
    let builder = configure(&flags)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(builder))
}

async fn serve(builder: Builder) -> Result<(), Box<dyn Error>> {
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone())?);
    let mut control = builder.start().await?;
    eprintln!("serving securely on {}", control.url().unwrap_or_default());
    let outcome = tokio::select! {
        () = stop.cancelled() => Ok(()),
        failed = control.failed() => failed,
    };
    stop.cancel();
    control.stop().await?;
    signals.await?;
    Ok(outcome?)
}

/// Returns the control plane that the flags describe.
fn configure(flags: &Flags) -> Result<Builder, String> {
    let variable = std::env::var(controllers::VARIABLE).unwrap_or_default();
    let Controllers { mut background, workloads } = Controllers::parse(&variable)?;
    background.garbage_collection &= flags.is_on("enable-garbage-collector", true);
    Ok(ControlPlane::builder()
        .data_dir(data_folder(flags)?)
        .without_sync()
        .listen(listen_address(flags)?, "")
        .credentials(credentials(flags))
        .workloads(workloads)
        .background(background)
        .admission(admission(flags)?)
        .allow_everything(allows_everything(flags)?)
        .anonymous(flags.is_on("anonymous-auth", true))
        .tokens(tokens(flags)?))
}

fn listen_address(flags: &Flags) -> Result<SocketAddr, String> {
    let address = flags.last("bind-address").map_or(Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), |text| {
        text.parse().map_err(|_| format!("invalid argument {text:?} for \"--bind-address\" flag"))
    })?;
    let port = flags.last("secure-port").map_or(Ok(DEFAULT_PORT), |text| {
        text.parse().map_err(|_| format!("invalid argument {text:?} for \"--secure-port\" flag"))
    })?;
    Ok(SocketAddr::new(address, port))
}

fn credentials(flags: &Flags) -> ExternalCredentials {
    let path = |name: &str| flags.last(name).map(PathBuf::from);
    let serving = match (path("tls-cert-file"), path("tls-private-key-file")) {
        (Some(certificate), Some(key)) => ServingFiles::Files { certificate, key },
        _ => ServingFiles::Folder(path("cert-dir").unwrap_or_else(|| DEFAULT_CERTIFICATES.into())),
    };
    ExternalCredentials {
        serving,
        client_ca: path("client-ca-file"),
        token_key: path("service-account-signing-key-file"),
        other_token_keys: flags.all("service-account-key-file").iter().map(PathBuf::from).collect(),
        issuers: flags.all("service-account-issuer").to_vec(),
    }
}

/// Returns whether the authorization modes allow everyone everything. `Node` has no meaning here; roles decide.
fn allows_everything(flags: &Flags) -> Result<bool, String> {
    let modes = flags.list("authorization-mode");
    let unknown = modes.iter().find(|mode| {
        !matches!(mode.as_str(), "AlwaysAllow" | "AlwaysDeny" | "ABAC" | "Webhook" | "RBAC" | "Node")
    });
    match unknown {
        Some(mode) => Err(format!("authorization-mode {mode:?} is not a valid mode")),
        // Without the flag, kube-apiserver allows everything.
        None => Ok(modes.is_empty() || modes.iter().any(|mode| mode == "AlwaysAllow")),
    }
}

fn admission(flags: &Flags) -> Result<AdmissionConfig, String> {
    let enabled = [flags.list("enable-admission-plugins"), flags.list("admission-control")].concat();
    let disabled = flags.list("disable-admission-plugins");
    let is_known = |name: &String| match AdmissionConfig::new(std::slice::from_ref(name), &[]) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("warning: {error}; it is left out");
            false
        }
    };
    let enabled: Vec<String> = enabled.into_iter().filter(is_known).collect();
    let plugins = AdmissionConfig::new(&enabled, &disabled).map_err(|error| error.to_string())?;
    match flags.last("admission-control-config-file") {
        Some(path) => plugins.configured(&read(path)?).map_err(|why| format!("cannot use {path}: {why}")),
        None => Ok(plugins),
    }
}

fn tokens(flags: &Flags) -> Result<StaticTokens, String> {
    flags.last("token-auth-file").map_or_else(
        || Ok(StaticTokens::default()),
        |path| StaticTokens::parse(&read(path)?).map_err(|why| format!("cannot use {path}: {why}")),
    )
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// Asks etcd for its data folder, and returns the part of it that belongs to this server.
fn data_folder(flags: &Flags) -> Result<PathBuf, String> {
    let servers = flags.list("etcd-servers");
    let Some(server) = servers.first() else {
        return Err("--etcd-servers must be specified".to_owned());
    };
    let folder = ask_data_folder(server).map_err(|error| {
        format!("cannot learn the data folder from {server}: {error}; it must be the etcd that homeostat stands in for")
    })?;
    let prefix = flags.last("etcd-prefix").unwrap_or("/registry").trim_matches('/').replace(['/', '.'], "_");
    Ok(folder.join(format!("homeostat-{prefix}")))
}

fn ask_data_folder(server: &str) -> std::io::Result<PathBuf> {
    let invalid = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let host = server.strip_prefix("http://").ok_or_else(|| invalid("only http:// is possible"))?;
    let host = host.trim_end_matches('/');
    let address = host.to_socket_addrs()?.next().ok_or_else(|| invalid("the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, ETCD_TIME)?;
    stream.set_read_timeout(Some(ETCD_TIME))?;
    write!(stream, "GET {DATA_FOLDER_PATH} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| invalid("it did not answer as HTTP"))?;
    if !head.starts_with("HTTP/1.1 200") || !Path::new(body).is_absolute() {
        return Err(invalid("it is another etcd, which homeostat cannot store in"));
    }
    Ok(PathBuf::from(body))
}
