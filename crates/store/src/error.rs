//! Defines the store's errors, with one variant per possible reaction of the caller.

use homeostat_core::{Key, Revision};

/// The reason the store rejected a request or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An expectation did not hold; the caller should read again and decide again.
    #[error("{key} is at revision {actual}, not as expected")]
    Conflict {
        /// The key whose expectation failed.
        key: Key,
        /// Its current revision; zero if it is absent.
        actual: Revision,
    },
    /// The revision is older than the history; the caller should start from the present.
    #[error("revision {asked} was compacted, history starts after {oldest}")]
    Compacted {
        /// The requested revision.
        asked: Revision,
        /// The oldest revision from which a watch may start.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {asked} is in the future, the store is at {current}")]
    Future {
        /// The requested revision.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The disk rejected a write; the store serves only reads until it is restarted.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// What happened, and what to do.
        reason: String,
    },
    /// Too many writes are waiting; try again shortly.
    #[error("too many writes are waiting")]
    Busy,
    /// The key could not be read back; choose another name.
    #[error("{key} cannot be stored: a part of its name contains a slash")]
    BadKey {
        /// The key.
        key: Key,
    },
    /// The value is larger than the store accepts; make it smaller.
    #[error("the value is too large")]
    TooLarge,
    /// There is no room for more; delete something.
    #[error("the store is full")]
    Full,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The data on disk cannot be trusted; nothing was changed.
    #[error("the data in {path} is damaged: {reason}")]
    Corrupt {
        /// The folder.
        path: String,
        /// What was found, and what to do.
        reason: String,
    },
    /// The folder was written by a newer version; use that version, or choose another folder. Nothing was changed.
    #[error(
        "the data in {path} was written by a newer version of this program (format {found}, and this version knows {known}): \
         use the newer version, or choose another folder to start empty; nothing was changed"
    )]
    Newer {
        /// The folder.
        path: String,
        /// Its format.
        found: String,
        /// The format that this version writes.
        known: String,
    },
    /// The folder cannot be opened.
    #[error("cannot open the store in {path}: {reason}")]
    Open {
        /// The folder.
        path: String,
        /// What happened, and what to do.
        reason: String,
    },
}
