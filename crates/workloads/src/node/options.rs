//! Defines the options of a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The backoff of containers that keep exiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartBackoff {
    /// The wait before the second restart; each further one waits twice as long.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
    /// After a run of at least this length, the next restart is immediate again.
    pub forgiven_after: Duration,
}

impl Default for RestartBackoff {
    /// Returns the same backoff as in Kubernetes: 10 s, doubling up to 5 min, reset after 10 min.
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

/// How long Pods outlive a killed server: long enough to restart it, short enough that no user forgets them.
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
    /// Creates the options of a node named `local`. Its supervisor is this program, started again: either `main` begins
    /// with [`run_node_helper`](super::run_node_helper), or [`supervisor`](Self::supervisor) names a different program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the Node object.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Registers this machine as this many Nodes, named `NAME`, `NAME-2` and so on, for setups that need several, such
    /// as DaemonSets and drains. Zero means one.
    #[must_use]
    pub fn count(self, count: u32) -> Self {
        Self { count: count.max(1), ..self }
    }

    /// Sets the folder for logs, volumes and records; nothing else may use it.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), ..self }
    }

    /// Uses a different program as the supervisor.
    #[must_use]
    pub fn supervisor(self, program: impl Into<PathBuf>) -> Self {
        Self { supervisor: Some(program.into()), ..self }
    }

    /// Sets the command for containers that use this image and have no command; their arguments follow it.
    #[must_use]
    pub fn image(mut self, name: impl Into<String>, command: impl IntoIterator<Item: Into<String>>) -> Self {
        self.images.insert(name.into(), command.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the backoff of containers that keep exiting.
    #[must_use]
    pub fn backoff(self, backoff: RestartBackoff) -> Self {
        Self { backoff, ..self }
    }

    /// Sets how long processes outlive a killed server and wait for it to come back (30 s by default).
    #[must_use]
    pub fn outlives_server(self, time: Duration) -> Self {
        Self { outlives_server: time, ..self }
    }

    /// Keeps nothing: the processes exit together with the server, no matter how it exits, and the folder is removed
    /// with them.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        Self { is_ephemeral: true, outlives_server: Duration::ZERO, ..self }
    }

    /// Runs all Pods as this user of the machine, given by name or number, with that user's permissions. Otherwise, a
    /// node that is root gives each Pod its own user, and a node that is not root runs Pods only if they can be kept
    /// away from the server's data. Only root can name a user other than its own.
    #[must_use]
    pub fn run_as(self, user: impl Into<String>) -> Self {
        Self { account: Some(user.into()), ..self }
    }

    /// Hides a folder or file from Pods in addition to the node's own folder, such as the server's data and its
    /// kubeconfig.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Never uses namespaces: volumes are reached only through links and variables, and no Pod runs as a user known to
    /// the machine.
    #[must_use]
    pub fn without_namespaces(self) -> Self {
        Self { uses_namespaces: false, ..self }
    }

    /// Sets the address at which processes on this machine reach the server. Pods then find the server and their
    /// account as in a cluster; without it, they find neither.
    #[must_use]
    pub fn server(self, address: SocketAddr) -> Self {
        Self { server: Some(address), ..self }
    }

    /// Returns the names of the Node objects.
    pub fn names(&self) -> Vec<String> {
        let others = (2..=self.count).map(|number| format!("{}-{number}", self.name));
        [self.name.clone()].into_iter().chain(others).collect()
    }

    /// Returns whether this is the name of one of the Node objects.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let number =
            name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-')?.parse::<u32>().ok());
        // The names are compared as text, because a number can be written in several ways.
        let is_further =
            |number: u32| (2..=self.count).contains(&number) && name.ends_with(&format!("-{number}"));
        name == self.name || number.is_some_and(is_further)
    }

    /// Returns the folder, if one was given.
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
