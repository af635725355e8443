//! Splits a stream of chunks into lines without copying: a line within one chunk is a view of it, and only a line that
//! spans chunks is copied.

use bytes::{Buf, Bytes};

/// The line splitter. An incomplete line is never returned: the server died in the middle of it.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    chunk: Bytes,
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Adds the next chunk; the previous one must be used up.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "all lines are taken before the next chunk is added");
        self.chunk = chunk;
    }

    /// Returns the next whole line, without its line ending.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.chunk) else {
            self.partial.extend_from_slice(&self.chunk);
            self.chunk.clear();
            return None;
        };
        let head = self.chunk.split_to(end);
        self.chunk.advance(1);
        if self.partial.is_empty() {
            return Some(head);
        }
        self.partial.extend_from_slice(&head);
        Some(std::mem::take(&mut self.partial).into())
    }

    /// Returns the number of buffered bytes of an incomplete line.
    pub(super) fn pending_bytes(&self) -> usize {
        self.partial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&'static str], expected: &[&str]) {
        let mut lines = LineSplitter::default();
        let mut found = Vec::new();
        for chunk in chunks {
            lines.feed(Bytes::from_static(chunk.as_bytes()));
            found.extend(std::iter::from_fn(|| lines.next()));
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_inside_and_across_chunks() {
        check(&["a\nb\n"], &["a", "b"]);
        check(&["a", "b\nc", "\n"], &["ab", "c"]);
        check(&["a\n", "", "tail without end"], &["a"]);
        check(&["\n\n"], &["", ""]);
    }
}
