//! Why a node does not start or did not end well.

use std::path::PathBuf;

/// An error of a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be used.
    #[error("cannot use the node's folder {}", folder.display())]
    Folder {
        /// Which one.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no supervisor and none can be started.
    #[error("cannot start the supervisor of the node's processes: {0}")]
    Supervisor(String),
    /// Pods cannot run as the user that was named.
    #[error("cannot run Pods as {name}: {why}")]
    Account {
        /// Who was named.
        name: String,
        /// Why not.
        why: String,
    },
    /// The controllers ended with an error.
    #[error(transparent)]
    Runtime(#[from] homeostat_runtime::Error),
}
