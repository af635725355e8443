//! The log: files of frames, each named after the revision before its first commit, and the names of all files.
//!
//! **Invariant:** a batch is appended only after the one before it was synced, and a new file is begun only when the
//! last one is synced and its own name is durable. So only the last frame of the last file can be torn,
//! or the note in the file before it that another follows. A file is longer than what is written to it, and is known to
//! be so on the disk before anything is written to its end: one that ends without blank room was cut short.

use std::io;
use std::sync::Arc;

use homeostat_core::Revision;

use super::files::{File, Files};
use super::format::Format;
use super::frame::{Builder, Kind};
use super::record;
use crate::writer::Batch;

const LOG: &str = "log-";
const CHECKPOINT: &str = "checkpoint-";
/// Ends the name of a file that is not complete yet. One found at start was never in use.
pub(super) const UNFINISHED: &str = ".unfinished";

/// A name of ours: sorted as text, files are sorted by revision.
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

/// Is it a file of ours that was not completed?
pub(super) fn is_unfinished(name: &str) -> bool {
    let whole = name.strip_suffix(UNFINISHED);
    whole.is_some_and(|whole| log_revision(whole).is_some() || checkpoint_revision(whole).is_some())
}

/// Room made in a log file at once, before it is needed: one change of size per thousand commits instead of one each.
const RESERVED_BYTES_MAX: u64 = 1 << 20;
/// Room made at first: a file grows by as much as it has, so that a small store stays small.
const RESERVED_BYTES_MIN: u64 = 64 << 10;

/// Room that is always left behind the last record.
pub(super) const ROOM_BYTES: u64 = 4096;
/// So much of it is blank whatever happens: the rest is for a note that ends the file.
const BLANK_BYTES: usize = 2048;

/// Does a log file end as every one does that was not cut short?
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

/// The newest log file as a start finds it.
#[derive(Debug)]
pub(super) struct Tail {
    /// The revision before its first commit.
    pub(super) before: Revision,
    pub(super) contents: Vec<u8>,
    /// Where its last whole record begins.
    pub(super) record_at: usize,
    /// Where that ends.
    pub(super) end: usize,
}

/// The log, open for appending.
#[derive(Debug)]
pub(super) struct Log {
    files: Arc<dyn Files>,
    /// Oldest first; the last one is open.
    segments: Vec<Segment>,
    file: Box<dyn File>,
    /// The size of the open file, zeros at its end included.
    reserved: u64,
    builder: Builder,
    rules: LogRules,
    /// The next file could not be begun.
    is_overdue: bool,
}

/// How log files are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRules {
    /// A file is followed by the next when it has this size.
    pub(super) segment_bytes_max: u64,
    /// What new files are written in.
    pub(super) format: Format,
}

impl Log {
    /// Begins a log: nothing was ever written.
    pub(super) fn new(files: Arc<dyn Files>, before: Revision, rules: LogRules) -> io::Result<Self> {
        let mut builder = Builder::default();
        let (file, bytes) = begin(&*files, &mut builder, before, rules.format)?;
        files.sync_names()?;
        let segments = vec![Segment { before, bytes }];
        let reserved = bytes + ROOM_BYTES;
        Ok(Self { files, segments, file, reserved, builder, rules, is_overdue: false })
    }

