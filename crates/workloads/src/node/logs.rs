//! Reads containers' logs, for the server's `pods/log`.
//!
//! A log has at most two files of bounded size (see `supervisor::log_file`), so the existing part is read in one go.
//! New lines are read as fast as the client consumes them. A task opens every new file as soon as it appears, so that a
//! client slower than the container loses nothing: an open file can be read even after it was removed.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use homeostat_core::container_log::{LogRefusal, LogRequest};
use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::supervisor::log_file::rotated_path;
use super::supervisor::node_layout::NodeLayout;
use super::supervisor::protocol::{ContainerKey, RunState};
use super::supervisor_client::SupervisorClient;

/// How often a follower looks for new lines.
const FOLLOW_PAUSE: Duration = Duration::from_millis(50);
/// How many files are kept open for a client that is slower than the container: 320 MiB. Beyond that, the client loses
/// lines.
const FILES_MAX: usize = 32;
/// How often to reopen the files if the log was rotated in the meantime; nothing rotates that fast for long.
const OPEN_TRIES_MAX: u32 = 8;

/// The logs of a node's containers. Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    pub(super) layout: NodeLayout,
    pub(super) supervisor: Arc<SupervisorClient>,
}

impl Logs {
    /// Reads the log as a stream of chunks. It ends after the existing lines, or when the followed run ends.
    pub async fn read(&self, query: LogRequest) -> Result<BoxStream<'static, Vec<u8>>, LogRefusal> {
        let id = ContainerKey { pod: query.pod.clone(), container: query.container.clone() };
        let attempt = self.attempt(&id, query.previous)?;
        let path = self.layout.log(&id, attempt);
        let (older, newest) = open_both(&path).await?;
        let inode = newest.inode;
        // From here on, no file is missed.
        let files = query.follow.then(|| {
            let watch =
                LogFollower { supervisor: Arc::clone(&self.supervisor), id, attempt, path, newest: inode };
            NewLogFiles::watch(watch)
        });
        let mut reader = LogReader::new(newest.file, &query);
        let standing = reader.read_existing(older, query.tail).await?;
        Ok(limit_bytes(standing, follow_files(reader, files), query.limit_bytes))
    }

    fn attempt(&self, id: &ContainerKey, previous: bool) -> Result<u32, LogRefusal> {
        let runs = self.supervisor.runs_of_pod(&id.pod);
        let runs = runs.get(&id.container).ok_or(LogRefusal::NotStarted)?;
        if previous {
            return runs.previous.as_ref().map(|run| run.attempt).ok_or(LogRefusal::NoPrevious);
        }
        match (&runs.current.state, &runs.previous) {
            // The next run has not written anything yet: users want to see the previous one.
            (RunState::Starting, Some(previous)) => Ok(previous.attempt),
            (RunState::Starting, None) => Err(LogRefusal::NotStarted),
            _ => Ok(runs.current.attempt),
        }
    }
}

/// Follows a run's log. It holds the run, with which the stream ends, and the newest known log file.
struct LogFollower {
    supervisor: Arc<SupervisorClient>,
    id: ContainerKey,
    attempt: u32,
    path: PathBuf,
    newest: u64,
}

impl LogFollower {
    fn is_over(&self) -> bool {
        let runs = self.supervisor.runs_of_pod(&self.id.pod);
        runs.get(&self.id.container)
            .is_none_or(|runs| runs.current.attempt != self.attempt || runs.current.is_over())
    }

    /// Returns the new files, oldest first.
    async fn new_files(&mut self) -> Vec<File> {
        let Ok((older, newest)) = open_both(&self.path).await else { return Vec::new() };
        let known = std::mem::replace(&mut self.newest, newest.inode);
        if newest.inode == known {
            return Vec::new();
        }
        // If the previous file is also new, two were started since the last check.
        let older = older.filter(|older| older.inode != known);
        older.into_iter().chain([newest]).map(|opened| opened.file).collect()
    }

    /// Sends new files until the run is over and its last file has been sent.
    async fn run(mut self, files: mpsc::Sender<File>) {
        loop {
            // This is checked before looking for files, so that everything written before the end is found.
            let is_over = self.is_over();
            for file in self.new_files().await {
                if files.send(file).await.is_err() {
                    return;
                }
            }
            if is_over {
                return;
            }
            sleep(FOLLOW_PAUSE).await;
        }
    }
}

