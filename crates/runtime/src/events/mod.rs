//! Kubernetes Events, written in the background: [`correlate`] decides (sans I/O), this task sends.
//!
//! **Invariant:** a reconciler never waits for an event. When the channel is full or the server refuses, events are
//! dropped and counted in the log; reconciling goes on.

use homeostat_core::{Clock, Entropy};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{Request as Path, Resource};
use serde_json::{Value, json};
use tokio::sync::mpsc;

mod correlate;

use correlate::{Correlator, Decision};

use crate::talk::{Attempt, call};

/// Events waiting to be sent. A burst beyond this is a loop, and its events say nothing new.
const WAITING_MAX: usize = 1024;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// For the record.
    Normal,
    /// Somebody should look.
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

/// What is to be told about an object.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) about: ObjectReference,
    pub(crate) severity: Severity,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The end of the channel that reconcilers hold.
#[derive(Clone)]
pub(crate) struct Recorder(mpsc::Sender<Note>);

impl Recorder {
    /// A recorder and the notes it takes, for [`send`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<Note>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    pub(crate) fn note(&self, note: Note) {
        if let Err(error) = self.0.try_send(note) {
            tracing::debug!(%error, "event dropped");
        }
    }
}

/// Sends notes as Events until every recorder is dropped.
pub(crate) async fn send(
    mut notes: mpsc::Receiver<Note>,
    client: Client,
    component: String,
    clock: Clock,
    entropy: Entropy,
) {
    let mut correlator = Correlator::new(entropy);
    while let Some(note) = notes.recv().await {
        let decision = correlator.judge(&note, clock.instant());
        let now = Time(clock.now());
        let namespace = note.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let url = Path::new(Event::url_path(&(), Some(&namespace)));
        let (name, request) = match decision {
            Decision::Drop => continue,
            Decision::Create { name } => {
                let event = event(&note, &name, &namespace, &component, now);
                (name, url.create(&PostParams::default(), serde_json::to_vec(&event).unwrap_or_default()))
            }
            Decision::Count { name, count } => {
                let patch = json!({"count": count, "lastTimestamp": now});
                let request = url.patch(&name, &PatchParams::default(), &Patch::Merge(patch));
                (name, request)
            }
        };
        let answer = call::<Value>(&client, Attempt { verb: "record event", target: &name }, request).await;
        if let Err(error) = answer {
            tracing::debug!(%error, reason = note.reason, "event not recorded");
            correlator.forget(&note);
        }
    }
}

fn event(note: &Note, name: &str, namespace: &str, component: &str, now: Time) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: note.about.clone(),
        type_: Some(note.severity.as_str().to_owned()),
        reason: Some(note.reason.clone()),
        message: Some(note.message.clone()),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        ..Event::default()
    }
}
