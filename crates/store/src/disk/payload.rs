//! Encodes and decodes the contents of frames: commits as lists of changes, checkpoints as lists of entries. Bytes are
//! stored exactly as they are served.
//!
//! The checksums of [`frame`](super::frame) are checked before anything is decoded here, so a payload that cannot be
//! decoded comes from another version or from a bug; it is rejected, never guessed at.

use std::sync::Arc;

use bytes::Bytes;
use homeostat_core::{Key, Revision};

use crate::entry::StoredValue;
use crate::writer::Change;
use crate::{Entry, Event};

const DELETED: u8 = 1;
const PLAIN: u8 = 2;
const WITH_DIGITS: u8 = 3;
/// An entry with a tag: one more byte, followed by one of the two forms above.
const WITH_TAG: u8 = 4;

/// Appends the events of a batch. They are in order of revision, and each revision has at least one.
pub(super) fn put_events(out: &mut Vec<u8>, events: &[Arc<Event>]) {
    for commit in events.chunk_by(|left, right| left.revision == right.revision) {
        put_number(out, commit.len());
        for event in commit {
            put_change(out, &event.key, event.new.as_deref());
        }
    }
}

/// Appends the changes in commits, as [`put_events`] does.
pub(super) fn put_changes(out: &mut Vec<u8>, changes: &[Change]) {
    for commit in changes.chunk_by(|left, right| left.revision == right.revision) {
        put_number(out, commit.len());
        for change in commit {
            put_change(out, &change.key, change.new.as_deref());
        }
    }
}

fn put_change(out: &mut Vec<u8>, key: &Key, new: Option<&Entry>) {
    match new {
        None => {
            out.push(DELETED);
            put_bytes(out, key.as_str().as_bytes());
        }
        Some(entry) => put_entry(out, entry),
    }
}

/// Appends a checkpoint entry, with its revision.
pub(super) fn put_stored(out: &mut Vec<u8>, entry: &Entry) {
    out.extend_from_slice(&entry.revision.get().to_le_bytes());
    put_entry(out, entry);
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    if entry.tag != 0 {
        out.extend_from_slice(&[WITH_TAG, entry.tag]);
    }
    out.push(if entry.digits.is_some() { WITH_DIGITS } else { PLAIN });
    put_bytes(out, entry.key.as_str().as_bytes());
    if let Some((from, to)) = entry.digits {
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&to.to_le_bytes());
    }
    put_bytes(out, &entry.bytes);
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("batches and values are bounded far below 4 GiB");
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Reads the changes of consecutive commits, starting at revision `first`; `None` if they cannot be decoded.
pub(super) fn read_changes(payload: &[u8], first: Revision) -> Option<Vec<Change>> {
    let mut reader = PayloadReader(payload);
    let mut changes = Vec::new();
    let mut revision = first;
    while !reader.0.is_empty() {
        let count = reader.number()?;
        for _ in 0..count {
            let (key, new) = reader.change(revision)?;
            changes.push(Change { revision, key, new });
        }
        revision = revision.next();
    }
    Some(changes)
}

/// Reads the entries of one frame of a checkpoint; `None` if they cannot be decoded.
pub(super) fn read_stored(payload: &[u8]) -> Option<Vec<Arc<Entry>>> {
    let mut reader = PayloadReader(payload);
    let mut entries = Vec::new();
    while !reader.0.is_empty() {
        let revision = Revision::new(u64::from_le_bytes(reader.take(8)?.try_into().ok()?));
        entries.push(reader.change(revision)?.1?);
    }
    Some(entries)
}

/// The rest of a payload.
struct PayloadReader<'a>(&'a [u8]);

impl<'a> PayloadReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().map(u32::from_le_bytes).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(count as usize)
    }

    fn change(&mut self, revision: Revision) -> Option<(Key, Option<Arc<Entry>>)> {
        let mut shape = self.byte()?;
        let mut tag = 0;
        if shape == WITH_TAG {
            tag = self.byte()?;
            shape = self.byte().filter(|shape| *shape != DELETED)?;
        }
        let key = Key::parse(std::str::from_utf8(self.bytes()?).ok()?)?;
        let digits = match shape {
            DELETED => return Some((key, None)),
            PLAIN => None,
            WITH_DIGITS => Some((self.number()?, self.number()?)),
            _ => return None,
        };
        let bytes = Bytes::copy_from_slice(self.bytes()?);
        let is_inside = digits.is_none_or(|(from, to)| from <= to && to as usize <= bytes.len());
        let entry = Entry::stored(key.clone(), revision, StoredValue { bytes, digits, tag });
        is_inside.then(|| (key, Some(Arc::new(entry))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn events() -> Vec<Arc<Event>> {
        let event = |revision, name: &str, value: Option<Value>| {
            let (key, revision) = (Key::new("", "pods", "default", name), Revision::new(revision));
            let new = value.map(|value| Arc::new(Entry::new(key.clone(), revision, &value)));
            Arc::new(Event { revision, key, new, old: None })
        };
        let with_hole = Value { hole: Some(1), ..Value::plain("{}") };
        let tagged = Value { tag: 9, ..with_hole.clone() };
        vec![
            event(7, "a", Some(Value::plain("x"))),
            event(7, "b", None),
            event(8, "c", Some(with_hole)),
            event(8, "d", Some(tagged)),
        ]
    }

    #[test]
    fn changes_are_read_back() {
        let mut payload = Vec::new();
        put_events(&mut payload, &events());
        let changes = read_changes(&payload, Revision::new(7)).expect("it was just written");
        let shown: Vec<_> = changes
            .iter()
            .map(|change| {
                let entry = change
                    .new
                    .as_ref()
                    .map(|entry| (entry.bytes.to_vec(), entry.digits, entry.tag, entry.revision.get()));
                (change.revision.get(), change.key.name(), entry)
            })
            .collect();
        let expected = [
            (7, "a", Some((b"x".to_vec(), None, 0, 7))),
            (7, "b", None),
            (8, "c", Some((b"{8}".to_vec(), Some((1, 2)), 0, 8))),
            (8, "d", Some((b"{8}".to_vec(), Some((1, 2)), 9, 8))),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_does_not_decode_is_refused_without_a_panic() {
        let mut payload = Vec::new();
        put_events(&mut payload, &events());
        for length in 1..payload.len() {
            // A payload cut between two commits decodes to the first of them.
            let changes = read_changes(&payload[..length], Revision::new(7));
            assert!(changes.is_none_or(|changes| changes.len() == 2), "{length}");
        }
        for place in 0..payload.len() {
            for byte in 0..=u8::MAX {
                let mut changed = payload.clone();
                changed[place] = byte;
                // Whatever the result, this must not panic.
                let _ = read_changes(&changed, Revision::new(7));
            }
        }
    }
}
