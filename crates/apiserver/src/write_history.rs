//! The history of writes: a bounded memory of recent writes, and of those that were refused, for `why`.
//!
//! A write costs a lock and a few clones: the stored states before and after it are kept, and compared only on request.
//! Events and Leases are not kept, because they are written all the time and say nothing here.
//!
//! **Invariant:** memory is bounded by the number of writes and by the bytes of the states they keep. **Invariant:** an
//! answer is given only to those who may get the object; it names other objects only to those who may get these.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_core::write_history::{ObjectHistory, OperatorJournal, Refusal, WriteRecord};
use homeostat_core::{FieldDiff, Key};
use homeostat_store::Entry;
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde_json::Value;

use crate::stored::encode;

/// The path at which the history of an object is served.
pub(crate) const PATH: &str = "/homeostat/history";

/// The most writes, and the most refusals: minutes of a busy server, days of a quiet one.
const WRITES_MAX: usize = 8192;

/// The most bytes of stored states that writes keep alive. The store's own window keeps most of them anyway.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The bytes that a write takes besides the states and texts.
const WRITE_BYTES: usize = 512;

/// The most letters of a refusal: some quote the whole object.
pub(crate) const MESSAGE_LETTERS_MAX: usize = 500;

/// The most letters of the other texts that clients choose (program, field manager, subresource). Kubernetes allows 128 for a field manager.
const TEXT_LETTERS_MAX: usize = 256;

/// The most bytes of the name of an object that is kept: no valid name is longer, and a refused write may have any.
const KEY_BYTES_MAX: usize = 1024;

/// The most writes of one object that are compared for an answer, and the most bytes of states that are parsed for it: what a person
/// reads, and some tenths of a second of work.
const COMPARED_MAX: usize = 200;
const COMPARED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Resources that are not kept.
const UNKEPT: [&str; 2] = ["events", "leases"];

/// The content type of server-side apply.
const APPLY: &str = "application/apply-patch";

/// What operators in this process did, kept by themselves.
pub trait JournalSource: Send + Sync {
    /// Returns what the operator did about an object.
    fn about(&self, object: &Key) -> OperatorJournal;
}

/// A recorded write.
#[derive(Clone)]
pub(crate) struct KeptWrite {
    pub(crate) at: Timestamp,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) verb: &'static str,
    pub(crate) target: Key,
    pub(crate) subresource: String,
    pub(crate) manager: String,
    pub(crate) before: Option<Arc<Entry>>,
    pub(crate) after: Option<Arc<Entry>>,
    pub(crate) refusal: Option<Refusal>,
}

/// The recent writes of a server.
#[derive(Default)]
pub(crate) struct WriteHistory {
    done: Mutex<WriteRing>,
    /// Refusals are kept apart: anyone can cause many of them.
    refused: Mutex<WriteRing>,
    journals: Mutex<Vec<Arc<dyn JournalSource>>>,
}

#[derive(Default)]
struct WriteRing {
    writes: VecDeque<KeptWrite>,
    bytes: usize,
    dropped: u64,
}

impl WriteHistory {
    /// Keeps a write.
    pub(crate) fn record(&self, mut write: KeptWrite) {
        if UNKEPT.contains(&write.target.resource()) || write.target.as_str().len() > KEY_BYTES_MAX {
            return;
        }
        if let Some(refusal) = &mut write.refusal {
            cut(&mut refusal.message, MESSAGE_LETTERS_MAX);
        }
        for text in [&mut write.user, &mut write.agent, &mut write.subresource, &mut write.manager] {
            cut(text, TEXT_LETTERS_MAX);
        }
        let ring = if write.refusal.is_some() { &self.refused } else { &self.done };
        let dropped = lock(ring).push(write);
        drop(dropped);
    }

    /// Adds an operator of this process.
    pub(crate) fn add_journal(&self, source: Arc<dyn JournalSource>) {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Returns what is known about an object, for a caller who may get it. Others are named only if `may_get` says so.
    pub(crate) fn about(&self, object: &Key, may_get: impl Fn(&Key) -> bool) -> ObjectHistory {
        // Only copied under the lock, which every write needs; compared afterwards.
        let (mut kept, since, dropped) = lock(&self.done).about(object);
        kept.extend(lock(&self.refused).about(object).0);
        kept.sort_by_key(|write| write.at);
        let mut bytes = 0;
        let mut writes: Vec<_> = kept
            .iter()
            .rev()
            .take(COMPARED_MAX)
            .map(|write| {
                bytes += write.weight();
                write.describe(bytes <= COMPARED_BYTES_MAX)
            })
            .collect();
        writes.reverse();
        let sources = self.journals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let operators = sources.iter().map(|source| {
            let mut journal = source.about(object);
            journal.records.retain(|record| {
                let others = record.entry.mentioned();
                others.iter().all(|key| key == object || key.group() == "outside" || may_get(key))
            });
            journal
        });
        ObjectHistory {
            writes,
            since: since.filter(|_| dropped > 0),
            dropped,
            operators: operators.collect(),
        }
    }
}

impl WriteRing {
    /// Adds a write; returns those that have no place any more, to be freed outside the lock.
    fn push(&mut self, write: KeptWrite) -> Vec<KeptWrite> {
        self.bytes += write.weight();
        self.writes.push_back(write);
        let mut dropped = Vec::new();
        while self.writes.len() > WRITES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.writes.pop_front() else { break };
            self.bytes -= oldest.weight();
            self.dropped += 1;
            dropped.push(oldest);
        }
        dropped
    }

