//! Runs the server as users do: the `homeostat` binary, in an empty folder, over TLS.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::time::Instant;

/// The unit of times in `/proc`, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    folder: PathBuf,
    kubeconfig: PathBuf,
    /// Its address.
    pub(crate) url: String,
    /// The time from the start of the process to its ready line.
    pub(crate) started_in: Duration,
}

impl ServerProcess {
    /// Builds the binary if necessary and starts it.
    pub(crate) fn start() -> Result<Self, Box<dyn std::error::Error>> {
        Self::start_with(&[])
    }

    /// Starts it with additional arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Result<Self, Box<dyn std::error::Error>> {
        let binary = binary()?;
        let folder = std::env::temp_dir().join(format!("homeostat-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let start = Instant::now();
        let mut child = Command::new(binary)
            .args(["up", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the server's output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let started_in = start.elapsed();
        let mut words = line.split_whitespace().skip(1);
        let url = words.next().ok_or("the server did not become ready")?.to_owned();
        let kubeconfig = words.next().and_then(|word| word.strip_prefix("kubeconfig="));
        let kubeconfig = folder.join(kubeconfig.ok_or("the ready line names a kubeconfig")?);
        Ok(Self { child, folder, kubeconfig, url, started_in })
    }

    /// Returns a client with the credentials that the server wrote.
    pub(crate) async fn client(&self) -> Result<kube::Client, Box<dyn std::error::Error>> {
        client_of(&self.kubeconfig).await
    }

    /// Returns the path of the kubeconfig it wrote.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the process's ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its resident memory.
    pub(crate) fn memory_mb(&self) -> Result<f64, Box<dyn std::error::Error>> {
        Ok(resident_kilobytes(self.child.id())? / 1024.0)
    }
}

/// Returns a client for the server of this kubeconfig.
pub(crate) async fn client_of(kubeconfig: &Path) -> Result<kube::Client, Box<dyn std::error::Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Returns the resident memory of a process, as reported by the kernel.
pub(crate) fn resident_kilobytes(process: u32) -> Result<f64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel says VmRSS")?;
    Ok(line.split_whitespace().next().ok_or("a number")?.parse::<f64>()?)
}

/// Returns the processor time that a process has used so far, in user and system mode. `process` is its ID, or `self`.
pub(crate) fn processor_seconds_of(process: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let mut ticks = 0.0;
    // User time and system time, by their position after the program's name.
    for at in [11, 12] {
        let field = fields.get(at).and_then(|field| field.parse::<f64>().ok());
        ticks += field.ok_or("/proc/PID/stat has another form")?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only if the process or the folder is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The variable that names a program to measure instead of building one, to compare two builds.
const PROGRAM_VARIABLE: &str = "HOMEOSTAT_BENCH_PROGRAM";

/// Returns the release binary next to this one, and builds it if it is missing or outdated.
fn binary() -> Result<PathBuf, Box<dyn std::error::Error>> {
    if let Some(program) = std::env::var_os(PROGRAM_VARIABLE) {
        return Ok(program.into());
    }
    eprintln!("building the server");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "--bin", "homeostat"]).status()?;
    if !built.success() {
        return Err("cannot build the server".into());
    }
    let here = std::env::current_exe()?;
    Ok(here.with_file_name("homeostat"))
}
