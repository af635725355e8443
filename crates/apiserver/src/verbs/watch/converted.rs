//! Handles watches of a version that needs a webhook: states are converted before they are selected and shown.
//!
//! A watch whose converter fails gets an error event and ends, as in Kubernetes: an omitted event would be lost for
//! good.

use std::sync::Arc;

use bytes::Bytes;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_store::{Entry, Event};

use super::{EventObject, InitialEvents, WatchStream};
use crate::verbs::watch::Bookmark;

/// How many existing objects are converted at a time.
const CHUNK: usize = 250;

/// Returns whether the converter of a resource changed. If so, watches end, and clients start over.
pub(super) fn has_other_converter(before: &Resource, now: &Resource) -> bool {
    let converter = |resource: &Resource| {
        let webhook = resource.custom()?.conversion.as_deref()?;
        Some((webhook.client_config.clone(), webhook.review_versions.clone()))
    };
    converter(before) != converter(now)
}

impl WatchStream {
    /// Returns the next existing objects as one piece.
    pub(super) async fn converted_initial_piece(
        &mut self,
        mut initial: InitialEvents,
    ) -> Result<Bytes, Status> {
        let entries = initial.snapshot.range(&initial.prefix, &initial.after);
        let entries = entries.take(CHUNK).cloned().collect::<Vec<_>>();
        let is_done = entries.len() < CHUNK;
        if let Some(last) = entries.last() {
            last.key.as_str().clone_into(&mut initial.after);
        }
        let converted = self.convert(entries).await?;
        let (cost, queue) = (self.cost(converted.iter()), self.call.queue.clone());
        let revision = initial.snapshot.revision();
        let piece = queue
            .run_when_permitted(cost, || {
                let mut piece = Vec::new();
                for entry in
                    converted.iter().filter(|entry| self.selection.matches(entry)).collect::<Vec<_>>()
                {
                    self.event_into(&mut piece, "ADDED", &EventObject::Current(entry));
                }
                if is_done && self.marks_initial_end && self.has_bookmarks {
                    self.bookmark_into(&mut piece, revision, Bookmark::EndOfInitialEvents);
                }
                piece
            })
            .await;
        self.sent = revision;
        if !is_done {
            self.initial = Some(initial);
        }
        Ok(piece.into())
    }

    /// Returns events with the states that this version shows.
    pub(super) async fn converted_events(&self, events: Vec<Arc<Event>>) -> Result<Vec<Arc<Event>>, Status> {
        if !self.call.has_converter() {
            return Ok(events);
        }
        let states = events.iter().flat_map(|event| [&event.old, &event.new]).flatten().cloned().collect();
        let mut converted = self.convert(states).await?.into_iter();
        let event = |event: Arc<Event>| {
            let old = event.old.as_ref().and_then(|_| converted.next());
            let new = event.new.as_ref().and_then(|_| converted.next());
            Arc::new(Event { old, new, ..(*event).clone() })
        };
        Ok(events.into_iter().map(event).collect())
    }

    async fn convert(&self, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>, Status> {
        Box::pin(self.call.backend.conversions.entries_in_turn(&self.call.resource, entries)).await
    }
}
