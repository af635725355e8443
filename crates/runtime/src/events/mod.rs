//! Writes Kubernetes Events in the background: [`event_correlator`] decides (sans I/O), and this task sends.
//!
//! **Invariant:** a reconciler never waits for an event. When the channel is full or the server refuses, events are
//! dropped and the log says so; reconciling continues. At shutdown the waiting events are sent within the grace period.

use std::pin::pin;

use homeostat_core::{Clock, Entropy};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{Request as Path, Resource};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

mod event_correlator;

use event_correlator::{Correlator, EventDecision};

use crate::request::{RequestLabel, send_request};

/// The maximum number of events waiting to be sent. A larger burst is a loop, and its further events say nothing new.
const WAITING_MAX: usize = 1024;

/// The maximum number of bytes in a message: the limit of the newer Events API. The rest is in the log.
const MESSAGE_BYTES_MAX: usize = 1024;

/// How important an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// For information only.
    Normal,
    /// Someone should take a look.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event about an object, before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct EventNote {
    pub(crate) about: ObjectReference,
    pub(crate) severity: Severity,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The sending end of the channel, which reconcilers hold.
#[derive(Clone)]
pub(crate) struct EventRecorder(mpsc::Sender<EventNote>);

impl EventRecorder {
    /// Creates a recorder and the receiver of its notes, for [`EventSender`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<EventNote>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    pub(crate) fn send_event(&self, note: EventNote) {
        if let Err(error) = self.0.try_send(note) {
            tracing::debug!(%error, "event dropped");
        }
    }
}

/// Sends notes as Events until no more can arrive, then sends those that are still waiting, within the given time.
pub(crate) struct EventSender {
    client: Client,
    component: String,
    clock: Clock,
    correlator: Correlator,
}

impl EventSender {
    pub(crate) fn new(client: Client, component: String, clock: Clock, entropy: Entropy) -> Self {
        Self { client, component, clock, correlator: Correlator::new(entropy) }
    }

    /// Sends events until `ended` returns the time by which everything must be sent.
    pub(crate) async fn run(
        mut self,
        mut notes: mpsc::Receiver<EventNote>,
        ended: impl Future<Output = Instant>,
    ) {
        let mut ended = pin!(ended);
        let deadline = loop {
            tokio::select! {
                biased;
                note = notes.recv() => match note {
                    Some(note) => self.send(&note).await,
                    None => return,
                },
                deadline = &mut ended => break deadline,
            }
        };
        notes.close();
        let rest = async {
            while let Some(note) = notes.recv().await {
                self.send(&note).await;
            }
        };
        if tokio::time::timeout_at(deadline, rest).await.is_err() {
            tracing::warn!(dropped = notes.len(), "events not sent before the end of the grace period");
        }
    }

    async fn send(&mut self, note: &EventNote) {
        let decision = self.correlator.decide_event(note, self.clock.instant());
        let now = Time(self.clock.now());
        let namespace = note.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let url = Path::new(Event::url_path(&(), Some(&namespace)));
        let (name, request) = match decision {
            EventDecision::Drop => return,
            EventDecision::Create { name } => {
                let event = event(note, &name, &namespace, &self.component, now);
                (name, url.create(&PostParams::default(), serde_json::to_vec(&event).unwrap_or_default()))
            }
            EventDecision::Count { name, count } => {
                let patch = json!({"count": count, "lastTimestamp": now});
                let request = url.patch(&name, &PatchParams::default(), &Patch::Merge(patch));
                (name, request)
            }
        };
        let answer = send_request::<Value>(
            &self.client,
            RequestLabel { verb: "record event", target: &name },
            request,
        )
        .await;
        if let Err(error) = answer {
            tracing::debug!(%error, reason = note.reason, "event not recorded");
            self.correlator.forget(note);
        }
    }
}

fn event(note: &EventNote, name: &str, namespace: &str, component: &str, now: Time) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: note.about.clone(),
        type_: Some(note.severity.as_str().to_owned()),
        reason: Some(note.reason.clone()),
        message: Some(shortened(&note.message)),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        ..Event::default()
    }
}

fn shortened(message: &str) -> String {
    const ELLIPSIS: &str = "…";
    if message.len() <= MESSAGE_BYTES_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_letters() {
        assert_eq!(shortened("brief"), "brief");
        let long = shortened(&"ü".repeat(MESSAGE_BYTES_MAX));
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.ends_with("ü…"), "{long}");
    }
}
