//! Loads the store at startup: the newest checkpoint, then every later commit in the log.
//!
//! **Invariant:** every acknowledged commit is recovered, or startup fails. Only a torn write at the very end of
//! the log is dropped; [`frame`](super::frame) explains how it is recognized.

use std::io::{self, Read};
use std::sync::Arc;

use homeostat_core::Revision;
use jiff::Timestamp;

use super::acknowledged_revision::{self, AcknowledgedRevision, USED};
use super::checkpoint::{self, CheckpointError, LoadedCheckpoint};
use super::files::Files;
use super::format::{self, ContentFormat, FileFormat};
use super::frame::{Frame, FrameKind, FrameResult, find_frame};
use super::write_ahead_log::{
    LogRules, LogTail, Segment, WriteAheadLog, checkpoint_name, checkpoint_revision, has_room, is_unfinished,
    log_name, log_revision,
};
use super::{Config, migrate, payload};
use crate::published::PublishedState;
use crate::writer::{LogReplay, Writer};
use crate::{Error, Snapshot};

const OLDER: &str =
    "it has the format of an older version; start this version's server on it once, which migrates it";
const ADVICE: &str = "nothing was changed; restore the folder from a backup, or move it away to start empty";

/// The recovered store.
pub(super) struct RecoveredStore {
    pub(super) log: WriteAheadLog,
    pub(super) acknowledged: AcknowledgedRevision,
    pub(super) checkpoint_bytes: u64,
    /// The format of new files.
    pub(super) format: FileFormat,
}

/// The files that contain the state and the history that follows.
pub(super) struct NeededFiles {
    /// The newest checkpoint, if there is one.
    pub(super) checkpoint: Option<Revision>,
    /// The log files with later commits, oldest first, each given by the revision before its first commit.
    pub(super) logs: Vec<Revision>,
}

/// Loads the folder into `writer` and opens its log. A folder with older contents is migrated first.
pub(super) fn recover(
    files: &Arc<dyn Files>,
    writer: &mut Writer,
    config: &Config,
) -> Result<RecoveredStore, Error> {
    let folder = FolderReader(&**files);
    let mut names = folder.names()?;
    let needed = NeededFiles::of(&names);
    if let Some(oldest) = folder.check_versions(&names, &needed, config.contents)? {
        // It is read once without changing anything, so that a damaged folder is rejected before any change.
        let mut discarded = Writer::new(Arc::new(PublishedState::default()), config.clock, config.history);
        load(&folder, &names, &needed, &mut discarded, ReadFolderUntil::End)?;
        migrate::run(&**files, &needed, oldest, config.contents)?;
        // Files that an earlier migration left unfinished have been completed under the same names.
        names = folder.names()?;
    }
    let loaded = load(&folder, &names, &needed, writer, ReadFolderUntil::End)?;
    let format = FileFormat::new(config.contents.version());
    let rules = LogRules { segment_bytes_max: config.segment_bytes, format };
    let start = needed.checkpoint.unwrap_or(Revision::ZERO);
    let opened = remove_leftovers(&**files, &names, start, &needed.logs).and_then(|()| {
        let log = match &loaded.last {
            Some(last) => WriteAheadLog::resume(Arc::clone(files), loaded.older, last, rules)?,
            None => WriteAheadLog::new(Arc::clone(files), start, rules)?,
        };
        let mut acknowledged = AcknowledgedRevision::open(&**files, &names)?;
        acknowledged.note(loaded.revision);
        Ok((log, acknowledged))
    });
    let (log, acknowledged) = opened.map_err(|error| Error::Open {
        path: files.place(),
        reason: format!("the log cannot be continued: {error}; make room or correct the permissions"),
    })?;
    Ok(RecoveredStore { log, acknowledged, checkpoint_bytes: loaded.checkpoint_bytes, format })
}

/// The contents of a folder.
struct LoadedFolder {
    /// The log files that are complete.
    older: Vec<Segment>,
    /// The newest log file; `None` if the folder is new.
    last: Option<LogTail>,
    checkpoint_bytes: u64,
    revision: Revision,
}