    fn about(&self, object: &Key) -> (Vec<KeptWrite>, Option<Timestamp>, u64) {
        let writes = self.writes.iter().rev().filter(|write| write.target == *object).take(COMPARED_MAX);
        let since = self.writes.front().map(|write| write.at);
        (writes.cloned().collect(), since, self.dropped)
    }
}

impl KeptWrite {
    fn weight(&self) -> usize {
        let bytes = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.bytes.len());
        let message = self.refusal.as_ref().map_or(0, |refusal| refusal.message.len());
        let texts = [&self.user, &self.agent, &self.subresource, &self.manager];
        let texts = texts.iter().map(|text| text.len()).sum::<usize>() + self.target.as_str().len() + message;
        WRITE_BYTES + texts + bytes(&self.before) + bytes(&self.after)
    }

    /// Returns what is told of it, with the difference between the states before and after it unless that is too much work.
    fn describe(&self, is_compared: bool) -> WriteRecord {
        let value = |entry: &Arc<Entry>| -> Value { encode::decode(entry) };
        let diff = match (&self.before, &self.after) {
            (Some(before), Some(after)) if is_compared => {
                FieldDiff::between(&self.target, &value(before), &value(after))
            }
            _ => FieldDiff::default(),
        };
        WriteRecord {
            at: self.at,
            user: self.user.clone(),
            agent: self.agent.clone(),
            verb: self.verb.to_owned(),
            target: self.target.clone(),
            subresource: self.subresource.clone(),
            manager: self.manager.clone(),
            before: self.before.as_ref().map(|entry| entry.revision),
            after: self.after.as_ref().map(|entry| entry.revision),
            diff,
            refusal: self.refusal.clone(),
        }
    }
}

/// Returns the name of the verb of a write: apply is a patch with a type of its own.
pub(crate) fn verb_name(verb: &'static str, headers: &HeaderMap) -> &'static str {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if verb == "patch" && content_type.starts_with(APPLY) { "apply" } else { verb }
}

/// Returns the text of a header, as far as it is kept.
pub(crate) fn agent_text(value: Option<&HeaderValue>) -> String {
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.chars().take(TEXT_LETTERS_MAX).collect()
}

/// Cuts a text, and frees what was cut off.
fn cut(text: &mut String, letters_max: usize) {
    if let Some((end, _)) = text.char_indices().nth(letters_max) {
        text.truncate(end);
    }
    text.shrink_to_fit();
}

fn lock(ring: &Mutex<WriteRing>) -> MutexGuard<'_, WriteRing> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: usize, message: Option<&str>) -> KeptWrite {
        KeptWrite {
            at: Timestamp::UNIX_EPOCH,
            user: "dev".into(),
            agent: String::new(),
            verb: "patch",
            target: Key::new("", "configmaps", "a", &number.to_string()),
            subresource: String::new(),
            manager: String::new(),
            before: None,
            after: None,
            refusal: message.map(|message| Refusal { code: 403, message: message.to_owned() }),
        }
    }

    #[test]
    fn it_is_bounded_and_refusals_displace_no_writes() {
        let history = WriteHistory::default();
        (0..WRITES_MAX + 10).for_each(|number| history.record(write(number, None)));
        (0..WRITES_MAX + 10).for_each(|number| history.record(write(number, Some(&"x".repeat(9000)))));
        let about =
            |number: usize| history.about(&Key::new("", "configmaps", "a", &number.to_string()), |_| true);
        assert_eq!((about(9).writes.len(), about(9).dropped), (0, 10));
        let known = about(10);
        assert_eq!(known.writes.len(), 2, "one that was done, one that was refused");
        assert_eq!(
            known.writes[1].refusal.as_ref().map(|refusal| refusal.message.len()),
            Some(MESSAGE_LETTERS_MAX)
        );
        assert!(lock(&history.done).bytes <= BYTES_MAX);
    }

    /// A client chooses these texts, and may be refused as often as it likes.
    #[test]
    fn long_texts_are_cut_and_counted() {
        let history = WriteHistory::default();
        let long = "x".repeat(50_000);
        for number in 0..WRITES_MAX {
            let mut write = write(number, Some(&long));
            for text in [&mut write.user, &mut write.agent, &mut write.subresource, &mut write.manager] {
                text.clone_from(&long);
            }
            history.record(write);
        }
        let kept = lock(&history.refused);
        let weights: usize = kept.writes.iter().map(KeptWrite::weight).sum();
        assert!(kept.bytes == weights && weights <= BYTES_MAX, "{weights}");
        let capacity = kept.writes.iter().map(|write| {
            let message = write.refusal.as_ref().map_or(0, |refusal| refusal.message.capacity());
            write.user.capacity()
                + write.agent.capacity()
                + write.subresource.capacity()
                + write.manager.capacity()
                + message
        });
        assert!(capacity.sum::<usize>() <= BYTES_MAX);
        drop(kept);
        let target = Key::new("", "configmaps", "a", &long);
        history.record(KeptWrite { target: target.clone(), ..write(1, None) });
        assert!(history.about(&target, |_| true).writes.is_empty(), "no object has such a name");
    }

    #[test]
    fn heartbeats_and_events_are_not_kept() {
        let history = WriteHistory::default();
        for resource in UNKEPT {
            let target = Key::new("", resource, "a", "x");
            history.record(KeptWrite { target: target.clone(), ..write(1, None) });
            assert!(history.about(&target, |_| true).writes.is_empty());
        }
    }
}
