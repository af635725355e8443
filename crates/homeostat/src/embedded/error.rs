//! Defines the errors that occur when a control plane fails to start or stop.

/// The reason the embedded control plane failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be opened, or refused a write.
    #[error(transparent)]
    Store(#[from] homeostat_store::Error),
    /// The server cannot listen on the address, or cannot store the credentials.
    #[error(transparent)]
    Serve(#[from] homeostat_apiserver::serve::Error),
    /// The workload controllers failed.
    #[error(transparent)]
    Workloads(#[from] homeostat_runtime::Error),
    /// The node cannot run Pods.
    #[error(transparent)]
    Node(#[from] homeostat_workloads::node::Error),
    /// The console cannot listen on its address.
    #[error("cannot serve the console on {address}: {source}")]
    Console {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file or folder of a backup cannot be read or written.
    #[error("{}: {}", path.display(), describe_file_error(source))]
    File {
        /// The file or folder.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A backup was restored into the folder only in part, or is still being restored.
    #[error(
        "{0}: a restore into this folder has not finished, so objects are missing; wait for it or, if it was \
         interrupted, run homeostat restore FILE --data-dir {0} again, or remove the folder to start empty",
        folder.display()
    )]
    UnfinishedRestore {
        /// The data folder.
        folder: std::path::PathBuf,
    },
    /// A part of the control plane panicked, which is a bug in this crate.
    #[error("a part of the control plane panicked: {0}")]
    Panicked(String),
}

impl Error {
    pub(super) fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

/// Describes what happened and, if known, what to do about it.
fn describe_file_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => "it exists already; choose another name".to_owned(),
        std::io::ErrorKind::DirectoryNotEmpty => {
            "the folder is not empty; stop its server and move it away, or choose another folder".to_owned()
        }
        _ => error.to_string(),
    }
}
