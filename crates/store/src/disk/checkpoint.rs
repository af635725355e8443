//! A checkpoint holds the whole store as of one revision in one file, so that older log files can be removed.
//!
//! A checkpoint is taken at the floor of history, not at the present, so that the log covers exactly the history
//! window: after a restart, watches can resume from the same revisions as before.
//!
//! **Invariant:** a file gets its name only when it is complete and durable, and log files are removed only when that
//! name is durable.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_core::{Key, Revision};
use imbl::OrdMap;

use super::files::{File, Files};
use super::format::FileFormat;
use super::frame::{FrameBuilder, FrameHeader, FrameKind, HEADER_BYTES};
use super::payload;
use super::write_ahead_log::{UNFINISHED, checkpoint_name, checkpoint_revision};
use crate::{Entry, Snapshot};

/// The size at which a frame is written: large enough that the size of the header does not matter, small enough that
/// the size of the buffer does not matter.
const FRAME_BYTES: usize = 256 << 10;

/// Writes a checkpoint of `snapshot` and removes the files it makes obsolete. Returns its size, or `None` if it was
/// stopped.
pub(super) fn write(
    files: &dyn Files,
    snapshot: &Snapshot,
    needless: &[String],
    format: FileFormat,
    must_stop: &AtomicBool,
) -> io::Result<Option<u64>> {
    let name = checkpoint_name(snapshot.revision());
    let unfinished = format!("{name}{UNFINISHED}");
    let written = write_file(files, &unfinished, snapshot, format, must_stop);
    let Ok(Some(bytes)) = written else {
        // It takes up space that the log may need; at worst, the next start removes it.
        let _ = files.remove(&unfinished);
        return written;
    };
    files.rename(&unfinished, &name)?;
    files.sync_names()?;
    let is_older = |other: &String| checkpoint_revision(other).is_some_and(|at| at < snapshot.revision());
    for other in files.names()?.iter().filter(|other| is_older(other)).chain(needless) {
        match files.remove(other) {
            // An earlier attempt got this far.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(Some(bytes))
}

/// Writes a checkpoint of `snapshot` as the file `name`, and syncs it.
pub(super) fn write_whole(
    files: &dyn Files,
    name: &str,
    snapshot: &Snapshot,
    format: FileFormat,
) -> io::Result<()> {
    write_file(files, name, snapshot, format, &AtomicBool::new(false)).map(|_| ())
}

/// Appends a checkpoint of `snapshot` to a file.
pub(super) fn append_to(
    file: Box<dyn File>,
    snapshot: &Snapshot,
    format: FileFormat,
) -> io::Result<Box<dyn File>> {
    let mut output = CheckpointWriter { file, builder: FrameBuilder::default(), bytes: 0 };
    output.write_all(snapshot, format, &AtomicBool::new(false))?;
    Ok(output.file)
}

/// Writes the whole file and syncs it.
fn write_file(
    files: &dyn Files,
    name: &str,
    snapshot: &Snapshot,
    format: FileFormat,
    must_stop: &AtomicBool,
) -> io::Result<Option<u64>> {
    let mut output =
        CheckpointWriter { file: files.create(name)?, builder: FrameBuilder::default(), bytes: 0 };
    if !output.write_all(snapshot, format, must_stop)? {
        return Ok(None);
    }
    output.file.sync()?;
    Ok(Some(output.bytes))
}

struct CheckpointWriter {
    file: Box<dyn File>,
    builder: FrameBuilder,
    bytes: u64,
}

impl CheckpointWriter {
    /// Writes everything. Returns false if it was stopped before it was complete.
    fn write_all(
        &mut self,
        snapshot: &Snapshot,
        format: FileFormat,
        must_stop: &AtomicBool,
    ) -> io::Result<bool> {
        let revision = snapshot.revision().get();
        self.builder.start().extend_from_slice(format.payload().as_bytes());
        self.flush(FrameKind::CheckpointStart, revision)?;
        let mut frame = self.builder.start();
        for entry in snapshot.entries().values() {
            payload::put_stored(frame, entry);
            if frame.len() >= FRAME_BYTES {
                self.flush(FrameKind::Entries, revision)?;
                if must_stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                frame = self.builder.start();
            }
        }
        self.flush(FrameKind::Entries, revision)?;
        self.builder.start().extend_from_slice(&(snapshot.len() as u64).to_le_bytes());
        self.flush(FrameKind::CheckpointEnd, revision)?;
        Ok(true)
    }

    fn flush(&mut self, kind: FrameKind, revision: u64) -> io::Result<()> {
        let frame = self.builder.finish(kind, revision, 0);
        self.bytes += frame.len() as u64;
        self.file.append(frame)
    }
}

/// A checkpoint read from disk, and its size.
pub(super) struct LoadedCheckpoint {
    pub(super) snapshot: Snapshot,
    pub(super) bytes: u64,
}

/// The reason a checkpoint cannot be used.
pub(super) enum CheckpointError {
    Read(io::Error),
    Damage(&'static str),
}

/// Reads the checkpoint `name` of `revision` frame by frame, because memory may not have room for two copies of it.
pub(super) fn read(
    files: &dyn Files,
    name: &str,
    revision: Revision,
) -> Result<LoadedCheckpoint, CheckpointError> {
    read_from(files.open(name).map_err(CheckpointError::Read)?, revision)
}

/// Reads the checkpoint of `revision` from a file's current position.
pub(super) fn read_from(
    file: Box<dyn Read + Send>,
    revision: Revision,
) -> Result<LoadedCheckpoint, CheckpointError> {
    let mut input = CheckpointReader { file, body: Vec::new(), bytes: 0 };
    if FileFormat::parse(input.next(FrameKind::CheckpointStart, revision)?.0).is_none() {
        return Err(CheckpointError::Damage("it was written in a layout that this version does not know"));
    }
    let mut entries: OrdMap<Key, Arc<Entry>> = OrdMap::new();
    loop {
        match input.next(FrameKind::Entries, revision)? {
            (payload, FrameKind::Entries) => {
                let stored = payload::read_stored(payload)
                    .ok_or(CheckpointError::Damage("its entries cannot be decoded"))?;
                entries.extend(stored.into_iter().map(|entry| (entry.key.clone(), entry)));
            }
            (payload, _) if payload == (entries.len() as u64).to_le_bytes() => break,
            _ => return Err(CheckpointError::Damage("its number of entries is wrong")),
        }
    }
    Ok(LoadedCheckpoint { snapshot: Snapshot::new(revision, entries), bytes: input.bytes })
}

struct CheckpointReader {
    file: Box<dyn Read + Send>,
    body: Vec<u8>,
    bytes: u64,
}

impl CheckpointReader {
    /// Reads the payload of the next frame, which must be of the `expected` kind, or the end where entries are
    /// expected.
    fn next(
        &mut self,
        expected: FrameKind,
        revision: Revision,
    ) -> Result<(&[u8], FrameKind), CheckpointError> {
        let mut header = [0; HEADER_BYTES];
        self.fill_header(&mut header)?;
        let header =
            FrameHeader::read(&header).ok_or(CheckpointError::Damage("a record fails its checksum"))?;
        self.body.clear();
        let limit = header.body_bytes() as u64;
        (&mut self.file).take(limit).read_to_end(&mut self.body).map_err(CheckpointError::Read)?;
        self.bytes += HEADER_BYTES as u64 + limit;
        let frame =
            header.with_body(&self.body).ok_or(CheckpointError::Damage("a record fails its checksum"))?;
        let is_end = expected == FrameKind::Entries && frame.kind == FrameKind::CheckpointEnd;
        if frame.revision != revision.get() || (frame.kind != expected && !is_end) {
            return Err(CheckpointError::Damage("a record is out of place"));
        }
        Ok((frame.payload, frame.kind))
    }

    fn fill_header(&mut self, header: &mut [u8]) -> Result<(), CheckpointError> {
        self.file.read_exact(header).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CheckpointError::Damage("it ends too early"),
            _ => CheckpointError::Read(error),
        })
    }
}
