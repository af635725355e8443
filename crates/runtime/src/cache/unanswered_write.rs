//! Our writes that have not been answered yet: the watch may show them before the answer arrives.

use homeostat_core::Key;

use super::{ObjectCache, WritingRun};

/// A write of ours in progress.
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
