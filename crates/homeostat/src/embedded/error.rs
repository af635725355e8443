//! The errors with which a control plane fails to start or to stop.

/// Why the embedded control plane failed.
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
        /// What the system says.
        source: std::io::Error,
    },
    /// A part of it panicked, which is a bug in this crate.
    #[error("a part of the control plane panicked: {0}")]
    Panicked(String),
}
