//! Brings a folder of older contents up to date: every file is written anew under the new names of its keys, with the
//! revisions and times it has, and takes the place of the old one.
//!
//! **Invariant:** a file is replaced at once, when the new one is whole and durable, and says itself which version it is of. A
//! process that ends in between leaves some files of either version; the next start reads both and goes on. The folder was
//! read and found whole before the first file is touched.

use std::collections::HashSet;
use std::io;

use homeostat_core::{Key, Revision};

use super::checkpoint;
use super::files::Files;
use super::format::{self, Contents, Format, KeyMigration};
use super::frame::{Builder, Found, Frame, Kind, find};
use super::log::{ROOM_BYTES, UNFINISHED, checkpoint_name, log_name};
use super::record;
use super::recover::{FolderReader, NeededFiles};
use crate::writer::Change;
use crate::{Entry, Error, Snapshot};

/// Migrates the files, step by step, until all are of the present version.
pub(super) fn run(
    files: &dyn Files,
    needed: &NeededFiles,
    oldest: u32,
    contents: Contents,
) -> Result<(), Error> {
    for version in oldest..contents.version() {
        tracing::info!(folder = files.place(), from = version, to = version + 1, "migrating the data");
        let migration = &contents.migrations[version as usize];
        let start = needed.checkpoint.unwrap_or(Revision::ZERO);
        let mut step = Step { files, version, names: Names { migration, present: HashSet::new() }, start };
        if let Some(revision) = needed.checkpoint {
            step.checkpoint(revision)?;
        }
        for before in &needed.logs {
            step.log(*before)?;
        }
    }
    Ok(())
}

/// From one version to the next.
struct Step<'a> {
    files: &'a dyn Files,
    /// The version to leave.
    version: u32,
    names: Names<'a>,
    /// Where the log begins to count.
    start: Revision,
}

/// Which names are there, as the log goes on.
struct Names<'a> {
    migration: &'a KeyMigration,
    present: HashSet<Key>,
}

impl Step<'_> {
    /// Is the file still of the version to leave?
    fn is_due(&self, name: &str) -> Result<bool, Error> {
        let format = format::of_file(self.files, name)
            .map_err(|error| FolderReader(self.files).cannot_read(name, &error))?;
        Ok(format.is_some_and(|format| format.contents == self.version))
    }

    fn format(&self) -> Format {
        Format::new(self.version + 1)
    }

    fn failed(&self, name: &str, error: &io::Error) -> Error {
        let reason = format!(
            "{name} cannot be brought to the format of this version: {error}; make room or correct the permissions and \
             start again, nothing is lost"
        );
        Error::Open { path: self.files.place(), reason }
    }

    fn checkpoint(&mut self, revision: Revision) -> Result<(), Error> {
        let name = checkpoint_name(revision);
        let loaded = FolderReader(self.files).checkpoint(Some(revision))?;
        let is_due = self.is_due(&name)?;
        let mut entries = loaded.snapshot.into_entries();
        if is_due {
            entries = entries.into_iter().map(|(_, entry)| self.names.renamed(&entry)).collect();
        }
        self.names.present.extend(entries.keys().cloned());
        if !is_due {
            return Ok(());
        }
        let snapshot = Snapshot::new(revision, entries);
        self.replace(&name, |unfinished| {
            checkpoint::write_whole(self.files, unfinished, &snapshot, self.format())
        })
    }

    fn log(&mut self, before: Revision) -> Result<(), Error> {
        let name = log_name(before);
        let reading = FolderReader(self.files);
        let contents = reading.whole(&name)?;
        let is_due = self.is_due(&name)?;
        let (mut builder, mut rewritten, mut at) = (Builder::default(), Vec::new(), 0);
        loop {
            match find(&contents, at) {
                Found::Frame(frame) => {
                    let payload = self
                        .payload(frame, is_due)
                        .ok_or_else(|| reading.damaged(&name, "a record does not decode"))?;
                    builder.start().extend_from_slice(&payload);
                    rewritten.extend_from_slice(builder.finish(frame.kind, frame.revision, frame.time));
                    at += frame.len();
                }
                Found::End => break,
                Found::Damage(what) => return Err(reading.damaged(&name, what)),
            }
        }
        if !is_due {
            return Ok(());
        }
        self.replace(&name, |unfinished| {
            let mut file = self.files.create(unfinished)?;
            file.append(&rewritten)?;
            file.reserve(rewritten.len() as u64 + ROOM_BYTES)?;
            file.sync()
        })
    }

    /// The payload of a record under the new names; the names it adds and removes are noted.
    fn payload(&mut self, frame: Frame<'_>, is_due: bool) -> Option<Vec<u8>> {
        match frame.kind {
            Kind::LogStart => Some(self.format().payload().into_bytes()),
            Kind::Commits => {
                let changes = record::read_changes(frame.payload, Revision::new(frame.revision))?;
                let mut renamed = Vec::with_capacity(changes.len());
                for change in changes {
                    // What a checkpoint has already is read by nobody, and what was there before it is not known.
                    let counts = change.revision > self.start;
                    match (is_due, counts) {
                        (true, true) => self.names.apply(change, &mut renamed),
                        (false, true) => self.names.follow(&change),
                        (_, false) => renamed.push(change),
                    }
                }
                let mut payload = Vec::new();
                record::put_changes(&mut payload, &renamed);
                Some(payload)
            }
            _ => Some(frame.payload.to_vec()),
        }
    }

    /// Puts a new file in the place of the old one.
    fn replace(&self, name: &str, write: impl FnOnce(&str) -> io::Result<()>) -> Result<(), Error> {
        let unfinished = format!("{name}{UNFINISHED}");
        let replaced = write(&unfinished)
            .and_then(|()| self.files.rename(&unfinished, name))
            .and_then(|()| self.files.sync_names());
        replaced.map_err(|error| {
            // On a full disk it would take the room that is left. If it cannot be removed, the next start does.
            let _ = self.files.remove(&unfinished);
            self.failed(name, &error)
        })
    }
}

impl Names<'_> {
    /// An entry under the name it has from now on.
    fn renamed(&self, entry: &std::sync::Arc<Entry>) -> (Key, std::sync::Arc<Entry>) {
        if !(self.migration.moves)(&entry.key, &entry.bytes) {
            return (entry.key.clone(), std::sync::Arc::clone(entry));
        }
        let key = (self.migration.new_name)(&entry.key);
        let entry = Entry::stored(key.clone(), entry.revision, entry.bytes.clone(), entry.digits);
        (key, std::sync::Arc::new(entry))
    }

    /// Takes note of a change that has the new names already.
    fn follow(&mut self, change: &Change) {
        match change.new {
            Some(_) => self.present.insert(change.key.clone()),
            None => self.present.remove(&change.key),
        };
    }

    /// A change under the new names. What moves when it is overwritten leaves its former name.
    fn apply(&mut self, change: Change, out: &mut Vec<Change>) {
        let Change { revision, key, new } = change;
        let moved = (self.migration.new_name)(&key);
        let Some(entry) = new else {
            let key = if self.present.remove(&moved) { moved } else { key };
            self.present.remove(&key);
            out.push(Change { revision, key, new: None });
            return;
        };
        let (name, entry) = self.renamed(&entry);
        let other = if name == key { moved } else { key };
        if self.present.remove(&other) {
            out.push(Change { revision, key: other, new: None });
        }
        self.present.insert(name.clone());
        out.push(Change { revision, key: name, new: Some(entry) });
    }
}
