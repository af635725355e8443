//! A watch delivers the events of one prefix, in order, without gaps, from a shared topic.
//!
//! A watch is a cursor into its resource's topic, not a queue of its own: a slow watcher costs the others nothing, and
//! is cut off with [`Error::Compacted`] once it has fallen behind the history.
//!
//! **Invariant:** an event is delivered only once the state that contains it is visible, and it can be delivered by the
//! time that the commit that caused it is acknowledged.

use std::sync::Arc;

use homeostat_core::{Prefix, Revision};

use crate::published::PublishedState;
use crate::topic::Topic;
use crate::{Error, Event};

/// How many events are delivered in one batch: enough to fill a socket buffer with small objects, few enough that one
/// watcher never locks its resource's topic for long. A commit is never split, so a batch may be longer by one commit.
pub const BATCH_EVENTS: usize = 256;

/// A cursor over the events of one prefix.
#[derive(Debug)]
pub struct Watch {
    published: Arc<PublishedState>,
    topic: Arc<Topic>,
    prefix: Prefix,
    /// The position in the topic of the first event not read yet.
    place: u64,
    /// Everything up to this revision was delivered.
    delivered: Revision,
    /// Held so that this watch is included in the count.
    seat: Arc<()>,
}

impl Watch {
    pub(crate) fn new(
        published: Arc<PublishedState>,
        prefix: &Prefix,
        from: Revision,
    ) -> Result<Self, Error> {
        let topic = published.topic(prefix.topic());
        let place = {
            // Nothing is trimmed under the lock, so whatever the check allows still exists.
            let log = topic.read();
            published.check_kept(from)?;
            log.place_after(from)
        };
        let seat = Arc::clone(&topic.watches);
        Ok(Self { published, topic, prefix: prefix.clone(), place, delivered: from, seat })
    }

    /// Waits for events and returns all available ones, at most about [`BATCH_EVENTS`]. Never empty. Dropping the
    /// future loses nothing. Fails with [`Error::Compacted`] if this watch was too slow, and with [`Error::Closed`] if
    /// everything was delivered and nothing will follow.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        loop {
            let topic = Arc::clone(&self.topic);
            let arrived = topic.arrived.notified();
            let is_closed = self.published.is_closed();
            let batch = self.try_next()?;
            match (batch.is_empty(), is_closed) {
                (false, _) => return Ok(batch),
                (true, true) => return Err(Error::Closed),
                (true, false) => arrived.await,
            }
        }
    }

    /// Returns the events that [`next`](Self::next) would return without waiting, if any. Costs two atomic loads if
    /// this resource has not changed.
    pub fn try_next(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        let visible = self.published.visible();
        if self.place == self.topic.end() {
            self.delivered = self.delivered.max(visible);
            return Ok(Vec::new());
        }
        let topic = Arc::clone(&self.topic);
        let log = topic.read();
        let Some(events) = log.from(self.place) else {
            return Err(self.published.compacted(self.delivered));
        };
        let mut batch: Vec<Arc<Event>> = Vec::new();
        for event in events.take_while(|event| event.revision <= visible) {
            let is_full = batch.len() >= BATCH_EVENTS;
            if is_full && batch.last().is_some_and(|last| last.revision < event.revision) {
                self.delivered = batch.last().map_or(self.delivered, |last| last.revision);
                return Ok(batch);
            }
            self.place += 1;
            if event.revision > self.delivered && self.prefix.covers(&event.key) {
                batch.push(Arc::clone(event));
            }
        }
        self.delivered = self.delivered.max(visible);
        Ok(batch)
    }

    /// Returns how many watches follow the same resource, including this one.
    pub fn companions(&self) -> usize {
        // The topic holds one more.
        Arc::strong_count(&self.seat) - 1
    }

    /// Returns the revision up to which everything was delivered. It moves with commits to any resource, so a bookmark
    /// may report it.
    pub fn progress(&self) -> Revision {
        // Read the visible revision first: every event at or below it is in the topic by then.
        let visible = self.published.visible();
        let waiting =
            self.topic.read().from(self.place).map(|mut events| events.next().map(|event| event.revision));
        match waiting {
            Some(None) => self.delivered.max(visible),
            Some(Some(first)) => self.delivered.max(visible.min(Revision::new(first.get() - 1))),
            None => self.delivered,
        }
    }
}
