//! A file that marks a folder as in use and holds the newest acknowledged revision.
//!
//! It is written after every batch, which costs a microsecond, and synced only on close. After a stop or a crash of the
//! process it is exact; after a power cut it is a few seconds old.
//!
//! **Invariant:** the revision is never newer than the newest synced one. A log that ends before it has therefore lost
//! something, and anything there that looks like a torn write or unused space is damage.

use std::io;

use homeostat_core::Revision;

use super::files::{File, Files};
use super::frame::{FrameBuilder, FrameKind, FrameResult, find_frame};

/// The file's name. A folder that has this file but no log is damaged, not new.
pub(super) const USED: &str = "used";

/// The file, open for writing.
#[derive(Debug)]
pub(super) struct AcknowledgedRevision {
    file: Box<dyn File>,
    builder: FrameBuilder,
    newest: Revision,
}

impl AcknowledgedRevision {
    /// Opens the file in a folder that contains these files, or creates it.
    pub(super) fn open(files: &dyn Files, names: &[String]) -> io::Result<Self> {
        let file = if names.iter().any(|name| name == USED) {
            files.reopen(USED, 0)?
        } else {
            let mut file = files.create(USED)?;
            file.sync()?;
            files.sync_names()?;
            file
        };
        Ok(Self { file, builder: FrameBuilder::default(), newest: Revision::ZERO })
    }

    /// Records that `revision` and everything before it were synced and are about to be acknowledged.
    pub(super) fn note(&mut self, revision: Revision) {
        if revision == self.newest {
            return;
        }
        self.newest = revision;
        self.builder.start();
        // If this fails, the older revision stays in the file, and it is still true.
        let _ = self.file.rewrite(self.builder.finish(FrameKind::Acknowledged, revision.get(), 0));
    }

    /// Makes the file durable; nothing is written afterwards.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Returns the revision in these contents; zero if there is none, as in folders written by earlier versions.
pub(super) fn read(contents: &[u8]) -> Revision {
    match find_frame(contents, 0) {
        FrameResult::Frame(frame) if frame.kind == FrameKind::Acknowledged => Revision::new(frame.revision),
        _ => Revision::ZERO,
    }
}
