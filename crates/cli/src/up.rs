//! `homeostat up`: runs the embedded control plane.
//!
//! **Invariant:** the line `ready …` is printed once, when the server answers requests, unless it was told to stop before;
//! nothing else goes to stdout, unless the audit log is written there. The store is opened (and locked) before anything in the data folder
//! is written.

use std::error::Error;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use homeostat::embedded::{AdmissionConfig, AuditLog, ControlPlane, NodeOptions, StaticTokens};
use homeostat_core::Entropy;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::audit_flags::AuditFlags;
use crate::temporary_folder::TemporaryFolder;

/// Run the control plane: a Kubernetes API server in this process
#[derive(clap::Args)]
#[command(
    after_help = "Prints one line as soon as it answers requests:\n    ready https://127.0.0.1:PORT kubeconfig=FILE\n\
    With --console the line ends with console=URL; whoever has that URL can read everything except the values of Secrets.\n\
    Stops on ctrl-c and SIGTERM; a second one ends it immediately. HOMEOSTAT_LOG=debug logs more, to stderr."
)]
pub(crate) struct Up {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443", value_parser = parse_address)]
    listen: SocketAddr,

    /// Where objects and credentials are kept
    #[arg(long, value_name = "FOLDER", default_value = ".homeostat")]
    data_dir: PathBuf,

    /// Keep everything in memory; nothing remains after it stops
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,

    /// Where to write the kubeconfig; other entries in the file are kept [default: in the data folder]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Run only the API, without the controllers for Deployments, Jobs and so on
    #[arg(long)]
    no_workloads: bool,

    /// Admission plugins to switch off, by their names in Kubernetes, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

    /// Admission plugins to switch on in addition to those that Kubernetes switches on, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,

    /// File with an AdmissionConfiguration: the defaults and exemptions of PodSecurity
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,

    /// File with tokens of users, as kube-apiserver reads it: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Also run Pods, as processes of this machine: anyone who may create Pods can run commands here
    #[arg(long)]
    node: bool,

    /// Register this machine as this many Nodes, for setups that need several
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    node_count: u32,

    /// Run all Pods as this user of the machine (name or number), with that user's permissions. Without it, each Pod
    /// runs as its own user if the server is root, and otherwise as your user, without access to the server's data
    #[arg(long, value_name = "USER")]
    node_as: Option<String>,

    /// Also serve the web console, over plain HTTP: at this address of the machine, or at any free port
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0", require_equals = true,
        value_parser = parse_console_address)]
    console: Option<SocketAddr>,

    /// Command for containers that use this image and have no command; words are split at spaces
    #[arg(long, value_name = "NAME=COMMAND", value_parser = parse_image)]
    image: Vec<(String, Vec<String>)>,

    #[command(flatten)]
    audit: AuditFlags,
}

/// The maximum number of Nodes: each costs a heartbeat, and one machine does not need more.
const NODES_MAX: i64 = 100;

/// Parses `127.0.0.1:6443`, or a host name with a port.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let resolved = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    resolved.ok_or_else(|| "write an address and a port, as in 127.0.0.1:6443 or localhost:0".to_owned())
}

/// Parses an address of this machine: the console uses plain HTTP, which must not leave it.
fn parse_console_address(text: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text)?;
    if !address.ip().is_loopback() {
        return Err(
            "the console is for this machine only: write an address such as 127.0.0.1:8080".to_owned()
        );
    }
    Ok(address)
}

/// Parses `NAME=COMMAND WORDS`. The command may contain `=`, the name may not.
fn parse_image(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, command) = text.split_once('=').ok_or("write NAME=COMMAND")?;
    let command: Vec<String> = command.split_whitespace().map(ToOwned::to_owned).collect();
    if name.is_empty() || command.is_empty() {
        return Err("write NAME=COMMAND: neither may be empty".to_owned());
    }
    Ok((name.to_owned(), command))
}

