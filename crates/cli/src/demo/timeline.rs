//! Prints the timeline: one line per event, with the time since the start. Coloured on a terminal, plain in a pipe.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_core::Clock;
use tokio::time::Instant;

/// The width of the second field: `StatefulSet/orders` and a little more.
const WHO_WIDTH: usize = 26;

/// What a line reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// An observation.
    Seen,
    /// Something that the demo did.
    Did,
    /// Something that the demo broke.
    Broke,
    /// Something awaited has happened.
    Healed,
    /// Something awaited has not happened.
    Failed,
}

impl LineKind {
    /// Returns the word, and its terminal colour.
    fn word_and_colour(self) -> (&'static str, &'static str) {
        match self {
            Self::Seen => ("", "2"),
            Self::Did => ("apply", "36"),
            Self::Broke => ("break", "33"),
            Self::Healed => ("ok", "32"),
            Self::Failed => ("FAILED", "31"),
        }
    }
}

/// Writes the timeline. Clones write to the same timeline.
#[derive(Clone)]
pub(super) struct Timeline(Arc<TimelineState>);

struct TimelineState {
    clock: Clock,
    start: Instant,
    has_colours: bool,
    /// The last line about each object.
    last: Mutex<BTreeMap<String, String>>,
}

impl Timeline {
    pub(super) fn new() -> Self {
        let clock = Clock::system();
        let has_colours = std::io::stdout().is_terminal();
        Self(Arc::new(TimelineState { clock, start: clock.instant(), has_colours, last: Mutex::default() }))
    }

    /// Returns the time since an instant.
    pub(super) fn since(&self, earlier: Instant) -> Duration {
        self.0.clock.since(earlier)
    }

    pub(super) fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Prints a heading.
    pub(super) fn heading(&self, words: &str) {
        let words =
            if self.0.has_colours { format!("\n\x1b[1m{words}\x1b[0m\n") } else { format!("\n{words}\n") };
        write_to_stdout(&words);
    }

    /// Prints a line.
    pub(super) fn line(&self, kind: LineKind, who: &str, words: &str) {
        let (word, colour) = kind.word_and_colour();
        let time = format!("{:7.2} s", self.since(self.0.start).as_secs_f64());
        write_to_stdout(&if self.0.has_colours {
            format!("\x1b[2m{time}\x1b[0m  \x1b[{colour}m{word:<6}  {who:<WHO_WIDTH$}  {words}\x1b[0m\n")
        } else {
            format!("{time}  {word:<6}  {who:<WHO_WIDTH$}  {words}\n")
        });
    }

    /// Prints a line about a state, unless the last line about the same object said the same.
    pub(super) fn line_if_new(&self, who: &str, words: &str) {
        let is_new = {
            let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.insert(who.to_owned(), words.to_owned()).as_deref() != Some(words)
        };
        if is_new {
            self.line(LineKind::Seen, who, words);
        }
    }

    /// Prints a heading and, below it, the lines unchanged.
    pub(super) fn lines_under_heading(&self, heading: &str, lines: &[String]) {
        self.heading(heading);
        write_to_stdout(&(lines.join("\n") + "\n"));
    }
}

/// Writes to stdout. Ignores errors, because it does not matter if stdout is closed.
fn write_to_stdout(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Formats a duration for people: `340 ms`, `2.4 s`.
pub(super) fn short_duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let check =
            |millis, expected: &str| assert_eq!(short_duration(Duration::from_millis(millis)), expected);
        check(0, "0 ms");
        check(999, "999 ms");
        check(1250, "1.2 s");
    }
}
