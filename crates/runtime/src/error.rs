//! Defines the runtime's own errors, with one variant for each way to handle them.

use std::fmt;

use homeostat_core::Key;
use kube::core::Status;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A runtime error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused the request. `code` and `reason` say why.
    #[error("{} {}: {} ({})", .verb, .target, .status.message, .status.code)]
    Api {
        /// The operation that was attempted.
        verb: &'static str,
        /// Its target.
        target: String,
        /// The server's response.
        status: Box<Status>,
    },
    /// The API server could not be reached, or its response could not be read.
    #[error("{verb} {target} got no answer")]
    Transport {
        /// The operation that was attempted.
        verb: &'static str,
        /// Its target.
        target: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The reconciler read a kind that no controller declared.
    #[error("{resource} is not watched: declare it with owns, watches, references or reads")]
    NotDeclared {
        /// `group/resource`.
        resource: String,
    },
    /// The reconciler read a whole object although only the metadata of its kind is kept.
    #[error(
        "only the metadata of {resource} is kept: read it as Metadata<{kind}>, or remove metadata_only::<{kind}>() from \
         the controller"
    )]
    MetadataOnly {
        /// `group/resource`.
        resource: String,
        /// The kind.
        kind: String,
    },
    /// The reconciler read a kind whose watch has not yet seen the whole state.
    #[error("the cache of {resource} is not complete: {reason}")]
    NotSynced {
        /// `group/resource`.
        resource: String,
        /// The state of its watch.
        reason: String,
    },
    /// The operator lost the lease under which this reconcile began; nothing was sent.
    #[error("{target} was not written: this operator no longer holds its lease")]
    Fenced {
        /// The object that would have been written.
        target: Key,
    },
    /// The operator lost the lease under which the reconcile that sent this request began; the request was not sent.
    #[error("{request} was not sent: this operator no longer holds its lease")]
    FencedRequest {
        /// Method and path.
        request: String,
    },
    /// Someone else changed the field that we were about to write after we had read it. Their change was kept.
    #[error(
        "{target} was not written: somebody else changed the same field after it was read; the next run reads it again"
    )]
    Overtaken {
        /// The object that would have been written.
        target: Key,
    },
    /// The parent that a child reports to is gone, or another object has taken its name.
    #[error("{parent} is gone, so nothing can be reported to it")]
    ParentGone {
        /// The parent.
        parent: Key,
    },
    /// The server stored a report without some of its fields, or without any.
    #[error(
        "{parent} does not keep {field}: the schema of its kind has no place for it; add it to its status, as in \
         `children: BTreeMap<String, …>`"
    )]
    ReportDropped {
        /// The parent.
        parent: Key,
        /// The first field that is missing, starting at `status`.
        field: String,
    },
    /// An object with this name exists but is not ours; it was left alone.
    #[error("{target} exists and is not ours ({holder}): choose another name, delete it, or adopt it")]
    NotOurs {
        /// The object.
        target: Key,
        /// What is known about its owner.
        holder: String,
    },
    /// An object to be written is incomplete.
    #[error("{0}")]
    Invalid(String),
    /// The operator does not understand an argument on its command line.
    #[error("{0}")]
    Usage(String),
    /// The object to explain does not exist, or may not be read.
    #[error("{what}")]
    NotThere {
        /// Which object, and who deleted it if that is known.
        what: String,
    },
    /// No cluster is configured.
    #[error("no cluster: {0}")]
    NoCluster(String),
    /// The operator cannot start, because one of its startup activities failed.
    #[error("startup {id} failed: {error}")]
    Startup {
        /// The activity's id.
        id: String,
        /// Its error message.
        error: String,
    },
    /// A task of the runtime itself panicked, and the operator was stopped.
    #[error("the operator was stopped by a bug: {0}")]
    Broken(String),
    /// A local resource failed: an address in use, a signal handler.
    #[error("{what}")]
    Local {
        /// The operation that was attempted.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// Formats it for people, with its causes, because a `main` that returns it prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", chain(self))
    }
}

/// Returns an error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some libraries repeat the cause in their own message.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

impl Error {
    /// Returns the HTTP code with which the server refused.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// Returns whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns whether no server responded: there was no response at all, or one from a proxy that could not reach the
    /// server.
    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self, Self::Transport { .. }) || matches!(self.code(), Some(502..=504))
    }

    /// Returns whether someone else wrote in the meantime, or the name is taken.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Returns whether the namespace is gone, or accepts no new objects because it is being deleted. The object that
    /// wanted to create something there is deleted with it.
    pub fn is_namespace_ending(&self) -> bool {
        let Self::Api { status, .. } = self else { return false };
        let Some(details) = &status.details else { return false };
        let is_ending = || details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
        (status.code == 403 && is_ending()) || (status.code == 404 && details.kind == "namespaces")
    }

    /// Returns whether this object is gone.
    pub(crate) fn is_loss_of(&self, key: &Key) -> bool {
        matches!(self, Self::Api { target, .. } if self.is_not_found() && target == key.as_str())
    }
}
