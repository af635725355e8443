//! Defines the layout of the node's folder.
//!
//! ```text
//! keeper.lock keeper-3.sock               the supervisor's; named as in earlier releases, so that one that still runs is found
//! streams-3.sock                          the supervisor's, for connections to containers
//! supervisor.log                          the output of the supervisor and its guard
//! pods/UID                                its group is the Pod's, which determines the Pod's users (see `id_blocks`)
//! pods/UID/work                           the working directory of the Pod's processes
//! pods/UID/volumes/VOLUME                 its volumes
//! pods/UID/homes/USER                     the working directory of one user, where its containers have several
//! pods/UID/containers/NAME/runs.json      the last two runs
//! pods/UID/containers/NAME/ATTEMPT.log    the output of each of them
//! pods/UID/containers/NAME/termination-log  the termination message of the current one
//! claims/VOLUME                           a PersistentVolume of the node, which outlives Pods
//! ```

use std::path::{Path, PathBuf};

use super::protocol::ContainerKey;

/// A node's folder. Only its owner can access it: environments and volumes contain secrets.
#[derive(Clone, Debug)]
pub(crate) struct NodeLayout(PathBuf);

impl NodeLayout {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("keeper.lock")
    }

    /// Returns the socket's name, which contains the protocol's version. A supervisor from a different release, which
    /// would ignore requests that it does not know, is therefore not found, and the new one waits until it has exited.
    pub(crate) fn socket_name() -> &'static str {
        "keeper-3.sock"
    }

    /// Returns the name of the socket for connections to containers.
    pub(crate) fn streams_socket_name() -> &'static str {
        "streams-3.sock"
    }

    pub(crate) fn supervisor_log(&self) -> PathBuf {
        self.0.join("supervisor.log")
    }

    pub(crate) fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    /// Returns the uids of Pods that have a folder.
    pub(crate) fn pods_with_files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.pods()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    pub(crate) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    pub(crate) fn work(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("work")
    }

    pub(crate) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    pub(crate) fn claims(&self) -> PathBuf {
        self.0.join("claims")
    }

    /// Returns the folder of a PersistentVolume.
    pub(crate) fn claim(&self, volume: &str) -> PathBuf {
        self.claims().join(volume)
    }

    /// Returns the home of one of several users.
    pub(crate) fn home(&self, uid: &str, user: u32) -> PathBuf {
        self.pod(uid).join("homes").join(user.to_string())
    }

    pub(crate) fn container(&self, id: &ContainerKey) -> PathBuf {
        self.pod(&id.pod).join("containers").join(&id.container)
    }

    pub(crate) fn runs(&self, id: &ContainerKey) -> PathBuf {
        self.container(id).join("runs.json")
    }

    pub(crate) fn message(&self, id: &ContainerKey) -> PathBuf {
        self.container(id).join("termination-log")
    }

    pub(crate) fn log(&self, id: &ContainerKey, attempt: u32) -> PathBuf {
        self.container(id).join(format!("{attempt}.log"))
    }
}
