//! What is followed: events of one prefix, in order, without gaps, from a shared log.
//!
//! A watch is a cursor into the log of its resource, not a queue of its own: a slow watcher costs the others
//! nothing, and is cut off with [`Error::Compacted`] once history has left it behind.
//!
//! **Invariant:** an event is delivered only once the state that contains it is visible, and by the time the commit
//! that made it is acknowledged.

use std::sync::Arc;

use homeostat_core::{Prefix, Revision};

use crate::published::Published;
use crate::topic::Topic;
use crate::{Error, Event};

/// Events delivered at once: enough to fill a socket buffer with small objects, few enough that one watcher never
/// holds the log of its resource for long. A commit is never split, so a batch may be longer by one commit.
pub const BATCH_EVENTS: usize = 256;

/// A cursor over the events of one prefix.
#[derive(Debug)]
pub struct Watch {
    published: Arc<Published>,
    topic: Arc<Topic>,
    prefix: Prefix,
    /// The place in the topic's log of the first event not yet looked at.
    place: u64,
    /// Everything up to here was delivered.
    delivered: Revision,
    /// One of those that are counted.
    seat: Arc<()>,
}

impl Watch {
    pub(crate) fn new(published: Arc<Published>, prefix: &Prefix, from: Revision) -> Result<Self, Error> {
        let topic = published.topic(prefix.topic());
        let place = {
            // Under the lock nothing is trimmed, so what the check allows is still there.
            let log = topic.read();
            published.check_kept(from)?;
            log.place_after(from)
        };
        let seat = Arc::clone(&topic.watches);
        Ok(Self { published, topic, prefix: prefix.clone(), place, delivered: from, seat })
    }

    /// Waits for events and returns all that are there, at most about [`BATCH_EVENTS`]. Never empty. Dropping the
    /// future loses nothing. [`Error::Compacted`]: this watch was too slow; [`Error::Closed`]: all was delivered and
    /// nothing will follow.
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

    /// What [`next`](Self::next) would return without waiting; empty when there is nothing. Costs two atomic loads
    /// when nothing happened in this resource.
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

    /// How many watches follow the same resource, this one included.
    pub fn companions(&self) -> usize {
        // The topic holds one more.
        Arc::strong_count(&self.seat) - 1
    }

    /// Everything up to this revision was delivered. It moves with commits to any resource, so it is what a bookmark
    /// may say.
    pub fn progress(&self) -> Revision {
        // Visible first: an event at or below it is in the log by then.
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
