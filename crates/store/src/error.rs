//! What can go wrong, one variant per thing a caller can do about it.

use homeostat_core::{Key, Revision};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An expectation did not hold; read again and decide anew.
    #[error("{key} is at revision {actual}, not as expected")]
    Conflict {
        /// The key whose expectation failed.
        key: Key,
        /// Its current revision; zero when absent.
        actual: Revision,
    },
    /// The revision is older than the history kept; start from the present.
    #[error("revision {asked} was compacted, history starts after {oldest}")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// The oldest revision a watch may start from.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {asked} is in the future, the store is at {current}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The disk refused a write; the store answers reads only until it is restarted.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// What happened and what to do.
        reason: String,
    },
    /// Too many writes wait; try again shortly.
    #[error("too many writes are waiting")]
    Busy,
    /// The key could not be read back; choose another name.
    #[error("{key} cannot be stored: a part of its name contains a slash")]
    BadKey {
        /// The key.
        key: Key,
    },
    /// The value is larger than the store takes; make it smaller.
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
    /// The folder was written by a newer version; run that one, or take another folder. Nothing was changed.
    #[error(
        "the data in {path} was written by a newer version of this program (format {found}, and this version knows {known}): \
         use the newer version, or choose another folder to start empty; nothing was changed"
    )]
    Newer {
        /// The folder.
        path: String,
        /// What it is written in.
        found: String,
        /// What this version writes.
        known: String,
    },
    /// The folder cannot be opened.
    #[error("cannot open the store in {path}: {reason}")]
    Open {
        /// The folder.
        path: String,
        /// What happened and what to do.
        reason: String,
    },
}
