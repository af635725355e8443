//! Defines the reasons why there is no plan.

/// The reason why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The change is not a list of objects.
    #[error("{0}")]
    Change(String),
    /// The cluster does not show the objects that the plan needs.
    #[error("cannot list {resource}: {message}; a plan needs the right to list it")]
    Unreadable {
        /// The resource.
        resource: String,
        /// The server's message.
        message: String,
    },
    /// The API server refuses the change.
    #[error("the server would refuse {object}: {message}")]
    Refused {
        /// The object.
        object: String,
        /// The server's message.
        message: String,
    },
    /// The operator did not start, or exited on its own.
    #[error("the operator ended during the plan: {0}")]
    OperatorEnded(String),
    /// The reconcilers never stop writing.
    #[error("{0}")]
    NotAtRest(String),
    /// The in-memory control plane failed, which is a bug in this crate.
    #[error("the control plane in memory failed: {0}")]
    ControlPlane(String),
    /// The plan panicked.
    #[error("the plan panicked: {0}")]
    Panicked(String),
    /// More would be deleted than allowed.
    #[error("{deletes} would be deleted or replaced, and --max-deletes allows {allowed}")]
    TooManyDeletes {
        /// The number of deletions, in words.
        deletes: String,
        /// The limit.
        allowed: usize,
    },
}