    /// Continues the log after these files. The last record and the room behind it are written once more, in their
    /// place: after a failed sync or a crash, what can be read back of them need not be on the disk. All before the last
    /// record was synced before it was begun. It takes no room on the disk but what a file without enough of it lacks.
    pub(super) fn resume(
        files: Arc<dyn Files>,
        mut older: Vec<Segment>,
        last: &Tail,
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
                // The disk is full, and there is enough to read it: the next batch tries again.
                Err(_) if end + BLANK_BYTES <= last.contents.len() => {}
                Err(error) => return Err(error),
            }
        }
        file.sync()?;
        // Its name, too, may be seen and not be on the disk.
        files.sync_names()?;
        older.push(Segment { before: last.before, bytes: end as u64 });
        let builder = Builder::default();
        Ok(Self { files, segments: older, file, reserved, builder, rules, is_overdue: false })
    }

    /// Makes a batch durable.
    pub(super) fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let Some(first) = batch.events.first() else { return Ok(()) };
        record::put_events(self.builder.start(), &batch.events);
        let frame = self.builder.finish(Kind::Commits, first.revision.get(), batch.at.as_millisecond());
        let last = self.segments.last_mut().expect("a log has an open file");
        last.bytes += frame.len() as u64;
        let needed = last.bytes + ROOM_BYTES;
        let more = last.bytes.clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX);
        let wanted = needed.max(self.rules.segment_bytes_max.min(last.bytes + more));
        let is_short = needed > self.reserved;
        // Made early, room is on the disk with this batch, before the next one needs it; a large batch may need it now.
        if is_short || needed + more / 2 > self.reserved && wanted > self.reserved {
            match self.file.reserve(wanted) {
                Ok(()) => self.reserved = wanted,
                Err(error) if is_short => return Err(error),
                // The disk is full, but what is there suffices for this batch; the next one tries again.
                Err(_) => {}
            }
        }
        if is_short {
            self.file.sync()?;
        }
        self.file.append(frame)?;
        self.file.sync()
    }

    /// Begins a new file after `revision`, the newest, when the open one is large enough.
    pub(super) fn rotate(&mut self, revision: Revision) -> io::Result<()> {
        let last = self.segments.last().expect("a log has an open file");
        if last.bytes < self.rules.segment_bytes_max {
            return Ok(());
        }
        let (file, bytes) = match begin(&*self.files, &mut self.builder, revision, self.rules.format) {
            Ok(begun) => begun,
            // Nothing of the log was touched (no room, no descriptor): this file goes on, the next batch tries again.
            Err(error) => {
                if !self.is_overdue {
                    tracing::warn!(%error, "the next log file cannot be begun yet; this one grows");
                }
                self.is_overdue = true;
                return Ok(());
            }
        };
        self.is_overdue = false;
        self.files.sync_names()?;
        // Not before the next one is there under its name: from now on its absence is damage.
        self.builder.start();
        self.file.append(self.builder.finish(Kind::Continued, revision.get(), 0))?;
        self.file.sync()?;
        self.file = file;
        self.reserved = bytes + ROOM_BYTES;
        self.segments.push(Segment { before: revision, bytes });
        Ok(())
    }

    /// The files that hold nothing after `revision`, and their bytes.
    pub(super) fn needless(&self, revision: Revision) -> (Vec<String>, u64) {
        let count = self.segments.windows(2).take_while(|pair| pair[1].before <= revision).count();
        let needless = &self.segments[..count];
        let names = needless.iter().map(|segment| log_name(segment.before)).collect();
        (names, needless.iter().map(|segment| segment.bytes).sum())
    }

    /// Forgets files that a checkpoint of `revision` made needless; it has removed them.
    pub(super) fn drop_needless(&mut self, revision: Revision) {
        let count = self.needless(revision).0.len();
        self.segments.drain(..count);
    }
}

/// Makes a log file; its contents are durable, its name is not yet.
fn begin(
    files: &dyn Files,
    builder: &mut Builder,
    before: Revision,
    format: Format,
) -> io::Result<(Box<dyn File>, u64)> {
    let name = log_name(before);
    let unfinished = format!("{name}{UNFINISHED}");
    let begun = files.create(&unfinished).and_then(|mut file| {
        builder.start().extend_from_slice(format.payload().as_bytes());
        let start = builder.finish(Kind::LogStart, before.get(), 0);
        let bytes = start.len() as u64;
        file.append(start)?;
        file.reserve(bytes + ROOM_BYTES)?;
        file.sync()?;
        files.rename(&unfinished, &name)?;
        Ok((file, bytes))
    });
    // On a full disk it would take the room that is left. If it cannot be removed, the next start does.
    begun.inspect_err(|_| drop(files.remove(&unfinished)))
}