/// The log files after the one being read; the channel closes when there will be no more.
struct NewLogFiles {
    receiver: mpsc::Receiver<File>,
    _task: AbortOnDropHandle<()>,
}

impl NewLogFiles {
    fn watch(watch: LogFollower) -> Self {
        let (sender, receiver) = mpsc::channel(FILES_MAX);
        Self { receiver, _task: AbortOnDropHandle::new(tokio::spawn(watch.run(sender))) }
    }
}

/// An open log file, and the number that distinguishes it from others with the same name.
struct OpenedLog {
    file: File,
    inode: u64,
}

/// Opens the rotated file, if there is one, and the newest one.
async fn open_both(path: &Path) -> Result<(Option<OpenedLog>, OpenedLog), LogRefusal> {
    let mut newest = open(path).await;
    for _ in 0..OPEN_TRIES_MAX {
        let older = open(&rotated_path(path)).await.ok();
        let again = open(path).await;
        if let (Ok(before), Ok(after)) = (&newest, &again)
            && before.inode == after.inode
            && older.as_ref().is_none_or(|older| older.inode != after.inode)
        {
            return Ok((older, newest.map_err(unreadable)?));
        }
        // The log was rotated in the meantime: the opened files do not belong together.
        newest = again;
    }
    Ok((None, newest.map_err(unreadable)?))
}

async fn open(path: &Path) -> std::io::Result<OpenedLog> {
    let file = File::open(path).await?;
    let inode = file.metadata().await?.ino();
    Ok(OpenedLog { file, inode })
}

/// Reads the records of one log and formats them.
struct LogReader {
    file: File,
    begun: Vec<u8>,
    shape: LogFormat,
}

/// Which records are shown, and how.
struct LogFormat {
    since: Option<Timestamp>,
    timestamps: bool,
    is_inside_line: bool,
}

impl LogReader {
    fn new(file: File, query: &LogRequest) -> Self {
        let shape = LogFormat { since: query.since, timestamps: query.timestamps, is_inside_line: false };
        Self { file, begun: Vec::new(), shape }
    }

    /// Returns everything written so far, limited to the last lines.
    async fn read_existing(
        &mut self,
        older: Option<OpenedLog>,
        tail: Option<u64>,
    ) -> Result<Vec<u8>, LogRefusal> {
        let mut bytes = Vec::new();
        if let Some(mut older) = older {
            older.file.read_to_end(&mut bytes).await.map_err(unreadable)?;
        }
        self.file.read_to_end(&mut bytes).await.map_err(unreadable)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.begun = bytes.split_off(whole);
        let from = tail.map_or(0, |lines| last_lines(&bytes, lines));
        Ok(self.shape.format_records(&bytes[from..]))
    }

    /// Returns the data added since the last read, if any.
    async fn read_more(&mut self) -> Vec<u8> {
        // A failed read looks like the end, which is all a follower can use.
        let _ = self.file.read_to_end(&mut self.begun).await;
        let whole = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.begun.split_off(whole);
        let records = std::mem::replace(&mut self.begun, rest);
        self.shape.format_records(&records)
    }

    /// Waits a moment for the next file and continues with it; nothing more is added to the previous one.
    async fn advance(&mut self, files: &mut NewLogFiles) -> FollowStep {
        match timeout(FOLLOW_PAUSE, files.receiver.recv()).await {
            Err(_) => FollowStep::Wait,
            Ok(next) => {
                let last = self.read_more().await;
                match next {
                    Some(file) => {
                        self.file = file;
                        FollowStep::Next(last)
                    }
                    None => FollowStep::End(last),
                }
            }
        }
    }
}

/// The result of an attempt to continue, with the last bytes of the file.
enum FollowStep {
    Wait,
    Next(Vec<u8>),
    End(Vec<u8>),
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
fn unreadable(error: std::io::Error) -> LogRefusal {
    LogRefusal::Unreadable(error.to_string())
}

impl LogFormat {
    /// Formats records for the client.
    fn format_records(&mut self, records: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(records.len());
        for record in records.split_inclusive(|byte| *byte == b'\n') {
            if let Some(record) = LogRecord::parse(record) {
                self.format_record(&record, &mut out);
            }
        }
        out
    }

