//! Reports progress on stderr: one line that is overwritten on a terminal, and an occasional line elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::FaultAtAddress;

/// The pause between two lines if lines cannot be overwritten.
const PAUSE: Duration = Duration::from_secs(5);
/// The width of a line on a terminal.
const WIDTH: usize = 100;

/// Prints the progress.
pub(super) struct ProgressLine {
    is_terminal: bool,
    begun: Instant,
    told: Mutex<PrintedLine>,
}

/// The last line.
#[derive(Default)]
struct PrintedLine {
    text: String,
    at: Option<Instant>,
}

impl ProgressLine {
    /// Creates one that writes to stderr.
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { is_terminal, begun: Instant::now(), told: Mutex::default() }
    }

    /// Prints what happens now.
    pub(super) fn tell(&self, what: &str) {
        {
            let mut told = self.told();
            what.clone_into(&mut told.text);
            told.at = Some(Instant::now());
        }
        self.print(what);
    }

    /// Prints which run begins; if stderr is not a terminal, only now and then.
    pub(super) fn tell_run(&self, number: usize, runs_max: usize, faults: &[FaultAtAddress]) {
        let told_at = self.told().at;
        if self.is_terminal || number == 1 || told_at.is_none_or(|told| told.elapsed() >= PAUSE) {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            self.tell(&format!("run {number} of at most {runs_max}: {}", faults.join("; ")));
        }
    }

    /// Counts the seconds of the line on a terminal. Never returns.
    pub(super) async fn tick(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let text = self.told().text.clone();
            if self.is_terminal && !text.is_empty() {
                self.print(&text);
            }
        }
    }

    fn print(&self, what: &str) {
        let seconds = self.begun.elapsed().as_secs();
        let line = format!("[{seconds:>3} s] {what}");
        // It does not matter if stderr is closed.
        if self.is_terminal {
            let line: String = line.chars().take(WIDTH).collect();
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        } else {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    fn told(&self) -> MutexGuard<'_, PrintedLine> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clears the line, so that subsequent output begins at its start.
    pub(super) fn end(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}
