//! Migrates a folder with older contents: rewrites every file with the new keys or values, keeping its revisions and
//! times, and replaces the old file. The server knows which formats existed: `apiserver/src/data_migrations.rs`.
//!
//! **Invariant:** a file is replaced atomically, once the new one is complete and durable, and it records its own
//! version. A process that exits in between leaves files in both versions; the next start reads both and continues. The
//! folder has been read and found intact before the first file is touched.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use homeostat_core::{Key, Revision};

use super::checkpoint;
use super::files::Files;
use super::format::{self, ContentFormat, FileFormat, KeyMigration, Migration};
use super::frame::{Frame, FrameBuilder, FrameKind, FrameResult, find_frame};
use super::payload;
use super::recover::{FolderReader, NeededFiles};
use super::write_ahead_log::{ROOM_BYTES, UNFINISHED, checkpoint_name, log_name};
use crate::writer::Change;
use crate::{Entry, Error, Snapshot};

/// Migrates the files, step by step, until all have the current version.
pub(super) fn run(
    files: &dyn Files,
    needed: &NeededFiles,
    oldest: u32,
    contents: ContentFormat,
) -> Result<(), Error> {
    for version in oldest..contents.version() {
        tracing::info!(folder = files.place(), from = version, to = version + 1, "migrating the data");
        let migration = &contents.migrations[version as usize];
        let start = needed.checkpoint.unwrap_or(Revision::ZERO);
        let mut step = MigrationStep {
            files,
            version,
            replayed: ReplayedChanges { migration, present: HashSet::new() },
            start,
        };
        if let Some(revision) = needed.checkpoint {
            step.checkpoint(revision)?;
        }
        for before in &needed.logs {
            step.log(*before)?;
        }
    }
    Ok(())
}

/// A migration from one version to the next.
struct MigrationStep<'a> {
    files: &'a dyn Files,
    /// The version to migrate from.
    version: u32,
    replayed: ReplayedChanges<'a>,
    /// The revision after which changes in the log are counted.
    start: Revision,
}

/// The changes in the log, converted one after the other.
struct ReplayedChanges<'a> {
    migration: &'a Migration,
    /// The names that exist, as of the last change.
    present: HashSet<Key>,
}

impl MigrationStep<'_> {
    /// Returns whether the file still has the version to migrate from.
    fn is_due(&self, name: &str) -> Result<bool, Error> {
        let format = format::of_file(self.files, name)
            .map_err(|error| FolderReader(self.files).cannot_read(name, &error))?;
        Ok(format.is_some_and(|format| format.contents == self.version))
    }

    fn format(&self) -> FileFormat {
        FileFormat::new(self.version + 1)
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
            entries = entries.into_iter().map(|(_, entry)| self.replayed.converted(&entry)).collect();
        }
        self.replayed.present.extend(entries.keys().cloned());
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
        let (mut builder, mut rewritten, mut at) = (FrameBuilder::default(), Vec::new(), 0);
        loop {
            match find_frame(&contents, at) {
                FrameResult::Frame(frame) => {
                    let payload = self
                        .payload(frame, is_due)
                        .ok_or_else(|| reading.damaged(&name, "a record cannot be decoded"))?;
                    builder.start().extend_from_slice(&payload);
                    rewritten.extend_from_slice(builder.finish(frame.kind, frame.revision, frame.time));
                    at += frame.len();
                }
                FrameResult::End => break,
                FrameResult::Damage(what) => return Err(reading.damaged(&name, what)),
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

    /// Returns a record's payload in the new version, and tracks the names it adds and removes.
    fn payload(&mut self, frame: Frame<'_>, is_due: bool) -> Option<Vec<u8>> {
        match frame.kind {
            FrameKind::LogStart => Some(self.format().payload().into_bytes()),
            FrameKind::Commits => {
                let changes = payload::read_changes(frame.payload, Revision::new(frame.revision))?;
                let mut converted = Vec::with_capacity(changes.len());
                for change in changes {
                    // Changes that a checkpoint already contains are never read, and the state before them is not
                    // known.
                    let counts = change.revision > self.start;
                    match (is_due, counts) {
                        (true, true) => self.replayed.apply(change, &mut converted),
                        (false, true) => self.replayed.follow(&change),
                        (_, false) => converted.push(change),
                    }
                }
                let mut payload = Vec::new();
                payload::put_changes(&mut payload, &converted);
                Some(payload)
            }
            _ => Some(frame.payload.to_vec()),
        }
    }

    /// Replaces the old file with a new one.
    fn replace(&self, name: &str, write: impl FnOnce(&str) -> io::Result<()>) -> Result<(), Error> {
        let unfinished = format!("{name}{UNFINISHED}");
        let replaced = write(&unfinished)
            .and_then(|()| self.files.rename(&unfinished, name))
            .and_then(|()| self.files.sync_names());
        replaced.map_err(|error| {
            // On a full disk it would take up the remaining space. If it cannot be removed, the next start removes it.
            let _ = self.files.remove(&unfinished);
            self.failed(name, &error)
        })
    }
}

impl ReplayedChanges<'_> {
    /// Returns an entry in the new version, and its key there.
    fn converted(&self, entry: &Arc<Entry>) -> (Key, Arc<Entry>) {
        let new = match self.migration {
            Migration::Keys(keys) if (keys.moves)(&entry.key, &entry.bytes) => {
                Some(((keys.new_name)(&entry.key), entry.value()))
            }
            Migration::Keys(_) => None,
            Migration::Values(rewrite) => {
                rewrite(&entry.key, &entry.value()).map(|value| (entry.key.clone(), value))
            }
        };
        let Some((key, value)) = new else { return (entry.key.clone(), Arc::clone(entry)) };
        (key.clone(), Arc::new(Entry::new(key, entry.revision, &value)))
    }

    /// Tracks a change that already has the new version.
    fn follow(&mut self, change: &Change) {
        match change.new {
            Some(_) => self.present.insert(change.key.clone()),
            None => self.present.remove(&change.key),
        };
    }

    /// Converts a change to the new version.
    fn apply(&mut self, change: Change, out: &mut Vec<Change>) {
        match self.migration {
            Migration::Keys(keys) => self.move_key(keys, change, out),
            Migration::Values(_) => {
                let new = change.new.map(|entry| self.converted(&entry).1);
                out.push(Change { new, ..change });
            }
        }
    }

    /// Converts a change to the new names. An entry that moves when overwritten gives up its former name.
    fn move_key(&mut self, keys: &KeyMigration, change: Change, out: &mut Vec<Change>) {
        let Change { revision, key, new } = change;
        let moved = (keys.new_name)(&key);
        let Some(entry) = new else {
            let key = if self.present.remove(&moved) { moved } else { key };
            self.present.remove(&key);
            out.push(Change { revision, key, new: None });
            return;
        };
        let (name, entry) = self.converted(&entry);
        let other = if name == key { moved } else { key };
        if self.present.remove(&other) {
            out.push(Change { revision, key: other, new: None });
        }
        self.present.insert(name.clone());
        out.push(Change { revision, key: name, new: Some(entry) });
    }
}
