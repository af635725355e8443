//! Start: the newest checkpoint, then every commit of the log after it.
//!
//! **Invariant:** an acknowledged commit is either recovered or the start is refused. Only a torn write at the very
//! end of the log is dropped; [`frame`](super::frame) says how that is known.

use std::io::{self, Read};
use std::sync::Arc;

use homeostat_core::Revision;
use jiff::Timestamp;

use super::acknowledged::{self, Acknowledged, USED};
use super::checkpoint::{self, Loaded, Unusable};
use super::files::Files;
use super::frame::{Found, Frame, Kind, find};
use super::log::{
    FORMAT, FORMAT_WITHOUT_ROOM, Log, Segment, Tail, checkpoint_name, checkpoint_revision, has_room,
    is_unfinished, log_name, log_revision,
};
use super::record;
use crate::writer::{Replay, Writer};
use crate::{Error, Snapshot};

const ADVICE: &str = "nothing was changed; restore the folder from a backup, or move it away to start empty";

/// What was found.
pub(super) struct Recovered {
    pub(super) log: Log,
    pub(super) acknowledged: Acknowledged,
    pub(super) checkpoint_bytes: u64,
}

/// Loads the folder into `writer` and opens its log.
pub(super) fn recover(
    files: &Arc<dyn Files>,
    writer: &mut Writer,
    segment_bytes_max: u64,
) -> Result<Recovered, Error> {
    let folder = Reading(&**files);
    let mut names = files.names().map_err(|error| folder.cannot_read("the folder", &error))?;
    names.sort_unstable();
    let loaded = folder.checkpoint(&names)?;
    let start = loaded.snapshot.revision();
    let logs = needed_logs(&names, start);
    folder.check_present(&logs, &names, start)?;

    let mut replay = writer.replay(loaded.snapshot);
    let mut older = Vec::new();
    let mut last = None;
    for (index, before) in logs.iter().enumerate() {
        let is_last = index + 1 == logs.len();
        let contents = folder.whole(&log_name(*before))?;
        let (record_at, end) = folder.replay(&mut replay, *before, &contents, is_last)?;
        if is_last {
            folder.check_end(*before, &contents)?;
            last = Some(Tail { before: *before, contents, record_at, end });
        } else {
            older.push(Segment { before: *before, bytes: end as u64 });
        }
    }
    folder.check_acknowledged(&names, last.as_ref().map_or(start, |last| last.before), replay.revision())?;
    let revision = replay.revision();
    replay.finish();
    let opened = remove_leftovers(&**files, &names, start, &logs).and_then(|()| {
        let log = match &last {
            Some(last) => Log::resume(Arc::clone(files), older, last, segment_bytes_max)?,
            None => Log::new(Arc::clone(files), start, segment_bytes_max)?,
        };
        let mut acknowledged = Acknowledged::open(&**files, &names)?;
        acknowledged.note(revision);
        Ok((log, acknowledged))
    });
    let (log, acknowledged) = opened.map_err(|error| Error::Open {
        path: files.place(),
        reason: format!("the log cannot be continued: {error}; make room or correct the permissions"),
    })?;
    Ok(Recovered { log, acknowledged, checkpoint_bytes: loaded.bytes })
}

/// The log files that hold commits after `start`: the last one that begins at or before it, and all later ones.
fn needed_logs(names: &[String], start: Revision) -> Vec<Revision> {
    let all: Vec<_> = names.iter().filter_map(|name| log_revision(name)).collect();
    let older = all.partition_point(|before| *before <= start).saturating_sub(1);
    all[older..].to_vec()
}

/// Removes what a crash left behind: unfinished files, and files a finished checkpoint had made needless.
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

/// Reading with errors that say where and what to do.
struct Reading<'a>(&'a dyn Files);

