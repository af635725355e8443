//! Tracks our writes whose responses have not arrived yet: the watch may show them earlier.

use homeostat_core::Key;

use super::{ObjectCache, WritingRun};

/// One of our writes in progress.
pub(crate) struct UnansweredWrite {
    pub(super) cache: ObjectCache,
    pub(super) key: Key,
    pub(super) writer: WritingRun,
}

impl Drop for UnansweredWrite {
    fn drop(&mut self) {
        let mut writing = self.cache.writes_under_way();
        if let Some(writers) = writing.get_mut(&self.key) {
            if let Some(at) = writers.iter().position(|writer| *writer == self.writer) {
                writers.swap_remove(at);
            }
            if writers.is_empty() {
                writing.remove(&self.key);
            }
        }
    }
}
