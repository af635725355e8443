//! The programs under test: the server, the operators of `examples/`, and kubectl.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(50);

/// Checks repeatedly until there is a result.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "other processes live in real time, and no runtime is here to wait with"
)]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
        if let Some(seen) = look() {
            return seen;
        }
        sleep(LOOK);
    }
    panic!("not within a minute: {what}");
}

/// Returns a program built next to this test; builds it if it does not exist.
fn program(place: &str, build: &[&str]) -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let program = folder.join(place);
    if !program.exists() {
        let release: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let outcome = Command::new(cargo).arg("build").args(build).args(release).status().unwrap();
        assert!(outcome.success(), "{place} does not build");
    }
    program
}

/// A running program; killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let output = File::options().create(true).append(true).open(&log).unwrap();
        command.stderr(output);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Returns what it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Stops it cleanly, and waits until it has ended.
    pub(crate) fn terminate(&mut self) {
        self.signal("TERM");
        self.child.wait().unwrap();
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Suspends it, like a sleeping laptop or a frozen machine.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    /// Resumes it.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    /// Returns whether it is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An operator of `examples/`.
pub(crate) fn operator(folder: &Path, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Program {
    let mut command = Command::new(example(name));
    let log = folder.join(format!(
        "{name}-{}.log",
        variables.iter().map(|(_, value)| value.replace('/', "-")).collect::<String>()
    ));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST");
    command.envs(variables.iter().copied());
    Program::start(command, log)
}

/// Returns where an example was built.
pub(crate) fn example(name: &str) -> PathBuf {
    program(&format!("examples/{name}"), &["--package", "homeostat", "--example", name])
}

/// Returns where the program `homeostat` was built.
pub(crate) fn homeostat() -> PathBuf {
    program("homeostat", &["--package", "homeostat-cli"])
}

/// `homeostat up`.
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) kubeconfig: PathBuf,
    address: String,
    folder: PathBuf,
}

impl Server {
    /// Starts it in this folder, on any free port.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::listen(folder, "127.0.0.1:0", &[])
    }

    /// Starts it with a node that runs this program for containers of the image.
    pub(crate) fn with_node(folder: &Path, image: &str, program: &Path) -> Self {
        Self::listen(folder, "127.0.0.1:0", &["--node", "--image", &format!("{image}={}", program.display())])
    }

    fn listen(folder: &Path, address: &str, more: &[&str]) -> Self {
        let mut command = Command::new(homeostat());
        command.args(["up", "--data-dir", "data", "--listen", address]).args(more);
        command.current_dir(folder).stdout(Stdio::piped());
        let mut program = Program::start(command, folder.join("server.log"));
        let mut line = String::new();
        BufReader::new(program.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("ready https://").unwrap_or_else(|| panic!("the server said {line:?}"));
        let (address, rest) = url.trim().split_once(' ').unwrap();
        let kubeconfig = folder.join(rest.strip_prefix("kubeconfig=").unwrap());
        Self { program, kubeconfig, address: address.to_owned(), folder: folder.to_owned() }
    }

    /// Returns the control plane inside an operator.
    pub(crate) fn of_operator(program: Program, folder: &Path, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig, address: String::new(), folder: folder.to_owned() }
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Restarts it after it was killed, with its objects and at its address.
    pub(crate) fn restart(&mut self) {
        let again = Self::listen(&self.folder, &self.address, &[]);
        *self = again;
    }

    /// Returns kubectl as the administrator of this server.
    pub(crate) fn administrator(&self) -> Kubectl {
        Kubectl { kubeconfig: self.kubeconfig.clone(), folder: self.folder.clone() }
    }

    /// Returns what kubectl prints; `None` if it fails.
    pub(crate) fn try_kubectl(&self, arguments: &[&str], input: &str) -> Option<String> {
        self.administrator().attempt(arguments, input)
    }

    /// Returns what kubectl prints.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        self.administrator().run(arguments, input)
    }
}

/// kubectl with a kubeconfig; its errors go to a file in the folder.
pub(crate) struct Kubectl {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Kubectl {
    /// Returns what it prints; `None` if it fails.
    pub(crate) fn attempt(&self, arguments: &[&str], input: &str) -> Option<String> {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(self.folder.join("kubectl.log")).unwrap())
            .spawn()
            .expect("kubectl is installed");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// Returns what it prints.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> String {
        self.attempt(arguments, input).unwrap_or_else(|| {
            let said = std::fs::read_to_string(self.folder.join("kubectl.log")).unwrap_or_default();
            panic!("kubectl {arguments:?} failed:\n{said}")
        })
    }
}
