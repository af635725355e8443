//! Interrupts long work on stored objects.
//!
//! Code that parses objects in a loop reports their sizes here, so that other tasks on the thread get their turn in
//! between. Work that reads little never waits, so that small servers and the simulator see no difference.

/// The number of bytes after which other tasks get their turn: a few milliseconds of parsing.
const BYTES_AT_ONCE: usize = 256 * 1024;

/// Work that yields to others from time to time.
#[derive(Debug, Default)]
pub(crate) struct YieldingWork {
    bytes: usize,
}

impl YieldingWork {
    /// Records that this many bytes were parsed, and yields if it is time.
    pub(crate) async fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_AT_ONCE {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn only_much_work_yields() {
        let mut work = YieldingWork::default();
        assert!(work.add(BYTES_AT_ONCE).now_or_never().is_some());
        assert!(work.add(1).now_or_never().is_none());
        assert!(work.add(1).now_or_never().is_some(), "and begins again");
    }
}
