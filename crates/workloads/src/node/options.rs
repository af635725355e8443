//! The options of a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The back-off of containers that end again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartBackoff {
    /// Before the second restart; each further one waits twice as long.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
    /// A run of this length is a good one: the next restart is at once again.
    pub forgiven_after: Duration,
}

impl Default for RestartBackoff {
    /// Kubernetes' own: 10 s doubling up to 5 min, forgiven after 10 min.
    fn default() -> Self {
        Self {
            base: Duration::from_secs(10),
            max: Duration::from_secs(300),
            forgiven_after: Duration::from_secs(600),
        }
    }
}

/// How a node runs Pods.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) folder: Option<PathBuf>,
    pub(super) supervisor: Option<PathBuf>,
    pub(super) images: BTreeMap<String, Vec<String>>,
    pub(super) backoff: RestartBackoff,
    pub(super) outlives_server: Duration,
    pub(super) is_ephemeral: bool,
    pub(super) uses_namespaces: bool,
    pub(super) server: Option<SocketAddr>,
    pub(super) account: Option<String>,
    pub(super) hidden: Vec<PathBuf>,
}

/// How long Pods go on after a server that was killed: enough to start it again, short enough to forget it.
const OUTLIVES_SERVER: Duration = Duration::from_secs(30);

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: "local".to_owned(),
            count: 1,
            folder: None,
            supervisor: None,
            images: BTreeMap::new(),
            backoff: RestartBackoff::default(),
            outlives_server: OUTLIVES_SERVER,
            is_ephemeral: false,
            uses_namespaces: true,
            server: None,
            account: None,
            hidden: Vec::new(),
        }
    }
}

impl NodeOptions {
    /// A node named `local`. Its supervisor is this program, started again: `main` must begin with
    /// [`run_node_helper`](super::run_node_helper), or [`supervisor`](Self::supervisor) name another program.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of the Node object.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Pretends to be this many Nodes, named `NAME`, `NAME-2` and so on: for things that need several, such as DaemonSets and
    /// drains. All of them are this machine. None is one.
    #[must_use]
    pub fn count(self, count: u32) -> Self {
        Self { count: count.max(1), ..self }
    }

    /// Where the node keeps logs, volumes and records; it must be its own.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), ..self }
    }

    /// Another program that acts as the supervisor.
    #[must_use]
    pub fn supervisor(self, program: impl Into<PathBuf>) -> Self {
        Self { supervisor: Some(program.into()), ..self }
    }

    /// Containers of this image without a command run this command, followed by their arguments.
    #[must_use]
    pub fn image(mut self, name: impl Into<String>, command: impl IntoIterator<Item: Into<String>>) -> Self {
        self.images.insert(name.into(), command.into_iter().map(Into::into).collect());
        self
    }

    /// Another back-off of containers that end again and again.
    #[must_use]
    pub fn backoff(self, backoff: RestartBackoff) -> Self {
        Self { backoff, ..self }
    }

    /// How long processes go on after a server that was killed, waiting for it to come back (30 s by default).
    #[must_use]
    pub fn outlives_server(self, time: Duration) -> Self {
        Self { outlives_server: time, ..self }
    }

    /// Nothing is to be found again: the processes end with the server however it ends, and the folder goes with them.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        Self { is_ephemeral: true, outlives_server: Duration::ZERO, ..self }
    }

    /// Runs all Pods as this user of the machine, by name or number, with the rights it has here. Without it a node that is
    /// root gives each Pod a user of its own, and one that is not runs Pods only where they are kept away from what the
    /// server keeps. Only root can name another user than its own.
    #[must_use]
    pub fn run_as(self, user: impl Into<String>) -> Self {
        Self { account: Some(user.into()), ..self }
    }

    /// A folder or file that Pods shall not see, besides the node's own folder: what the server keeps, and its kubeconfig.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Never uses namespaces: volumes are reached by links and variables only, and no Pod becomes a user that the machine
    /// knows.
    #[must_use]
    pub fn without_namespaces(self) -> Self {
        Self { uses_namespaces: false, ..self }
    }

    /// Where processes of this machine reach the server. Pods then find it and their account as in a cluster; without it
    /// they are told nothing.
    #[must_use]
    pub fn server(self, address: SocketAddr) -> Self {
        Self { server: Some(address), ..self }
    }

    /// The names of the Node objects.
    pub fn names(&self) -> Vec<String> {
        let others = (2..=self.count).map(|number| format!("{}-{number}", self.name));
        [self.name.clone()].into_iter().chain(others).collect()
    }

    /// Is this one of the Node objects?
    pub(super) fn has_name(&self, name: &str) -> bool {
        let number =
            name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-')?.parse::<u32>().ok());
        // One number has several spellings.
        let is_further =
            |number: u32| (2..=self.count).contains(&number) && name.ends_with(&format!("-{number}"));
        name == self.name || number.is_some_and(is_further)
    }

    /// The folder, if one was given.
    pub fn given_folder(&self) -> Option<&std::path::Path> {
        self.folder.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_as_it_is_registered() {
        let options = NodeOptions::new().name("n").count(12);
        assert!(options.names().iter().all(|name| options.has_name(name)));
        for other in ["", "n-", "n-0", "n-1", "n-02", "n-+2", "n-13", "n2", "n-2-2", "m"] {
            assert!(!options.has_name(other), "{other}");
        }
    }
}
