//! Divides files into frames, each with two checksums, and determines what a broken frame means.
//!
//! ```text
//! magic 4 | kind 4 | length 4 | header check 4 | revision 8 | time 8 | payload check 8 | payload | end mark 1
//! ```
//! Numbers are little-endian. The header has its own checksum, so that its length can be trusted.
//!
//! **A broken frame is either a torn write or damage, and the two can be distinguished.** A power cut, a kill or a full
//! disk leaves each sector of a write either as written or never written (past the end of the file, or zeros). No frame
//! has a sector of zeros: it starts with the magic, ends with a mark, and JSON has none. A broken frame without a blank
//! sector was therefore written completely and may have been acknowledged: this is damage. So is any broken frame
//! before a good one, because a write starts only after the previous one was synced. Everything else was never
//! acknowledged.

use xxhash_rust::xxh3::xxh3_64;

/// Starts every frame. `0xff` and `0xfe` never occur in UTF-8 text, so no value contains a frame by accident.
const MAGIC: [u8; 4] = [0xff, b'H', b's', 0xfe];
const END_MARK: u8 = 0xfd;
pub(super) const HEADER_BYTES: usize = 40;
/// The smallest unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum FrameKind {
    /// The start of a log file; the revision is the one before its first commit.
    LogStart = 1,
    /// Consecutive commits; the revision is the first commit's.
    Commits = 2,
    /// The store was closed cleanly; everything before was acknowledged. Only earlier versions wrote this.
    Closed = 3,
    /// The start of a checkpoint of this revision.
    CheckpointStart = 4,
    /// Entries of a checkpoint.
    Entries = 5,
    /// The end of a checkpoint; the payload is the number of entries.
    CheckpointEnd = 6,
    /// The end of a log file: another one follows it.
    Continued = 7,
    /// The newest revision that was acknowledged.
    Acknowledged = 8,
    /// The start of a backup; the revision is that of the checkpoint it contains.
    BackupStart = 9,
    /// A file stored alongside the store, in a backup.
    Attachment = 10,
}

impl FrameKind {
    fn read(number: u32) -> Option<Self> {
        use FrameKind::{
            Acknowledged, Attachment, BackupStart, CheckpointEnd, CheckpointStart, Closed, Commits,
            Continued, Entries, LogStart,
        };
        let all = [
            LogStart,
            Commits,
            Closed,
            CheckpointStart,
            Entries,
            CheckpointEnd,
            Continued,
            Acknowledged,
            BackupStart,
            Attachment,
        ];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// A frame read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: FrameKind,
    pub(super) revision: u64,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// Returns the bytes it takes in a file.
    pub(super) fn len(&self) -> usize {
        HEADER_BYTES + self.payload.len() + 1
    }
}

/// A frame being written into a reusable buffer.
#[derive(Debug, Default)]
pub(super) struct FrameBuilder(Vec<u8>);

/// A buffer that one large batch grew beyond this size is released.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

impl FrameBuilder {
    /// Discards the last frame and starts the next one; the payload is appended to the result.
    pub(super) fn start(&mut self) -> &mut Vec<u8> {
        self.0.clear();
        self.0.shrink_to(BUFFER_BYTES_KEPT);
        self.0.resize(HEADER_BYTES, 0);
        &mut self.0
    }

    /// Completes the frame around the payload and returns its bytes.
    pub(super) fn finish(&mut self, kind: FrameKind, revision: u64, time: i64) -> &[u8] {
        let length = u32::try_from(self.0.len() - HEADER_BYTES).expect("batches are bounded far below 4 GiB");
        let payload_check = xxh3_64(&self.0[HEADER_BYTES..]);
        let header = &mut self.0[..HEADER_BYTES];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
        header[8..12].copy_from_slice(&length.to_le_bytes());
        header[16..24].copy_from_slice(&revision.to_le_bytes());
        header[24..32].copy_from_slice(&time.to_le_bytes());
        header[32..40].copy_from_slice(&payload_check.to_le_bytes());
        let check = header_check(header);
        header[12..16].copy_from_slice(&check);
        self.0.push(END_MARK);
        &self.0
    }
}

/// Returns a header's checksum, which does not cover the checksum field itself.
fn header_check(header: &[u8]) -> [u8; 4] {
    let mut covered = [0; HEADER_BYTES];
    covered.copy_from_slice(header);
    covered[12..16].fill(0);
    let check = xxh3_64(&covered).to_le_bytes();
    [check[0], check[1], check[2], check[3]]
}

/// A header that passed its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    kind: FrameKind,
    length: usize,
    revision: u64,
    time: i64,
    payload_check: u64,
}

impl FrameHeader {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let four = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let eight = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        if header[..4] != MAGIC || header[12..16] != header_check(header) {
            return None;
        }
        Some(Self {
            kind: FrameKind::read(four(4)?)?,
            length: four(8)? as usize,
            revision: eight(16)?,
            time: eight(24)?.cast_signed(),
            payload_check: eight(32)?,
        })
    }

    /// Returns the number of bytes after the header: payload and end mark.
    pub(super) fn body_bytes(&self) -> usize {
        self.length + 1
    }

    /// Returns the frame if its body is intact. The end mark may be missing, because the payload before it is complete.
    pub(super) fn with_body<'a>(&self, body: &'a [u8]) -> Option<Frame<'a>> {
        let (payload, mark) = body.split_at_checked(self.length)?;
        let is_whole = matches!(*mark, [END_MARK | 0]) && xxh3_64(payload) == self.payload_check;
        is_whole.then_some(Frame { kind: self.kind, revision: self.revision, time: self.time, payload })
    }
}

