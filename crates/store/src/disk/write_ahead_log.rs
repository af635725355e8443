//! The log consists of files of frames, each named after the revision before its first commit; this module also names
//! all files.
//!
//! **Invariant:** a batch is appended only after the previous one was synced, and a new file is started only when the
//! last one is synced and its own name is durable. Only the last frame of the last file can therefore be torn, or the
//! record in the previous file which says that another file follows. A file is longer than its contents, and its size
//! is on disk before anything is written to its end: a file that ends without blank space was cut short.

use std::io;
use std::sync::Arc;

use homeostat_core::Revision;

use super::files::{File, Files};
use super::format::FileFormat;
use super::frame::{FrameBuilder, FrameKind};
use super::payload;
use crate::writer::Batch;

const LOG: &str = "log-";
const CHECKPOINT: &str = "checkpoint-";
/// The suffix of a file that is not complete yet. An unfinished file found at startup was never in use.
pub(super) const UNFINISHED: &str = ".unfinished";

/// Returns a log file's name. The names sort by revision.
pub(super) fn log_name(before: Revision) -> String {
    format!("{LOG}{before:020}")
}

pub(super) fn checkpoint_name(revision: Revision) -> String {
    format!("{CHECKPOINT}{revision:020}")
}

pub(super) fn log_revision(name: &str) -> Option<Revision> {
    let revision = name.strip_prefix(LOG)?.parse().ok()?;
    (log_name(revision) == name).then_some(revision)
}

pub(super) fn checkpoint_revision(name: &str) -> Option<Revision> {
    let revision = name.strip_prefix(CHECKPOINT)?.parse().ok()?;
    (checkpoint_name(revision) == name).then_some(revision)
}

/// Returns whether this is one of our files that was never completed.
pub(super) fn is_unfinished(name: &str) -> bool {
    let whole = name.strip_suffix(UNFINISHED);
    whole.is_some_and(|whole| log_revision(whole).is_some() || checkpoint_revision(whole).is_some())
}

/// The maximum space reserved in a log file at a time, which means one size change per thousand commits instead of one
/// per commit.
const RESERVED_BYTES_MAX: u64 = 1 << 20;
/// The minimum space reserved: a file doubles as it grows, so that a small store stays small.
const RESERVED_BYTES_MIN: u64 = 64 << 10;

/// The space that is always left after the last record.
pub(super) const ROOM_BYTES: u64 = 4096;
/// How much of that space is always blank; the rest is for the record that ends the file.
const BLANK_BYTES: usize = 2048;

/// Returns whether a log file ends with the space that shows it was not cut short.
pub(super) fn has_room(contents: &[u8]) -> bool {
    let end = contents.len().checked_sub(BLANK_BYTES).map(|start| &contents[start..]);
    end.is_some_and(|end| end.iter().all(|byte| *byte == 0))
}

/// One log file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The revision before its first commit.
    pub(super) before: Revision,
    pub(super) bytes: u64,
}

/// The newest log file as found at startup.
#[derive(Debug)]
pub(super) struct LogTail {
    /// The revision before its first commit.
    pub(super) before: Revision,
    pub(super) contents: Vec<u8>,
    /// Where its last whole record begins.
    pub(super) record_at: usize,
    /// Where that record ends.
    pub(super) end: usize,
}

/// The log, open for appending.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    files: Arc<dyn Files>,
    /// Oldest first; the last one is open.
    segments: Vec<Segment>,
    file: Box<dyn File>,
    /// The size of the open file, including the zeros at its end.
    reserved: u64,
    builder: FrameBuilder,
    rules: LogRules,
    /// Whether the last attempt to start the next file failed.
    is_overdue: bool,
}

/// How log files are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRules {
    /// The size at which the next file is started.
    pub(super) segment_bytes_max: u64,
    /// The format of new files.
    pub(super) format: FileFormat,
}

impl WriteAheadLog {
    /// Starts a log that has never been written to.
    pub(super) fn new(files: Arc<dyn Files>, before: Revision, rules: LogRules) -> io::Result<Self> {
        let mut builder = FrameBuilder::default();
        let (file, bytes) = begin(&*files, &mut builder, before, rules.format)?;
        files.sync_names()?;
        let segments = vec![Segment { before, bytes }];
        let reserved = bytes + ROOM_BYTES;
        Ok(Self { files, segments, file, reserved, builder, rules, is_overdue: false })
    }

