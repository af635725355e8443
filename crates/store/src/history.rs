//! The history holds recent events, oldest first, bounded by bytes and by age.
//!
//! Only bytes that nothing else keeps are counted: an event's old entry left the live map with that event; its new
//! entry is either still there or is counted where it became old. A store that only grows therefore has a cheap
//! history.
//!
//! **Invariant:** a commit is forgotten as a whole.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Revision;
use jiff::Timestamp;

use crate::Event;
use crate::published::PublishedState;
use crate::topic::Topic;

/// How much history is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes kept for history alone.
    pub bytes: u64,
    /// The age after which commits are forgotten even if there is room.
    pub age: Duration,
}

impl Default for Limits {
    /// Five minutes is how long an apiserver's etcd keeps history by default; 64 MiB is about 60 000 overwrites of 1
    /// KB, in the range of the 100 000 events that an apiserver caches at most.
    fn default() -> Self {
        Self { bytes: 64 << 20, age: Duration::from_mins(5) }
    }
}

/// The cost of an event in addition to its old entry's bytes: the event, two references to it, its record here, and the
/// entry.
const EVENT_BYTES: u64 = 256;

/// The writer's record of the events in all topics.
#[derive(Debug)]
pub(crate) struct History {
    limits: Limits,
    records: VecDeque<HistoryRecord>,
    bytes: u64,
}

#[derive(Debug)]
struct HistoryRecord {
    revision: Revision,
    at: Timestamp,
    bytes: u64,
    topic: Arc<Topic>,
}

impl History {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, records: VecDeque::new(), bytes: 0 }
    }

    /// Appends an event to its topic.
    pub(crate) fn append(&mut self, event: Arc<Event>, topic: &Arc<Topic>, at: Timestamp) {
        let bytes = EVENT_BYTES + event.old.as_ref().map_or(0, |old| old.bytes.len() as u64);
        self.bytes += bytes;
        self.records.push_back(HistoryRecord {
            revision: event.revision,
            at,
            bytes,
            topic: Arc::clone(topic),
        });
        topic.append(event);
    }

    /// Forgets the oldest events until the limits are met.
    pub(crate) fn trim(&mut self, published: &PublishedState, now: Timestamp) {
        let oldest = now.checked_sub(self.limits.age).unwrap_or(Timestamp::MIN);
        published.pins().expire(now, oldest);
        let mut bytes = self.bytes;
        let mut floor = None;
        for record in &self.records {
            if bytes <= self.limits.bytes && record.at >= oldest {
                break;
            }
            bytes -= record.bytes;
            floor = Some(record.revision);
        }
        if let Some(floor) = floor {
            self.forget(published, floor);
        }
    }

    /// Forgets everything up to `floor`.
    pub(crate) fn forget(&mut self, published: &PublishedState, floor: Revision) {
        published.forget(floor.max(published.floor()));
        while self.records.front().is_some_and(|record| record.revision <= floor)
            && let Some(record) = self.records.pop_front()
        {
            self.bytes -= record.bytes;
            record.topic.trim_one();
        }
    }
}