    fn format_record(&mut self, record: &LogRecord<'_>, out: &mut Vec<u8>) {
        if self.since.is_some_and(|since| record.time.parse::<Timestamp>().is_ok_and(|time| time < since)) {
            return;
        }
        if self.timestamps && !self.is_inside_line {
            out.extend_from_slice(record.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(record.text);
        if record.is_whole {
            out.push(b'\n');
        }
        self.is_inside_line = !record.is_whole;
    }
}

/// One line of the file: `TIME stdout F text`.
struct LogRecord<'a> {
    time: &'a str,
    text: &'a [u8],
    is_whole: bool,
}

impl<'a> LogRecord<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let is_whole = parts.nth(1)? == b"F";
        Some(Self { time, text: parts.next()?, is_whole })
    }
}

/// Returns where the last lines begin; parts of a line count together with its end.
fn last_lines(records: &[u8], lines: u64) -> usize {
    let mut left = lines;
    let mut from = records.len();
    for record in records.split_inclusive(|byte| *byte == b'\n').rev() {
        let is_end_of_line =
            LogRecord::parse(record).is_some_and(|record| record.is_whole) || from == records.len();
        if is_end_of_line {
            if left == 0 {
                break;
            }
            left -= 1;
        }
        from -= record.len();
    }
    from
}

/// Streams the lines that follow the existing ones until the log ends. Without files to follow, the stream is empty.
fn follow_files(reader: LogReader, files: Option<NewLogFiles>) -> BoxStream<'static, Vec<u8>> {
    let Some(files) = files else { return stream::empty().boxed() };
    stream::unfold(Some((reader, files)), |state| async move {
        let (mut reader, mut files) = state?;
        loop {
            let more = reader.read_more().await;
            if !more.is_empty() {
                return Some((more, Some((reader, files))));
            }
            match reader.advance(&mut files).await {
                FollowStep::Wait => {}
                FollowStep::Next(last) => return Some((last, Some((reader, files)))),
                FollowStep::End(last) => return Some((last, None)),
            }
        }
    })
    .boxed()
}

fn limit_bytes(
    standing: Vec<u8>,
    rest: BoxStream<'static, Vec<u8>>,
    limit: Option<u64>,
) -> BoxStream<'static, Vec<u8>> {
    let all = stream::once(async { standing }).chain(rest).filter(|piece| {
        let has_text = !piece.is_empty();
        async move { has_text }
    });
    let Some(limit) = limit else { return all.boxed() };
    let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
    all.map(move |mut piece| {
        piece.truncate(left);
        left -= piece.len();
        (piece, left == 0)
    })
    .scan(false, |is_spent, (piece, is_last)| {
        let next = (!*is_spent).then_some(piece);
        *is_spent |= is_last;
        async move { next }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01T00:00:00Z stdout F a\n2026-01-01T00:00:01Z stdout P b\n\
                       2026-01-01T00:00:02Z stdout F c\n2026-01-01T00:00:03Z stdout F \n";

    #[track_caller]
    fn check(tail: Option<u64>, since: Option<&str>, timestamps: bool, expected: &str) {
        let mut shape =
            LogFormat { since: since.map(|text| text.parse().unwrap()), timestamps, is_inside_line: false };
        let from = tail.map_or(0, |lines| last_lines(LOG.as_bytes(), lines));
        assert_eq!(String::from_utf8(shape.format_records(&LOG.as_bytes()[from..])).unwrap(), expected);
    }

    #[test]
    fn records_are_shown_as_asked() {
        check(None, None, false, "a\nbc\n\n");
        check(Some(0), None, false, "");
        check(Some(1), None, false, "\n");
        check(Some(2), None, false, "bc\n\n");
        check(Some(9), None, false, "a\nbc\n\n");
        check(None, Some("2026-01-01T00:00:03Z"), false, "\n");
        check(Some(2), None, true, "2026-01-01T00:00:01Z bc\n2026-01-01T00:00:03Z \n");
    }

    #[tokio::test]
    async fn a_limit_cuts_and_ends() {
        let pieces = stream::iter([b"cdef".to_vec(), b"gh".to_vec()]).boxed();
        let all = limit_bytes(b"ab".to_vec(), pieces, Some(3)).collect::<Vec<_>>().await;
        assert_eq!(all, [b"ab".to_vec(), b"c".to_vec()]);
    }
}
