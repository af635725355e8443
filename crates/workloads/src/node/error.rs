//! Defines the errors that occur when a node fails to start or stop.

use std::path::PathBuf;

/// The reason a node failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node's folder cannot be used.
    #[error("cannot use the node's folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// There is no supervisor, and none can be started.
    #[error("cannot start the supervisor of the node's processes: {0}")]
    Supervisor(String),
    /// Pods cannot run as the named user.
    #[error("cannot run Pods as {name}: {why}")]
    Account {
        /// The name that was given.
        name: String,
        /// The reason.
        why: String,
    },
    /// The controllers failed.
    #[error(transparent)]
    Runtime(#[from] homeostat_runtime::Error),
}
