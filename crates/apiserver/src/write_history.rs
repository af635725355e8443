//! The history of writes is a bounded memory of recent writes and refused writes, for `why`.
//!
//! A write costs a lock and a few clones: the stored states before and after it are kept, and compared only on request.
//! Events and Leases are not kept, because they are written all the time and are not informative here.
//!
//! **Invariant:** memory is bounded by the number of writes and by the size of the states they keep. **Invariant:** the
//! history is shown only to callers who may get the object, and other objects are named only to callers who may get
//! those.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_api::resource::Resource;
use homeostat_core::write_history::{ObjectHistory, OperatorJournal, Refusal, SERVER_USER, WriteRecord};
use homeostat_core::{FieldDiff, Key};
use homeostat_store::Entry;
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde_json::Value;

use crate::stored::encode;

/// The path at which the history of an object is served.
pub(crate) const PATH: &str = "/homeostat/history";

/// The path that serves the fields that two writers change back and forth.
pub(crate) const FIGHTS_PATH: &str = "/homeostat/fights";

/// Both paths.
pub(crate) const PATHS: [&str; 2] = [PATH, FIGHTS_PATH];

/// The maximum number of writes, and of refusals: this covers minutes of a busy server and days of a quiet one.
const WRITES_MAX: usize = 8192;

/// The maximum size of the stored states that writes keep alive. The store's own window keeps most of them anyway.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The bytes that a write takes in addition to its states and strings.
const WRITE_BYTES: usize = 512;

/// The maximum length of a refusal: some of them quote the whole object.
pub(crate) const MESSAGE_LETTERS_MAX: usize = 500;

/// The maximum length of other strings that clients choose (program, field manager, subresource). Kubernetes allows
/// 128 for a field manager.
const TEXT_LETTERS_MAX: usize = 256;

/// The maximum length of an object's name in bytes: no valid name is longer, and a refused write may have any.
const KEY_BYTES_MAX: usize = 1024;

/// The maximum number of an object's writes that are compared for a response, and the maximum size of the states that
/// are parsed for it: as much as a person reads, and a few tenths of a second of work.
const COMPARED_MAX: usize = 200;
const COMPARED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Resources whose writes are not recorded.
const UNKEPT: [&str; 2] = ["events", "leases"];

/// The content type of server-side apply.
const APPLY: &str = "application/apply-patch";

/// The journal of an operator in this process, recorded by the operator itself.
pub trait JournalSource: Send + Sync {
    /// Returns the operator's journal about an object.
    fn about(&self, object: &Key) -> OperatorJournal;
}

/// The states of an object before and after a write.
pub(crate) type WrittenStates<'a> = (Option<&'a Arc<Entry>>, Option<&'a Arc<Entry>>);

/// A part of the server that writes on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerTask {
    /// Deletes dependents together with their owners, and removes the finalizers that hold owners until then.
    GarbageCollector,
    /// Creates the default objects of namespaces, and empties namespaces that are being deleted.
    Namespaces,
    /// Maintains the definitions of custom kinds, and deletes their objects with them.
    Definitions,
    /// Taints nodes.
    Nodes,
    /// Fills aggregated roles.
    Roles,
    /// Deletes old events.
    EventExpiry,
    /// Counts disruptions.
    Evictions,
    /// Approves and signs certificate requests, and deletes old ones.
    CertificateRequests,
    /// Checks the types in the expressions of policies.
    PolicyTypes,
    /// Fills Secrets with account tokens, and deletes them with their accounts.
    TokenSecrets,
}

impl ServerTask {
    /// Returns the name that the history shows.
    fn name(self) -> &'static str {
        match self {
            Self::GarbageCollector => "garbage collector",
            Self::Namespaces => "namespace controller",
            Self::Definitions => "definition controller",
            Self::Nodes => "node controller",
            Self::Roles => "role aggregation",
            Self::EventExpiry => "event expiry",
            Self::Evictions => "eviction",
            Self::CertificateRequests => "certificate controller",
            Self::PolicyTypes => "policy type checker",
            Self::TokenSecrets => "token controller",
        }
    }
}

/// A recorded write.
#[derive(Clone)]
pub(crate) struct RecordedWrite {
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
pub(crate) struct WriteHistory {
    /// The time at which it began.
    started: Timestamp,
    is_kept: AtomicBool,
    done: Mutex<WriteRing>,
    /// Refusals are kept separately, because any client can cause many of them.
    refused: Mutex<WriteRing>,
    journals: Mutex<Vec<Arc<dyn JournalSource>>>,
}

#[derive(Default)]
struct WriteRing {
    writes: VecDeque<RecordedWrite>,
    bytes: usize,
    dropped: u64,
}

impl WriteHistory {
    /// Creates an empty history that begins now.
    pub(crate) fn new(started: Timestamp) -> Self {
        let is_kept = AtomicBool::new(true);
        Self {
            started,
            is_kept,
            done: Mutex::default(),
            refused: Mutex::default(),
            journals: Mutex::default(),
        }
    }

    /// Stops recording, to measure what recording costs.
    pub(crate) fn disable(&self) {
        self.is_kept.store(false, Ordering::Relaxed);
    }

