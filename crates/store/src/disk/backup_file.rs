//! A backup holds the state of a store and its attached files in one file, taken while a server may be using the store.
//!
//! A backup file is a sequence of frames with checksums: a header with the format and the number of attachments, the
//! attachments, then a checkpoint. A restored store continues at a much higher revision than the backup's, so that
//! clients that saw later changes read everything again instead of mistaking new changes for old ones.
//!
//! **Invariant:** a backup file gets its name only when it is complete and durable, and everything in it is checked
//! before anything is restored.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use homeostat_core::Revision;

use super::acknowledged_revision::AcknowledgedRevision;
use super::checkpoint::{self, CheckpointError};
use super::files::{self, Files, Folder, ReadOnlyFolder};
use super::format::FileFormat;
use super::frame::{Frame, FrameBuilder, FrameHeader, FrameKind, HEADER_BYTES};
use super::recover::{self, ReadFolderUntil};
use super::write_ahead_log::{LogRules, UNFINISHED, WriteAheadLog, checkpoint_name};
use super::{Config, ContentFormat};
use crate::{Error, Snapshot};

/// How many revisions a restored store skips: more than a busy server writes between the backup and the loss of its
/// data (over a day at 10 000 commits a second), and few enough that thousands of restores fit into 64 bits.
const SKIPPED_REVISIONS: u64 = 1_000_000_000;
/// How often to try reading a store that is in use and may be rewritten in the meantime: it writes a new checkpoint
/// every few seconds at most, and a read takes milliseconds.
const READ_ATTEMPTS: u32 = 20;
/// The pause between two attempts.
const READ_PAUSE: Duration = Duration::from_millis(50);
/// Attachments are keys and certificates; a larger file is not one of ours.
const ATTACHMENT_BYTES_MAX: usize = 1 << 20;

/// A file that is stored alongside the store, such as a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, without any folder.
    pub name: String,
    /// Its contents.
    pub contents: Vec<u8>,
}

impl std::fmt::Debug for Attachment {
    /// Omits the contents, which may be a key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Attachment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The contents of a backup.
#[derive(Debug)]
pub struct Backup {
    snapshot: Snapshot,
    format: FileFormat,
    attachments: Vec<Attachment>,
}

impl Backup {
    /// Reads the store in a folder, which a process may be using. Blocks until everything is in memory.
    pub fn of_folder(path: &Path, attachments: Vec<Attachment>, config: &Config) -> Result<Self, Error> {
        let folder = ReadOnlyFolder(path.to_owned());
        let lock = folder.lock().map_err(|error| Error::Open {
            path: path.display().to_string(),
            reason: match error.kind() {
                io::ErrorKind::NotFound => "there is no store in this folder".to_owned(),
                _ => error.to_string(),
            },
        })?;
        let snapshot = match lock {
            Some(_) => recover::read(&folder, config, ReadFolderUntil::End)?,
            None => read_in_use(&folder, config)?,
        };
        Ok(Self { snapshot, format: FileFormat::new(config.contents.version()), attachments })
    }

    /// Returns the number of objects in the backup.
    pub fn len(&self) -> usize {
        self.snapshot.len()
    }

    /// Returns whether the backup contains no objects.
    pub fn is_empty(&self) -> bool {
        self.snapshot.is_empty()
    }

    /// Returns the revision of the store at the time it was read.
    pub fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    /// Returns the files that are stored alongside the store.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// Writes the backup to a new file that only its owner may read.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata().is_ok() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        name.push(UNFINISHED);
        let unfinished = path.with_file_name(name);
        let written = self.write_whole(&unfinished).and_then(|()| fs::rename(&unfinished, path));
        written.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        files::sync_folder(files::parent_of(path))
    }

    fn write_whole(&self, path: &Path) -> io::Result<()> {
        let revision = self.snapshot.revision().get();
        let mut builder = FrameBuilder::default();
        let mut file = files::create_file(path)?;
        let start = builder.start();
        start.extend_from_slice(&(self.attachments.len() as u64).to_le_bytes());
        start.extend_from_slice(self.format.payload().as_bytes());
        file.append(builder.finish(FrameKind::BackupStart, revision, 0))?;
        for attachment in &self.attachments {
            let frame = builder.start();
            frame.extend_from_slice(attachment.name.as_bytes());
            frame.push(0);
            frame.extend_from_slice(&attachment.contents);
            file.append(builder.finish(FrameKind::Attachment, revision, 0))?;
        }
        checkpoint::append_to(file, &self.snapshot, self.format)?.sync()
    }

