//! Reads a container's termination message: the text it wrote to its message file, or the end of its log if the policy
//! says so.
//!
//! The sizes are the same as in Kubernetes. The file belongs to the container, which may have replaced it with
//! anything: only a regular file is read or truncated, no link is followed, and nothing blocks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::node_layout::NodeLayout;
use super::protocol::{ContainerKey, RunExit};

/// The maximum length of a message; a longer one loses its beginning.
const BYTES_MAX: usize = 4096;
/// The maximum number of bytes and lines from a log, whichever is less.
const LOG_BYTES_MAX: usize = 2048;
const LOG_LINES_MAX: usize = 80;
/// How much of a log is read: enough for that many lines with their timestamps, and for parts of long lines.
const LOG_CHUNK_BYTES: u64 = 64 * 1024;

/// The places to look for a run's message.
pub(super) struct MessageSource {
    pub(super) id: ContainerKey,
    pub(super) attempt: u32,
    pub(super) falls_back_to_log: bool,
}

/// Removes the previous run's message.
pub(super) fn clear(layout: &NodeLayout, id: &ContainerKey) {
    // A container without a file has no message. Only a regular file is truncated, not the target of a link.
    if let Ok((file, length)) = open(&layout.message(id), OpenOptions::new().write(true))
        && length > 0
    {
        let _ = file.set_len(0);
    }
}

/// Returns the run's message, if there is one.
pub(super) fn read(layout: &NodeLayout, source: &MessageSource, exit: &RunExit) -> Option<String> {
    let written = tail(&layout.message(&source.id), BYTES_MAX as u64).ok().map(|(_, bytes)| bytes);
    let written = written.map(|bytes| bounded_text(&bytes, BYTES_MAX)).filter(|text| !text.is_empty());
    if written.is_some() || !source.falls_back_to_log || exit.is_success() {
        return written;
    }
    let log = layout.log(&source.id, source.attempt);
    let (is_cut, bytes) = tail(&log, LOG_CHUNK_BYTES).ok()?;
    Some(end_of_log(&bytes, is_cut)).filter(|text| !text.is_empty())
}

/// Opens a regular file and returns its length; does not follow a link and does not block.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(File, u64)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path)?;
    let length = Some(file.metadata()?).filter(fs::Metadata::is_file).map(|meta| meta.len());
    Ok((file, length.ok_or(io::ErrorKind::InvalidInput)?))
}

/// Returns the end of a regular file, and whether anything precedes it.
fn tail(path: &Path, bytes_max: u64) -> io::Result<(bool, Vec<u8>)> {
    let (mut file, length) = open(path, OpenOptions::new().read(true))?;
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok((length > bytes_max, bytes))
}

/// Returns the last lines of a log without their timestamps.
fn end_of_log(log: &[u8], is_cut: bool) -> String {
    let records = log.split(|byte| *byte == b'\n').skip(usize::from(is_cut));
    let mut said = Vec::new();
    for record in records {
        // `TIME stdout F text`; `P` if the line continues.
        let mut parts = record.splitn(4, |byte| *byte == b' ').skip(2);
        if let (Some(tag), Some(words)) = (parts.next(), parts.next()) {
            said.extend_from_slice(words);
            said.extend((tag == b"F").then_some(b'\n'));
        }
    }
    let ends = said.iter().enumerate().rev().filter(|(at, byte)| **byte == b'\n' && at + 1 < said.len());
    let from = ends.map(|(at, _)| at + 1).nth(LOG_LINES_MAX - 1).unwrap_or_default();
    bounded_text(&said[from..], LOG_BYTES_MAX)
}

/// Converts to text of at most this length: bytes that are not UTF-8 become longer.
fn bounded_text(bytes: &[u8], bytes_max: usize) -> String {
    let bytes = &bytes[bytes.len().saturating_sub(bytes_max)..];
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if text.len() > bytes_max {
        let from = text.ceil_char_boundary(text.len() - bytes_max);
        text.drain(..from);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: impl Iterator<Item = String>) -> Vec<u8> {
        lines.flat_map(|line| format!("2026-01-01T00:00:00Z stdout F {line}\n").into_bytes()).collect()
    }

    #[test]
    fn a_log_ends_with_few_lines() {
        let check = |log: &[u8], is_cut: bool, expected: &str| {
            assert_eq!(end_of_log(log, is_cut), expected);
        };
        check(b"", false, "");
        check(b"T stdout F a b\nT stdout P c\nT stdout P d\nT stdout F e\n", false, "a b\ncde\n");
        check(b"rest of one\nT stdout F whole\n", true, "whole\n");
        let last = (20..100).flat_map(|n| [n.to_string(), "\n".to_owned()]).collect::<String>();
        check(&log((0..100).map(|n| n.to_string())), false, &last);
        let long = end_of_log(&log((0..100).map(|n| format!("{n:099}"))), false);
        assert_eq!((long.len(), &long[long.len() - 3..]), (LOG_BYTES_MAX, "99\n"));
    }

    #[test]
    fn a_message_is_bounded_and_only_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let layout = NodeLayout::new(folder.path().to_owned());
        let id = ContainerKey { pod: "p".to_owned(), container: "c".to_owned() };
        let source = MessageSource { id: id.clone(), attempt: 0, falls_back_to_log: true };
        fs::create_dir_all(layout.container(&id)).unwrap();
        let said = |exit: i32| read(&layout, &source, &RunExit::Code(exit));
        assert_eq!(said(1), None, "there is neither file nor log");
        fs::write(layout.log(&id, 0), log(["broken".to_owned()].into_iter())).unwrap();
        fs::write(layout.message(&id), "").unwrap();
        assert_eq!((said(1).as_deref(), said(0)), (Some("broken\n"), None));
        fs::write(layout.message(&id), format!("{}end", "x".repeat(5000))).unwrap();
        assert!(said(0).is_some_and(|text| text.len() == BYTES_MAX && text.ends_with("xend")));
        fs::write(layout.message(&id), vec![0xff; 5000]).unwrap();
        assert!(said(0).is_some_and(|text| text.len() <= BYTES_MAX));
        clear(&layout, &id);
        assert_eq!(said(0), None);
        fs::remove_file(layout.message(&id)).unwrap();
        std::os::unix::fs::symlink(layout.log(&id, 0), layout.message(&id)).unwrap();
        assert_eq!(said(0), None, "nobody is led elsewhere");
        clear(&layout, &id);
        assert_ne!(fs::read(layout.log(&id, 0)).unwrap(), b"", "nor is anything cut there");
    }
}
