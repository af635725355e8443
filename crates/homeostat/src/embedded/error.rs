//! Why a control plane does not start or did not end well.

/// An error of the embedded control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be opened, or refused a write.
    #[error(transparent)]
    Store(#[from] homeostat_store::Error),
    /// The address cannot be had, or the credentials not be kept.
    #[error(transparent)]
    Serve(#[from] homeostat_apiserver::serve::Error),
    /// The workload controllers ended.
    #[error(transparent)]
    Workloads(#[from] homeostat_runtime::Error),
    /// The node cannot run Pods.
    #[error(transparent)]
    Node(#[from] homeostat_workloads::node::Error),
    /// A part of it panicked: a bug of ours.
    #[error("a part of the control plane failed: {0}")]
    Panicked(String),
}