    /// Continues the log after these files. Rewrites the last record and the space after it in place: after a failed
    /// sync or a crash, data that can be read back is not necessarily on disk. Everything before the last record was
    /// synced before that record was started. This takes no more disk space, unless the file lacks the required space
    /// at its end.
    pub(super) fn resume(
        files: Arc<dyn Files>,
        mut older: Vec<Segment>,
        last: &LogTail,
        rules: LogRules,
    ) -> io::Result<Self> {
        let (record_at, end) = (last.record_at, last.end);
        let mut file = files.reopen(&log_name(last.before), record_at as u64)?;
        file.append(&last.contents[record_at..end])?;
        let mut reserved = last.contents.len() as u64;
        file.reserve(reserved)?;
        let wanted = end as u64 + ROOM_BYTES;
        if wanted > reserved {
            match file.reserve(wanted) {
                Ok(()) => reserved = wanted,
                // The disk is full, but there is enough space to read the log; the next batch tries again.
                Err(_) if end + BLANK_BYTES <= last.contents.len() => {}
                Err(error) => return Err(error),
            }
        }
        file.sync()?;
        // The file's name may also be visible without being on disk.
        files.sync_names()?;
        older.push(Segment { before: last.before, bytes: end as u64 });
        let builder = FrameBuilder::default();
        Ok(Self { files, segments: older, file, reserved, builder, rules, is_overdue: false })
    }

    /// Makes a batch durable.
    pub(super) fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let Some(first) = batch.events.first() else { return Ok(()) };
        payload::put_events(self.builder.start(), &batch.events);
        let frame = self.builder.finish(FrameKind::Commits, first.revision.get(), batch.at.as_millisecond());
        let last = self.segments.last_mut().expect("a log has an open file");
        last.bytes += frame.len() as u64;
        let needed = last.bytes + ROOM_BYTES;
        let more = last.bytes.clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX);
        let wanted = needed.max(self.rules.segment_bytes_max.min(last.bytes + more));
        let is_short = needed > self.reserved;
        // Space reserved early reaches the disk with this batch, before the next one needs it; a large batch may need
        // it now.
        if is_short || needed + more / 2 > self.reserved && wanted > self.reserved {
            match self.file.reserve(wanted) {
                Ok(()) => self.reserved = wanted,
                Err(error) if is_short => return Err(error),
                // The disk is full, but this batch still fits; the next one tries again.
                Err(_) => {}
            }
        }
        if is_short {
            self.file.sync()?;
        }
        self.file.append(frame)?;
        self.file.sync()
    }

    /// Starts a new file after `revision`, the newest, when the open one is large enough.
    pub(super) fn rotate(&mut self, revision: Revision) -> io::Result<()> {
        let last = self.segments.last().expect("a log has an open file");
        if last.bytes < self.rules.segment_bytes_max {
            return Ok(());
        }
        let (file, bytes) = match begin(&*self.files, &mut self.builder, revision, self.rules.format) {
            Ok(begun) => begun,
            // The log is untouched (no space, no descriptor): this file continues, and the next batch tries again.
            Err(error) => {
                if !self.is_overdue {
                    tracing::warn!(%error, "cannot begin the next log file yet; this one grows");
                }
                self.is_overdue = true;
                return Ok(());
            }
        };
        self.is_overdue = false;
        self.files.sync_names()?;
        // This happens only after the next file has its name: from now on, its absence means damage.
        self.builder.start();
        self.file.append(self.builder.finish(FrameKind::Continued, revision.get(), 0))?;
        self.file.sync()?;
        self.file = file;
        self.reserved = bytes + ROOM_BYTES;
        self.segments.push(Segment { before: revision, bytes });
        Ok(())
    }

    /// Returns the files without commits after `revision`, and their total size.
    pub(super) fn needless(&self, revision: Revision) -> (Vec<String>, u64) {
        let count = self.segments.windows(2).take_while(|pair| pair[1].before <= revision).count();
        let needless = &self.segments[..count];
        let names = needless.iter().map(|segment| log_name(segment.before)).collect();
        (names, needless.iter().map(|segment| segment.bytes).sum())
    }

    /// Forgets files that a checkpoint of `revision` made obsolete and has removed.
    pub(super) fn drop_needless(&mut self, revision: Revision) {
        let count = self.needless(revision).0.len();
        self.segments.drain(..count);
    }
}

/// Creates a log file whose contents are durable but whose name is not yet.
fn begin(
    files: &dyn Files,
    builder: &mut FrameBuilder,
    before: Revision,
    format: FileFormat,
) -> io::Result<(Box<dyn File>, u64)> {
    let name = log_name(before);
    let unfinished = format!("{name}{UNFINISHED}");
    let begun = files.create(&unfinished).and_then(|mut file| {
        builder.start().extend_from_slice(format.payload().as_bytes());
        let start = builder.finish(FrameKind::LogStart, before.get(), 0);
        let bytes = start.len() as u64;
        file.append(start)?;
        file.reserve(bytes + ROOM_BYTES)?;
        file.sync()?;
        files.rename(&unfinished, &name)?;
        Ok((file, bytes))
    });
    // On a full disk it would take up the remaining space. If it cannot be removed, the next start removes it.
    begun.inspect_err(|_| drop(files.remove(&unfinished)))
}