/// Returns the state of a folder without changing it.
///
/// Another process may write to the folder in the meantime if reading stops at an acknowledged revision: everything up
/// to that revision was synced before, and the rest, which may be half-written, is not read.
pub(super) fn read(files: &dyn Files, config: &Config, until: ReadFolderUntil) -> Result<Snapshot, Error> {
    let folder = FolderReader(files);
    let names = folder.names()?;
    let needed = NeededFiles::of(&names);
    if folder.check_versions(&names, &needed, config.contents)?.is_some() {
        return Err(Error::Open { path: files.place(), reason: OLDER.to_owned() });
    }
    let published = Arc::new(PublishedState::default());
    let mut writer = Writer::new(Arc::clone(&published), config.clock, config.history);
    load(&folder, &names, &needed, &mut writer, until)?;
    Ok(published.snapshot())
}

/// Returns the newest revision that the process using the folder has acknowledged.
pub(super) fn read_acknowledged(files: &dyn Files) -> Result<Revision, Error> {
    FolderReader(files).whole(USED).map(|contents| acknowledged_revision::read(&contents))
}

/// How far to read in a folder.
#[derive(Clone, Copy)]
pub(super) enum ReadFolderUntil {
    /// To the end; no acknowledged commit may be missing.
    End,
    /// To this revision.
    Acknowledged(Revision),
}

impl ReadFolderUntil {
    fn is_end(self) -> bool {
        matches!(self, Self::End)
    }

    fn is_reached(self, revision: Revision) -> bool {
        matches!(self, Self::Acknowledged(wanted) if revision >= wanted)
    }
}

/// The contents of a log file.
struct LogFile<'a> {
    before: Revision,
    contents: &'a [u8],
    is_last: bool,
}

/// Reads the needed files into `writer`. Changes nothing on disk.
fn load(
    folder: &FolderReader<'_>,
    names: &[String],
    needed: &NeededFiles,
    writer: &mut Writer,
    until: ReadFolderUntil,
) -> Result<LoadedFolder, Error> {
    let loaded = folder.checkpoint(needed.checkpoint)?;
    let start = loaded.snapshot.revision();
    folder.check_present(&needed.logs, names, start)?;
    let mut replay = writer.replay(loaded.snapshot);
    let mut older = Vec::new();
    let mut last = None;
    for (index, before) in needed.logs.iter().enumerate() {
        if until.is_reached(replay.revision()) {
            break;
        }
        let is_last = index + 1 == needed.logs.len();
        let contents = folder.whole(&log_name(*before))?;
        let (record_at, end) =
            folder.replay(&mut replay, LogFile { before: *before, contents: &contents, is_last }, until)?;
        if is_last && until.is_end() {
            folder.check_end(*before, &contents)?;
            last = Some(LogTail { before: *before, contents, record_at, end });
        } else {
            older.push(Segment { before: *before, bytes: end as u64 });
        }
    }
    let newest_log = last.as_ref().map_or(start, |last| last.before);
    let acknowledged = match until {
        ReadFolderUntil::Acknowledged(revision) => revision,
        ReadFolderUntil::End => folder.acknowledged(names)?,
    };
    folder.check_acknowledged(acknowledged, newest_log, replay.revision())?;
    let revision = replay.revision();
    replay.finish();
    Ok(LoadedFolder { older, last, checkpoint_bytes: loaded.bytes, revision })
}

impl NeededFiles {
    /// Picks the newest checkpoint, the last log file that begins at or before it, and all later ones. The names are
    /// sorted.
    fn of(names: &[String]) -> Self {
        let checkpoint = names.iter().filter_map(|name| checkpoint_revision(name)).next_back();
        let start = checkpoint.unwrap_or(Revision::ZERO);
        let all: Vec<_> = names.iter().filter_map(|name| log_revision(name)).collect();
        let older = all.partition_point(|before| *before <= start).saturating_sub(1);
        Self { checkpoint, logs: all[older..].to_vec() }
    }

