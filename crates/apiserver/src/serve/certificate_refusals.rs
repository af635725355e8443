//! Logs why a client certificate was refused: the client only gets a 401, as in Kubernetes.
//!
//! **Invariant:** at most one line per [`PAUSE`], no matter what clients present; the refusals in between are counted
//! in the next line.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// The pause between two lines: short enough for a user who tries a certificate and then reads the log, long enough
/// that an endlessly retrying client does not fill it.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// The maximum length of the logged subject: a name and a group or two. The client chooses the rest.
const SUBJECT_CHARS_MAX: usize = 100;

/// The log of refused certificates.
#[derive(Default)]
pub(super) struct CertificateRefusalLog(Mutex<RefusalLogState>);

#[derive(Default)]
struct RefusalLogState {
    logged_at: Option<Timestamp>,
    unlogged: u64,
}

impl CertificateRefusalLog {
    /// Logs the refusal, unless another one was logged a moment ago.
    pub(super) fn log_refusal(&self, now: Timestamp, subject: &str, reason: &str) {
        if let Some(line) = self.line(now, subject, reason) {
            tracing::warn!("{line}");
        }
    }

    fn line(&self, now: Timestamp, subject: &str, reason: &str) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.logged_at.is_some_and(|logged| now.duration_since(logged).abs() < PAUSE) {
            state.unlogged += 1;
            return None;
        }
        state.logged_at = Some(now);
        let others = match std::mem::take(&mut state.unlogged) {
            0 => String::new(),
            unlogged => format!(" ({unlogged} more were refused since the last line)"),
        };
        let subject: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
        Some(format!("client certificate of {subject:?} refused: {reason}{others}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_one_line_and_a_count() {
        let refused = CertificateRefusalLog::default();
        let at = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let first = refused.line(at(0), "CN=jane", "expired").unwrap();
        assert_eq!(first, "client certificate of \"CN=jane\" refused: expired");
        for second in [0, 1, 9] {
            assert_eq!(refused.line(at(second), "CN=jane", "expired"), None);
        }
        let next = refused.line(at(10), &format!("CN=\n{}", "x".repeat(1000)), "expired").unwrap();
        assert!(next.contains(" (3 more were refused") && next.len() < 250 && !next.contains('\n'), "{next}");
    }
}