    /// Records a write by one of the server's own background tasks.
    pub(crate) fn record_own(
        &self,
        task: ServerTask,
        resource: &Resource,
        (before, after): WrittenStates<'_>,
        at: Timestamp,
    ) {
        let Some(stored) = after.or(before).map(|entry| &entry.key) else { return };
        let verb = match (before, after) {
            (None, _) => "create",
            (_, None) => "delete",
            _ => "patch",
        };
        self.record(RecordedWrite {
            at,
            user: SERVER_USER.to_owned(),
            agent: task.name().to_owned(),
            verb,
            target: Key::new(&resource.group, &resource.plural, stored.namespace(), stored.name()),
            subresource: String::new(),
            manager: String::new(),
            before: before.cloned(),
            after: after.cloned(),
            refusal: None,
        });
    }

    /// Records a write.
    pub(crate) fn record(&self, mut write: RecordedWrite) {
        if !self.is_kept.load(Ordering::Relaxed)
            || UNKEPT.contains(&write.target.resource())
            || write.target.as_str().len() > KEY_BYTES_MAX
        {
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

    /// Returns the writes since a time, newest first.
    pub(crate) fn since(&self, start: Timestamp) -> Vec<RecordedWrite> {
        lock(&self.done).since(start)
    }

    /// Adds the journal of an operator in this process.
    pub(crate) fn add_journal(&self, source: Arc<dyn JournalSource>) {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Returns the known history of an object, for a caller who may get it. Other objects are named only if `may_get`
    /// allows it.
    pub(crate) fn about(&self, object: &Key, may_get: impl Fn(&Key) -> bool) -> ObjectHistory {
        // The writes are only copied under the lock, which every write needs, and are compared afterwards.
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
            started: Some(self.started),
            operators: operators.collect(),
        }
    }
}

impl WriteRing {
    /// Returns the writes after a time, newest first.
    fn since(&self, start: Timestamp) -> Vec<RecordedWrite> {
        self.writes.iter().rev().take_while(|write| write.at >= start).cloned().collect()
    }

    /// Adds a write. Returns the writes that no longer fit, to be freed outside the lock.
    fn push(&mut self, write: RecordedWrite) -> Vec<RecordedWrite> {
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

    fn about(&self, object: &Key) -> (Vec<RecordedWrite>, Option<Timestamp>, u64) {
        let writes = self.writes.iter().rev().filter(|write| write.target == *object).take(COMPARED_MAX);
        let since = self.writes.front().map(|write| write.at);
        (writes.cloned().collect(), since, self.dropped)
    }
}

impl RecordedWrite {
    pub(crate) fn weight(&self) -> usize {
        let bytes = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.bytes.len());
        let message = self.refusal.as_ref().map_or(0, |refusal| refusal.message.len());
        let texts = [&self.user, &self.agent, &self.subresource, &self.manager];
        let texts = texts.iter().map(|text| text.len()).sum::<usize>() + self.target.as_str().len() + message;
        WRITE_BYTES + texts + bytes(&self.before) + bytes(&self.after)
    }

    /// Describes the write, with the difference between the states before and after it unless that is too much work.
    pub(crate) fn describe(&self, is_compared: bool) -> WriteRecord {
        let value = |entry: &Arc<Entry>| -> Value { encode::parse_entry(entry) };
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

/// Returns the name of a write's verb: apply is a patch with its own content type.
pub(crate) fn verb_name(verb: &'static str, headers: &HeaderMap) -> &'static str {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if verb == "patch" && content_type.starts_with(APPLY) { "apply" } else { verb }
}

/// Returns the text of a header, truncated to the length that is kept.
pub(crate) fn agent_text(value: Option<&HeaderValue>) -> String {
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.chars().take(TEXT_LETTERS_MAX).collect()
}

/// Truncates a string, and frees the rest.
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

    fn write(number: usize, message: Option<&str>) -> RecordedWrite {
        RecordedWrite {
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
        let history = WriteHistory::new(Timestamp::UNIX_EPOCH);
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

    /// A client chooses these strings, and may be refused any number of times.
    #[test]
    fn long_texts_are_cut_and_counted() {
        let history = WriteHistory::new(Timestamp::UNIX_EPOCH);
        let long = "x".repeat(50_000);
        for number in 0..WRITES_MAX {
            let mut write = write(number, Some(&long));
            for text in [&mut write.user, &mut write.agent, &mut write.subresource, &mut write.manager] {
                text.clone_from(&long);
            }
            history.record(write);
        }
        let kept = lock(&history.refused);
        let weights: usize = kept.writes.iter().map(RecordedWrite::weight).sum();
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
        history.record(RecordedWrite { target: target.clone(), ..write(1, None) });
        assert!(history.about(&target, |_| true).writes.is_empty(), "no object has such a name");
    }

    #[test]
    fn heartbeats_and_events_are_not_kept() {
        let history = WriteHistory::new(Timestamp::UNIX_EPOCH);
        for resource in UNKEPT {
            let target = Key::new("", resource, "a", "x");
            history.record(RecordedWrite { target: target.clone(), ..write(1, None) });
            assert!(history.about(&target, |_| true).writes.is_empty());
        }
    }
}