    /// Reads a backup file and checks all of it.
    pub fn read(path: &Path, contents: ContentFormat) -> Result<Self, Error> {
        let place = path.display().to_string();
        let input = fs::File::open(path).map_err(|error| cannot_read(&place, &error))?;
        let mut reader = BackupReader { place, file: Box::new(io::BufReader::new(input)), body: Vec::new() };
        let frame = reader.next(FrameKind::BackupStart, START_BYTES_MAX)?;
        let revision = Revision::new(frame.revision);
        let start = frame
            .payload
            .split_first_chunk()
            .and_then(|(count, format)| Some((u64::from_le_bytes(*count), FileFormat::parse(format)?)));
        let Some((count, format)) = start else { return Err(reader.damaged(NOT_A_BACKUP)) };
        if format.is_newer(contents.version()) {
            let known = FileFormat::new(contents.version()).to_string();
            return Err(Error::Newer { path: reader.place, found: format.to_string(), known });
        }
        let mut attachments = Vec::new();
        for _ in 0..count {
            let frame = reader.next(FrameKind::Attachment, ATTACHMENT_BYTES_MAX)?;
            let found = parse_attachment(frame.payload);
            attachments.push(found.ok_or_else(|| reader.damaged("a file in it has no proper name"))?);
        }
        let loaded = checkpoint::read_from(reader.file, revision);
        let loaded = loaded.map_err(|error| match error {
            CheckpointError::Read(error) => cannot_read(&reader.place, &error),
            CheckpointError::Damage(what) => damaged(&reader.place, what),
        })?;
        Ok(Self { snapshot: loaded.snapshot, format, attachments })
    }

    /// Writes the store into a folder, which must be new or empty. The caller restores the attachments.
    pub fn restore_to(self, path: &Path, config: &Config) -> Result<(), Error> {
        let folder: Arc<dyn Files> = Arc::new(Folder::open(path)?);
        let fail = |reason: String| Error::Open { path: path.display().to_string(), reason };
        let names = folder.names().map_err(|error| fail(error.to_string()))?;
        if !names.is_empty() {
            return Err(fail(NOT_EMPTY.to_owned()));
        }
        let revision = Revision::new(self.snapshot.revision().get() + SKIPPED_REVISIONS);
        let snapshot = Snapshot::new(revision, self.snapshot.into_entries());
        let rules = LogRules { segment_bytes_max: config.segment_bytes, format: self.format };
        let name = checkpoint_name(revision);
        let unfinished = format!("{name}{UNFINISHED}");
        // The file that marks the folder as used comes first and the log last: a used folder without a log is rejected,
        // so a partial restore is mistaken neither for a complete one nor for a new store.
        let written = AcknowledgedRevision::open(&*folder, &names)
            .and_then(|_| checkpoint::write_whole(&*folder, &unfinished, &snapshot, self.format))
            .and_then(|()| folder.rename(&unfinished, &name))
            .and_then(|()| folder.sync_names())
            .and_then(|()| WriteAheadLog::new(Arc::clone(&folder), revision, rules));
        written.map(drop).map_err(|error| {
            fail(format!(
                "{error}; remove the folder and make room, or choose another one, and restore again"
            ))
        })
    }
}

/// A longer header is not from one of our backups.
const START_BYTES_MAX: usize = 1024;
const NOT_A_BACKUP: &str = "it is not a backup of this program";
const NOT_EMPTY: &str = "there is a store in this folder already; stop its server and move the folder away, or choose another one";

/// Reads a store that another process is using. That process may replace files in the meantime, so this retries.
#[expect(clippy::disallowed_methods, reason = "reading a store blocks; nothing else runs on this thread")]
fn read_in_use(folder: &ReadOnlyFolder, config: &Config) -> Result<Snapshot, Error> {
    let read = || {
        let acknowledged = recover::read_acknowledged(folder)?;
        recover::read(folder, config, ReadFolderUntil::Acknowledged(acknowledged))
    };
    for _ in 1..READ_ATTEMPTS {
        match read() {
            Err(Error::Open { .. } | Error::Corrupt { .. }) => thread::sleep(READ_PAUSE),
            done => return done,
        }
    }
    read()
}

fn cannot_read(place: &str, error: &io::Error) -> Error {
    Error::Open { path: place.to_owned(), reason: error.to_string() }
}

fn damaged(place: &str, what: &str) -> Error {
    Error::Corrupt {
        path: place.to_owned(),
        reason: format!("{what}; use another backup, nothing was restored"),
    }
}

/// Returns the attachment in a frame, unless its name could lead outside its folder.
fn parse_attachment(payload: &[u8]) -> Option<Attachment> {
    let end = payload.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&payload[..end]).ok()?;
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
    is_plain.then(|| Attachment { name: name.to_owned(), contents: payload[end + 1..].to_vec() })
}

struct BackupReader {
    place: String,
    file: Box<dyn Read + Send>,
    body: Vec<u8>,
}

impl BackupReader {
    /// Reads the next frame, which must be of this kind.
    fn next(&mut self, kind: FrameKind, bytes_max: usize) -> Result<Frame<'_>, Error> {
        let mut bytes = [0; HEADER_BYTES];
        let read = self.file.read_exact(&mut bytes);
        if read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof) {
            return Err(cannot_read(&self.place, &read.expect_err("it is an error")));
        }
        let Some(header) = FrameHeader::read(&bytes) else { return Err(self.damaged(NOT_A_BACKUP)) };
        let length = header.body_bytes();
        if length > bytes_max {
            return Err(self.damaged("a record is too large"));
        }
        self.body.clear();
        let body = (&mut self.file).take(length as u64).read_to_end(&mut self.body);
        body.map_err(|error| cannot_read(&self.place, &error))?;
        let Some(frame) = header.with_body(&self.body).filter(|frame| frame.kind == kind) else {
            return Err(damaged(&self.place, "a record fails its checksum or is out of place"));
        };
        Ok(frame)
    }

    fn damaged(&self, what: &str) -> Error {
        damaged(&self.place, what)
    }
}