    fn has(&self, name: &str) -> bool {
        let is_checkpoint = checkpoint_revision(name).is_some_and(|at| self.checkpoint == Some(at));
        is_checkpoint || log_revision(name).is_some_and(|before| self.logs.contains(&before))
    }
}

/// Removes files that a crash left behind: unfinished files, and files that a finished checkpoint had made obsolete.
fn remove_leftovers(
    files: &dyn Files,
    names: &[String],
    start: Revision,
    logs: &[Revision],
) -> io::Result<()> {
    let is_needless = |name: &&String| {
        is_unfinished(name)
            || checkpoint_revision(name).is_some_and(|revision| revision != start)
            || log_revision(name).is_some_and(|before| !logs.contains(&before))
    };
    names.iter().filter(is_needless).try_for_each(|name| files.remove(name))
}

/// Reads a folder; its errors say where the problem is and what to do about it.
pub(super) struct FolderReader<'a>(pub(super) &'a dyn Files);

impl FolderReader<'_> {
    /// Returns the names of all files, sorted.
    fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = self.0.names().map_err(|error| self.cannot_read("the folder", &error))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the oldest content version among the needed files, if it is not current. Rejects newer versions.
    fn check_versions(
        &self,
        names: &[String],
        needed: &NeededFiles,
        contents: ContentFormat,
    ) -> Result<Option<u32>, Error> {
        let ours = names.iter().filter(|name| checkpoint_revision(name).or(log_revision(name)).is_some());
        let mut oldest = contents.version();
        for name in ours {
            let format = format::of_file(self.0, name).map_err(|error| self.cannot_read(name, &error))?;
            let Some(format) = format else { continue };
            if format.is_newer(contents.version()) {
                let known = FileFormat::new(contents.version());
                return Err(Error::Newer {
                    path: self.0.place(),
                    found: format.to_string(),
                    known: known.to_string(),
                });
            }
            if needed.has(name) {
                oldest = oldest.min(format.contents);
            }
        }
        Ok((oldest < contents.version()).then_some(oldest))
    }

    pub(super) fn cannot_read(&self, what: &str, error: &io::Error) -> Error {
        Error::Open { path: self.0.place(), reason: format!("cannot read {what}: {error}") }
    }

    pub(super) fn damaged(&self, name: &str, what: &str) -> Error {
        Error::Corrupt { path: self.0.place(), reason: format!("{name}: {what}; {ADVICE}") }
    }

    pub(super) fn whole(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut contents = Vec::new();
        let read = self.0.open(name).and_then(|mut file| file.read_to_end(&mut contents));
        read.map_err(|error| self.cannot_read(name, &error))?;
        Ok(contents)
    }

    /// Reads the checkpoint of a revision; without one, returns the empty state.
    pub(super) fn checkpoint(&self, revision: Option<Revision>) -> Result<LoadedCheckpoint, Error> {
        let Some(revision) = revision else {
            return Ok(LoadedCheckpoint { snapshot: Snapshot::default(), bytes: 0 });
        };
        let name = checkpoint_name(revision);
        checkpoint::read(self.0, &name, revision).map_err(|unusable| match unusable {
            CheckpointError::Read(error) => self.cannot_read(&name, &error),
            CheckpointError::Damage(what) => self.damaged(&name, what),
        })
    }

    /// Checks that the first log reaches back to the checkpoint, and that a store that has any file has a log.
    fn check_present(&self, logs: &[Revision], names: &[String], start: Revision) -> Result<(), Error> {
        let is_new = !names.iter().any(|name| name == USED || checkpoint_revision(name).is_some());
        match logs.first() {
            Some(first) if *first <= start => Ok(()),
            None if is_new => Ok(()),
            _ => Err(self.damaged(&log_name(start), "the log that begins here is missing")),
        }
    }

    /// Checks that the newest log file has its original length: anything missing at its end was acknowledged.
    fn check_end(&self, before: Revision, contents: &[u8]) -> Result<(), Error> {
        let FrameResult::Frame(first) = find_frame(contents, 0) else { return Ok(()) };
        let must_have_room = FileFormat::parse(first.payload).is_some_and(FileFormat::has_room);
        if !must_have_room || has_room(contents) {
            return Ok(());
        }
        Err(self.damaged(&log_name(before), "it is shorter than what was written to it"))
    }

    /// Returns the newest revision that was acknowledged; zero if the folder does not record it.
    fn acknowledged(&self, names: &[String]) -> Result<Revision, Error> {
        if !names.iter().any(|name| name == USED) {
            return Ok(Revision::ZERO);
        }
        Ok(acknowledged_revision::read(&self.whole(USED)?))
    }

    /// Checks that no acknowledged commit is missing: `before` names the newest log file, and `newest` is the revision
    /// reached.
    fn check_acknowledged(
        &self,
        acknowledged: Revision,
        before: Revision,
        newest: Revision,
    ) -> Result<(), Error> {
        if newest >= acknowledged {
            return Ok(());
        }
        let place = self.0.place();
        let reason = format!(
            "{}: it ends at revision {newest}, and {acknowledged} was acknowledged; nothing was changed. Either restore a backup of \
             the folder, or go on without what is missing: remove the file {place}/{USED} and start again",
            log_name(before)
        );
        Err(Error::Corrupt { path: place, reason })
    }

    /// Replays one log file. Returns where its last whole frame begins and ends.
    fn replay(
        &self,
        replay: &mut LogReplay<'_>,
        LogFile { before, contents, is_last }: LogFile<'_>,
        until: ReadFolderUntil,
    ) -> Result<(usize, usize), Error> {
        let name = log_name(before);
        let (mut last, mut at) = (0, 0);
        let mut newest = None;
        let mut is_continued = false;
        loop {
            match find_frame(contents, at) {
                FrameResult::Frame(frame) => {
                    let result = feed(replay, frame, before, newest);
                    newest = Some(result.map_err(|what| self.damaged(&name, what))?);
                    is_continued = frame.kind == FrameKind::Continued;
                    (last, at) = (at, at + frame.len());
                    if until.is_reached(replay.revision()) {
                        return Ok((last, at));
                    }
                }
                FrameResult::End if newest.is_none() => {
                    return Err(self.damaged(&name, "its first record is missing"));
                }
                FrameResult::End if is_last && is_continued => {
                    return Err(self.damaged(&name, "the log file after it is missing"));
                }
                // Unused space, or a torn record that was not acknowledged. If later commits follow, the first record
                // of the next file reveals the gap.
                FrameResult::End => return Ok((last, at)),
                FrameResult::Damage(what) => return Err(self.damaged(&name, what)),
            }
        }
    }
}