impl Up {
    /// Runs the control plane until a signal stops it.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let idle = [
            (!self.image.is_empty(), "--image has no effect without a node: add --node\n"),
            (self.node_count > 1, "--node-count has no effect without a node: add --node\n"),
            (self.node_as.is_some(), "--node-as has no effect without a node: add --node\n"),
        ];
        if let Some((_, why)) = idle.iter().find(|(is_given, _)| *is_given && !self.node) {
            clap::Error::raw(ErrorKind::MissingRequiredArgument, *why).exit();
        }
        let admission = self
            .admission()
            .unwrap_or_else(|why| clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n")).exit());
        let tokens = self
            .tokens()
            .unwrap_or_else(|why| clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n")).exit());
        let audit = self
            .audit
            .open()
            .unwrap_or_else(|why| clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n")).exit());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve(admission, tokens, audit))
    }

    /// Returns the tokens from the given file.
    fn tokens(&self) -> Result<StaticTokens, String> {
        let Some(file) = &self.token_auth_file else { return Ok(StaticTokens::default()) };
        StaticTokens::load(file)
            .map_err(|why| format!("cannot use --token-auth-file {}: {why}", file.display()))
    }

    /// Returns the admission plugins that the flags select.
    fn admission(&self) -> Result<AdmissionConfig, String> {
        let (enabled, disabled) = (&self.enable_admission_plugins, &self.disable_admission_plugins);
        let plugins = AdmissionConfig::new(enabled, disabled).map_err(|error| error.to_string())?;
        let Some(file) = &self.admission_control_config_file else { return Ok(plugins) };
        let told =
            |why: String| format!("cannot use --admission-control-config-file {}: {why}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
        plugins.configured(&text).map_err(told)
    }

    async fn serve(
        self,
        admission: AdmissionConfig,
        tokens: StaticTokens,
        audit: Option<AuditLog>,
    ) -> Result<(), Box<dyn Error>> {
        // A file that may not grow (`ulimit -f`) makes a write fail, which the store reports. Without a handler, the
        // signal would end the process.
        let _heard = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
        // Comes first, because a signal during startup must not leave a folder behind.
        let stop = CancellationToken::new();
        let signals = tokio::spawn(stop_on_signal(stop.clone())?);
        let entropy = Entropy::system();
        let location = self.location(&entropy).await?;
        let kubeconfig = self.kubeconfig.clone().unwrap_or_else(|| location.kubeconfig());
        let mut builder = ControlPlane::builder()
            .listen(self.listen, kubeconfig)
            .workloads(!self.no_workloads)
            .admission(admission)
            .tokens(tokens);
        if let DataLocation::Folder(folder) = &location {
            builder = builder.data_dir(folder);
        }
        if let Some(audit) = audit {
            builder = builder.audit(audit);
        }
        if let Some(address) = self.console {
            builder = builder.console(address);
        }
        if self.node {
            builder = builder.node(self.node_options(&location));
        }
        let mut control = builder.start().await?;
        if let Some(line) = ready_line(&control, &stop) {
            if let Some(meaning) = self.node_notice() {
                // It does not matter if stderr is closed.
                let _ = writeln!(std::io::stderr(), "{meaning}");
            }
            print_only_line(&line)?;
        }
        let outcome = tokio::select! {
            () = stop.cancelled() => Ok(()),
            failed = control.failed() => failed,
        };
        stop.cancel();
        control.stop().await?;
        signals.await?;
        Ok(outcome?)
    }

    fn node_options(&self, location: &DataLocation) -> NodeOptions {
        let options = match location {
            DataLocation::Memory(folder) => NodeOptions::new().folder(folder.node()).ephemeral(),
            DataLocation::Folder(_) => NodeOptions::new(),
        };
        let options = options.count(self.node_count);
        let options = match &self.node_as {
            Some(user) => options.run_as(user),
            None => options,
        };
        let images = self.image.iter().cloned();
        images.fold(options, |options, (name, command)| options.image(name, command))
    }

    /// Returns the notice about the rights of Pods, if this process runs any.
    fn node_notice(&self) -> Option<String> {
        let is_root = rustix::process::geteuid().is_root();
        let who = match &self.node_as {
            _ if !self.node => return None,
            Some(user) => format!("each Pod as {user}, with all the rights that {user} has on this machine"),
            None if is_root => {
                "each Pod as its own user without rights on this machine; --node-as USER runs all of them as one user"
                    .to_owned()
            }
            None => "all Pods as your own user, with the rights you have here: they can read and change your files (~/.ssh and \
                     ~/.kube, too) and end your processes (this server, too), but not read what this server keeps"
                .to_owned(),
        };
        Some(format!(
            "note: anyone who may create Pods on this server can run programs on this machine, {who}"
        ))
    }

    async fn location(&self, entropy: &Entropy) -> Result<DataLocation, Box<dyn Error>> {
        Ok(if self.ephemeral {
            DataLocation::Memory(TemporaryFolder::create(entropy).await?)
        } else {
            DataLocation::Folder(self.data_dir.clone())
        })
    }
}

/// How long after the first signal another one counts as the same: `timeout` and some supervisors send it to the
/// process and to its group.
const SAME_SIGNAL_TIME: Duration = Duration::from_millis(500);

/// Cancels `stop` at the first ctrl-c or SIGTERM; the future ends when `stop` is cancelled. A second signal ends the
/// process immediately, in case something hangs.
pub(crate) fn stop_on_signal(stop: CancellationToken) -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stop.cancelled() => return,
        }
        stop.cancel();
        tokio::spawn(end_on_signal());
    })
}

async fn end_on_signal() -> std::io::Result<()> {
    tokio::time::sleep(SAME_SIGNAL_TIME).await;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::warn!("a second signal ended the process immediately");
    std::process::exit(1);
}

/// Returns the line that says where the server is; `None` if it was told to stop while it started, because then nobody
/// will be served.
fn ready_line(plane: &ControlPlane, stop: &CancellationToken) -> Option<String> {
    if stop.is_cancelled() {
        return None;
    }
    let kubeconfig = plane.kubeconfig().unwrap_or(Path::new("")).display();
    let console = plane.console_url().map(|url| format!(" console={url}")).unwrap_or_default();
    Some(format!("ready {} kubeconfig={kubeconfig}{console}\n", plane.url().unwrap_or_default()))
}

/// Prints the only line on stdout. It does not matter if stdout is closed.
fn print_only_line(line: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Where the control plane keeps its data.
enum DataLocation {
    /// In memory; the folder holds the kubeconfig.
    Memory(TemporaryFolder),
    Folder(PathBuf),
}

impl DataLocation {
    fn kubeconfig(&self) -> PathBuf {
        let folder: &Path = match self {
            Self::Memory(folder) => folder.path(),
            Self::Folder(folder) => folder,
        };
        folder.join("kubeconfig")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_start_that_was_told_to_stop_is_never_ready() {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let builder = ControlPlane::builder().listen(address, folder.path().join("kubeconfig"));
        let (plane, stop) = (builder.start().await.unwrap(), CancellationToken::new());
        let line = ready_line(&plane, &stop).expect("nobody told it to stop");
        assert!(line.starts_with("ready https://127.0.0.1:") && line.ends_with("kubeconfig\n"), "{line}");
        stop.cancel();
        assert_eq!(ready_line(&plane, &stop), None);
        plane.stop().await.unwrap();
    }
}
