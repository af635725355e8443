//! Writes a container's output line by line with timestamps, in the format of container runtimes: `TIME stdout F text`.
//!
//! stdout and stderr share one pipe, so that lines keep the order in which they were written; both are labelled
//! `stdout`. **Invariant:** one run never fills more than two files of [`FILE_BYTES_MAX`]: a full file is rotated, and
//! the previous one is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use homeostat_core::Clock;

use super::attach_point::OutputCopies;
use super::process_io::OutputReader;

/// The size at which a log file is rotated, as in the kubelet.
pub(crate) const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// The maximum length of a line; longer lines are written in parts, as in container runtimes.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// How much is read at a time: as much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// The log file of one run.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(Self { path, file, bytes: 0 })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.bytes + lines.len() as u64 > FILE_BYTES_MAX && self.bytes > 0 {
            self.file = self.replace()?;
            self.bytes = 0;
        }
        self.bytes += lines.len() as u64;
        self.file.write_all(lines)
    }

    /// Rotates the file and starts a new one. From the first rotation on, both names always exist; for a short time
    /// they name the same file.
    fn replace(&self) -> io::Result<File> {
        let (full, fresh) = (self.path.with_extension("log.full"), self.path.with_extension("log.new"));
        // Removes a file left by a supervisor that was killed at this point.
        let _ = fs::remove_file(&full);
        // Without hard links, there is a moment without a file; readers retry.
        let full = if fs::hard_link(&self.path, &full).is_ok() { &full } else { &self.path };
        fs::rename(full, rotated_path(&self.path))?;
        let file = open(&fresh)?;
        fs::rename(fresh, &self.path)?;
        Ok(file)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)
}

/// Returns the path of the older part of a log.
pub(crate) fn rotated_path(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// Copies the pipe to the file until every process that could write to it has closed it.
pub(super) async fn copy_to_log(
    mut pipe: OutputReader,
    mut log: LogFile,
    copies: OutputCopies,
    clock: Clock,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut lines = LineSplitter::default();
    loop {
        let count = match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        if copies.receiver_count() > 0 {
            // The last client may just have disconnected.
            let _ = copies.send(chunk[..count].into());
        }
        let text = lines.take(&chunk[..count], &clock.now().to_string());
        if let Err(error) = log.write(&text) {
            tracing::warn!(%error, file = %log.path.display(), "cannot write a container's log");
        }
    }
    let text = lines.rest(&clock.now().to_string());
    let _ = log.write(&text);
}

/// Splits a stream into lines.
#[derive(Default)]
struct LineSplitter {
    begun: Vec<u8>,
}

impl LineSplitter {
    /// Returns the lines that this chunk completes.
    fn take(&mut self, chunk: &[u8], time: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len() + 64);
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if self.begun.ends_with(b"\n") {
                write_line(&mut out, time, 'F', &self.begun[..self.begun.len() - 1]);
                self.begun.clear();
            }
            while self.begun.len() >= LINE_BYTES_MAX {
                write_line(&mut out, time, 'P', &self.begun[..LINE_BYTES_MAX]);
                self.begun.drain(..LINE_BYTES_MAX);
            }
        }
        out
    }

    /// Returns the text after the last line break.
    fn rest(&mut self, time: &str) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.begun.is_empty() {
            write_line(&mut out, time, 'P', &std::mem::take(&mut self.begun));
        }
        out
    }
}

fn write_line(out: &mut Vec<u8>, time: &str, tag: char, text: &[u8]) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{time} stdout {tag} ");
    out.extend_from_slice(text);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&str], expected: &str) {
        let mut lines = LineSplitter::default();
        let mut out: Vec<u8> = chunks.iter().flat_map(|chunk| lines.take(chunk.as_bytes(), "T")).collect();
        out.extend(lines.rest("T"));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn chunks_become_lines() {
        check(&["a\nb\n"], "T stdout F a\nT stdout F b\n");
        check(&["a", "b\n"], "T stdout F ab\n");
        check(&["\n"], "T stdout F \n");
        check(&["end"], "T stdout P end\n");
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let expected = format!("T stdout P {}\nT stdout F x\n", &long[1..]);
        check(&[&long, "\n"], &expected);
    }

    #[test]
    fn there_is_a_log_at_every_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = LogFile::create(path.clone()).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    File::open(&path).unwrap();
                }
            });
            for _ in 0..2000 {
                log.write(b"x").unwrap();
                log.bytes = FILE_BYTES_MAX;
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_full_file_is_set_aside_and_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = LogFile::create(path.clone()).unwrap();
        let chunk = vec![b'x'; usize::try_from(FILE_BYTES_MAX / 2).unwrap()];
        for _ in 0..7 {
            log.write(&chunk).unwrap();
        }
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!((size(&path), size(&rotated_path(&path))), (FILE_BYTES_MAX / 2, FILE_BYTES_MAX));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
