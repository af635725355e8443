//! Writes the lines of the audit log in its own thread.
//!
//! **Invariant:** at most [`BUFFER_BYTES_MAX`] of lines wait for the disk. A caller with more waits until there is
//! room. A line is dropped only at the end of a stream, where the caller cannot wait, which is counted and logged.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use homeostat_core::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::log_files::{LogFiles, RotationLimits};
use super::policy::{AuditDecision, AuditPolicy, AuditedRequest};

/// The maximum size of the waiting lines: enough for about a hundred requests with large bodies, or ten thousand
/// without.
const BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The unit in which that size is counted.
const UNIT_BYTES: usize = 1024;
/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// The audit log of a server.
#[derive(Debug)]
pub struct AuditLog {
    policy: AuditPolicy,
    lines: Option<mpsc::Sender<WaitingLine>>,
    room: Arc<Semaphore>,
    lost: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// A line that waits for the disk, and the buffer space it occupies.
struct WaitingLine {
    text: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

enum LogTarget {
    StandardOutput,
    Files(LogFiles),
}

impl AuditLog {
    /// Opens the log for this policy. The path `-` means standard output.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn open(policy: AuditPolicy, path: &Path, limits: RotationLimits, clock: Clock) -> io::Result<Self> {
        let mut target = if path.as_os_str() == STANDARD_OUTPUT {
            LogTarget::StandardOutput
        } else {
            LogTarget::Files(LogFiles::open(path.to_owned(), limits, clock)?)
        };
        let (lines, waiting) = mpsc::channel::<WaitingLine>();
        let write = move || {
            for line in waiting {
                if let Err(error) = target.write(&line.text) {
                    tracing::error!(%error, "cannot write the audit log");
                }
            }
        };
        let writer = std::thread::Builder::new().name("audit-log".to_owned()).spawn(write)?;
        Ok(Self {
            policy,
            lines: Some(lines),
            room: Arc::new(Semaphore::new(BUFFER_BYTES_MAX / UNIT_BYTES)),
            lost: AtomicU64::new(0),
            writer: Mutex::new(Some(writer)),
        })
    }

    pub(super) fn decide(&self, request: &AuditedRequest<'_>) -> AuditDecision {
        self.policy.decide(request)
    }

    /// Passes a line to the writer as soon as there is room.
    pub(super) async fn write(&self, line: Vec<u8>) {
        if let Ok(room) = Arc::clone(&self.room).acquire_many_owned(units_of(&line)).await {
            self.hand_over(line, room);
        }
    }

    /// Passes a line to the writer if there is room now; otherwise drops it.
    pub(super) fn try_write(&self, line: Vec<u8>) {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(units_of(&line)) {
            self.hand_over(line, room);
        } else {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::error!(lost, "the audit log is too slow for its requests: a line was left out");
        }
    }

    fn hand_over(&self, text: Vec<u8>, room: OwnedSemaphorePermit) {
        if let Some(lines) = &self.lines {
            // The writer stops only after the last sender is dropped.
            let _ = lines.send(WaitingLine { text, _room: room });
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.lines = None;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // Pending lines are written first. A panic in the writer was reported when it happened.
            let _ = writer.join();
        }
    }
}

fn units_of(line: &[u8]) -> u32 {
    let units = line.len().div_ceil(UNIT_BYTES).clamp(1, BUFFER_BYTES_MAX / UNIT_BYTES);
    u32::try_from(units).unwrap_or(u32::MAX)
}

impl LogTarget {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::StandardOutput => {
                let mut output = io::stdout().lock();
                output.write_all(lines)?;
                output.flush()
            }
            Self::Files(files) => files.write(lines),
        }
    }
}