/// Replays one frame; `newest` is the revision reached in this file, `None` before its first frame. Returns the
/// revision reached.
fn feed(
    replay: &mut LogReplay<'_>,
    frame: Frame<'_>,
    before: Revision,
    newest: Option<Revision>,
) -> Result<Revision, &'static str> {
    let revision = Revision::new(frame.revision);
    match (frame.kind, newest) {
        (FrameKind::LogStart, None) if revision != before => Err("its first record belongs to another file"),
        (FrameKind::LogStart, None) if FileFormat::parse(frame.payload).is_none() => {
            Err("it is in a layout that this version does not know")
        }
        (FrameKind::LogStart, None) if before > replay.revision() => {
            Err("the log file before it is missing or cut short")
        }
        (FrameKind::LogStart, None) => Ok(before),
        (FrameKind::Closed | FrameKind::Continued, Some(newest)) if revision == newest => Ok(newest),
        (FrameKind::Commits, Some(newest)) if revision == newest.next() => {
            let changes =
                payload::read_changes(frame.payload, revision).ok_or("a record cannot be decoded")?;
            let last = changes.last().ok_or("a record is empty")?.revision;
            let time =
                Timestamp::from_millisecond(frame.time).map_err(|_| "a record has an impossible time")?;
            replay.apply(changes, time);
            Ok(last)
        }
        _ => Err("a record is out of place"),
    }
}
