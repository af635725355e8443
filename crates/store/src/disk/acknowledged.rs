//! The note that a folder is used, and how far: the newest revision that anybody was told of.
//!
//! It is written after every batch and synced only at the end, which costs a microsecond. After a stop or a crash of the
//! process it is exact, after a power cut some seconds old.
//!
//! **Invariant:** it is never ahead of what was synced. So a log that ends before it has lost something, and what looks
//! like a torn write or unused room there is damage.

use std::io;

use homeostat_core::Revision;

use super::files::{File, Files};
use super::frame::{Builder, Found, Kind, find};

/// The name of the file. A folder that has it and no log is damaged, not new.
pub(super) const USED: &str = "used";

/// The note, open for writing.
#[derive(Debug)]
pub(super) struct Acknowledged {
    file: Box<dyn File>,
    builder: Builder,
    newest: Revision,
}

impl Acknowledged {
    /// Opens the note in a folder with files of these names, or makes it.
    pub(super) fn open(files: &dyn Files, names: &[String]) -> io::Result<Self> {
        let file = if names.iter().any(|name| name == USED) {
            files.reopen(USED, 0)?
        } else {
            let mut file = files.create(USED)?;
            file.sync()?;
            files.sync_names()?;
            file
        };
        Ok(Self { file, builder: Builder::default(), newest: Revision::ZERO })
    }

    /// Notes that `revision` and all before it were synced, and somebody will hear of it.
    pub(super) fn note(&mut self, revision: Revision) {
        if revision == self.newest {
            return;
        }
        self.newest = revision;
        self.builder.start();
        // If it fails, an older note stays, which is as true.
        let _ = self.file.rewrite(self.builder.finish(Kind::Acknowledged, revision.get(), 0));
    }

    /// Makes the note durable: nothing follows it.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The revision noted in these contents; zero when there is none, as in folders of earlier versions.
pub(super) fn read(contents: &[u8]) -> Revision {
    match find(contents, 0) {
        Found::Frame(frame) if frame.kind == Kind::Acknowledged => Revision::new(frame.revision),
        _ => Revision::ZERO,
    }
}