impl Reading<'_> {
    fn cannot_read(&self, what: &str, error: &io::Error) -> Error {
        Error::Open { path: self.0.place(), reason: format!("{what} cannot be read: {error}") }
    }

    fn damaged(&self, name: &str, what: &str) -> Error {
        Error::Corrupt { path: self.0.place(), reason: format!("{name}: {what}; {ADVICE}") }
    }

    fn whole(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut contents = Vec::new();
        let read = self.0.open(name).and_then(|mut file| file.read_to_end(&mut contents));
        read.map_err(|error| self.cannot_read(name, &error))?;
        Ok(contents)
    }

    /// The newest checkpoint, or the empty state.
    fn checkpoint(&self, names: &[String]) -> Result<Loaded, Error> {
        let Some(revision) = names.iter().filter_map(|name| checkpoint_revision(name)).next_back() else {
            return Ok(Loaded { snapshot: Snapshot::default(), bytes: 0 });
        };
        let name = checkpoint_name(revision);
        checkpoint::read(self.0, &name, revision).map_err(|unusable| match unusable {
            Unusable::Read(error) => self.cannot_read(&name, &error),
            Unusable::Damage(what) => self.damaged(&name, what),
        })
    }

    /// The first log must reach back to the checkpoint, and a store that has any file has a log.
    fn check_present(&self, logs: &[Revision], names: &[String], start: Revision) -> Result<(), Error> {
        let is_new = !names.iter().any(|name| name == USED || checkpoint_revision(name).is_some());
        match logs.first() {
            Some(first) if *first <= start => Ok(()),
            None if is_new => Ok(()),
            _ => Err(self.damaged(&log_name(start), "the log that begins here is missing")),
        }
    }

    /// The newest log file must be as long as it was: what is missing at its end was acknowledged.
    fn check_end(&self, before: Revision, contents: &[u8]) -> Result<(), Error> {
        let Found::Frame(first) = find(contents, 0) else { return Ok(()) };
        if first.payload == FORMAT_WITHOUT_ROOM || has_room(contents) {
            return Ok(());
        }
        Err(self.damaged(&log_name(before), "it is shorter than what was written to it"))
    }

    /// What was acknowledged must be there: the log file `before` is the newest, and `newest` the revision reached.
    fn check_acknowledged(&self, names: &[String], before: Revision, newest: Revision) -> Result<(), Error> {
        if !names.iter().any(|name| name == USED) {
            return Ok(());
        }
        let acknowledged = acknowledged::read(&self.whole(USED)?);
        if newest >= acknowledged {
            return Ok(());
        }
        let what = format!(
            "it ends at revision {newest}, and {acknowledged} was acknowledged (remove the file \"{USED}\" to go on without \
             what is missing)"
        );
        Err(self.damaged(&log_name(before), &what))
    }

    /// Feeds one log file into the replay and returns where its last whole frame begins and ends.
    fn replay(
        &self,
        replay: &mut Replay<'_>,
        before: Revision,
        contents: &[u8],
        is_last: bool,
    ) -> Result<(usize, usize), Error> {
        let name = log_name(before);
        let (mut last, mut at) = (0, 0);
        let mut newest = None;
        let mut is_continued = false;
        loop {
            match find(contents, at) {
                Found::Frame(frame) => {
                    let result = feed(replay, frame, before, newest);
                    newest = Some(result.map_err(|what| self.damaged(&name, what))?);
                    is_continued = frame.kind == Kind::Continued;
                    (last, at) = (at, at + frame.len());
                }
                Found::End if newest.is_none() => {
                    return Err(self.damaged(&name, "its first record is missing"));
                }
                Found::End if is_last && is_continued => {
                    return Err(self.damaged(&name, "the log file after it is missing"));
                }
                // Room that was not used, or a torn record that was not acknowledged. If it was a commit that others
                // build on, the next file's first record tells.
                Found::End => return Ok((last, at)),
                Found::Damage(what) => return Err(self.damaged(&name, what)),
            }
        }
    }
}

/// Feeds one frame; `newest` is the revision reached in this file, `None` before its first frame. Returns the
/// revision reached.
fn feed(
    replay: &mut Replay<'_>,
    frame: Frame<'_>,
    before: Revision,
    newest: Option<Revision>,
) -> Result<Revision, &'static str> {
    let revision = Revision::new(frame.revision);
    match (frame.kind, newest) {
        (Kind::LogStart, None) if revision != before => Err("its first record is of another file"),
        (Kind::LogStart, None) if frame.payload != FORMAT && frame.payload != FORMAT_WITHOUT_ROOM => {
            Err("it is in a layout this version does not know")
        }
        (Kind::LogStart, None) if before > replay.revision() => {
            Err("the log file before it is missing or cut short")
        }
        (Kind::LogStart, None) => Ok(before),
        (Kind::Closed | Kind::Continued, Some(newest)) if revision == newest => Ok(newest),
        (Kind::Commits, Some(newest)) if revision == newest.next() => {
            let changes = record::read_changes(frame.payload, revision).ok_or("a record does not decode")?;
            let last = changes.last().ok_or("a record is empty")?.revision;
            let time =
                Timestamp::from_millisecond(frame.time).map_err(|_| "a record has an impossible time")?;
            replay.apply(changes, time);
            Ok(last)
        }
        _ => Err("a record is out of place"),
    }
}
