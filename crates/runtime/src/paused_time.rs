//! Stops virtual time while something real is awaited: a socket, a process, a file.
//!
//! Tests use this for servers in other processes, and plans use it for a world's reads.

/// Keeps virtual time stopped while it exists.
///
/// Paused time jumps ahead whenever every task is waiting, even when one waits for something outside the process. Hold
/// this in the meantime; otherwise the timeouts of the waiting task expire before the response arrives.
pub struct PausedTime(
    #[expect(dead_code, reason = "its end is what the blocking task waits for")] std::sync::mpsc::Sender<()>,
);

impl PausedTime {
    /// Stops virtual time until it is dropped. Needs a tokio runtime.
    #[expect(clippy::new_without_default, reason = "it begins to act here, which a default does not")]
    pub fn new() -> Self {
        // tokio does not advance a paused clock while a blocking task runs.
        let (sender, receiver) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            let _ = receiver.recv();
        });
        Self(sender)
    }
}