/// The result of looking for a frame at a position in a log file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameResult<'a> {
    Frame(Frame<'a>),
    /// Nothing from here on was acknowledged.
    End,
    /// Something that was written completely is broken, for this reason.
    Damage(&'static str),
}

/// Determines what is at position `at`.
pub(super) fn find_frame(file: &[u8], at: usize) -> FrameResult<'_> {
    let rest = &file[at..];
    let header = FrameHeader::read(rest);
    let whole = header.and_then(|header| {
        let body = rest.get(HEADER_BYTES..HEADER_BYTES + header.body_bytes())?;
        header.with_body(body)
    });
    if let Some(frame) = whole {
        return FrameResult::Frame(frame);
    }
    // The rest runs only once per file, because it reads to the end.
    if rest.iter().all(|byte| *byte == 0) {
        return FrameResult::End;
    }
    // If a frame's header is broken, only the frame's minimum size is known.
    let extent = HEADER_BYTES + header.map_or(1, |header| header.body_bytes());
    // A file that was cut short is rejected because the space at its end is missing, if its format requires that space.
    let is_cut = rest.len() < extent;
    if !is_cut && !has_blank_sector(file, at, extent) {
        return FrameResult::Damage("a record that was written whole fails its checksum");
    }
    if has_frame(&rest[1..]) {
        return FrameResult::Damage("a record is broken although a later one is whole");
    }
    FrameResult::End
}

/// Returns whether any sector of a frame at `at` is all zeros. The last sector counts up to its end: nothing follows a
/// torn write.
fn has_blank_sector(file: &[u8], at: usize, extent: usize) -> bool {
    let end = at + extent;
    let mut from = at;
    while from < end {
        let to = file.len().min((from / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if file[from..to].iter().all(|byte| *byte == 0) {
            return true;
        }
        from = to;
    }
    false
}

/// Returns whether there is a whole frame anywhere in `bytes`.
fn has_frame(bytes: &[u8]) -> bool {
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == MAGIC[0]);
    starts.map(|(at, _)| &bytes[at..]).any(|rest| {
        FrameHeader::read(rest).is_some_and(|header| {
            let body = rest.get(HEADER_BYTES..HEADER_BYTES + header.body_bytes());
            body.and_then(|body| header.with_body(body)).is_some()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut builder = FrameBuilder::default();
        builder.start().extend_from_slice(payload);
        builder.finish(FrameKind::Commits, 7, 8).to_vec()
    }

    #[test]
    fn a_frame_is_read_back() {
        let bytes = frame(b"payload");
        let expected = Frame { kind: FrameKind::Commits, revision: 7, time: 8, payload: b"payload" };
        assert_eq!(find_frame(&bytes, 0), FrameResult::Frame(expected));
        assert_eq!(find_frame(&bytes, bytes.len()), FrameResult::End);
    }

    #[test]
    fn a_write_cut_short_at_any_byte_is_the_end() {
        let bytes = frame(&[b'x'; 2000]);
        for length in 0..bytes.len() {
            assert_eq!(find_frame(&bytes[..length], 0), FrameResult::End, "{length}");
        }
    }

    #[test]
    fn a_write_that_misses_its_end_is_the_end_if_that_is_a_sector_and_damage_otherwise() {
        let before = frame(&[b'a'; 300]);
        let at = before.len();
        let whole = [before, frame(&[b'x'; 1300])].concat();
        let last_sector = whole.len() / SECTOR_BYTES * SECTOR_BYTES;
        for length in at + HEADER_BYTES..whole.len() {
            let mut file = whole[..length].to_vec();
            file.resize(4096, 0);
            let found = find_frame(&file, at);
            if length <= last_sector {
                assert_eq!(found, FrameResult::End, "{length}");
            } else if length < whole.len() - 1 {
                assert!(matches!(found, FrameResult::Damage(_)), "{length}");
            } else {
                assert!(matches!(found, FrameResult::Frame(_)), "all but the mark is there");
            }
        }
    }

    #[test]
    fn a_write_that_misses_any_sectors_is_the_end() {
        let mut file = frame(b"before");
        let at = file.len();
        file.extend(frame(&[b'x'; 1200]));
        let last_sector = file.len() / SECTOR_BYTES;
        for missing in 1..1_usize << (last_sector + 1) {
            let mut torn = file.clone();
            for place in (at..file.len()).filter(|place| missing >> (place / SECTOR_BYTES) & 1 == 1) {
                torn[place] = 0;
            }
            assert_eq!(find_frame(&torn, at), FrameResult::End, "sectors {missing:b}");
        }
    }

    #[test]
    fn any_flipped_bit_is_damage() {
        let mut file = frame(&[b'x'; 700]);
        let second = file.len();
        file.extend(frame(&[b'y'; 700]));
        for place in 0..file.len() {
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[place] ^= 1 << bit;
                let at = if place < second { 0 } else { second };
                assert!(
                    matches!(find_frame(&flipped, at), FrameResult::Damage(_)),
                    "bit {bit} of byte {place}"
                );
            }
        }
    }

    #[test]
    fn a_lost_sector_before_a_whole_frame_is_damage() {
        let mut file = frame(&[b'x'; 2000]);
        file.extend(frame(b"after"));
        file[512..1024].fill(0);
        assert!(matches!(find_frame(&file, 0), FrameResult::Damage(_)));
    }
}
