//! Converts custom objects between versions with the webhook of their definition.
//!
//! All code that reads entries gets them converted first ([`Conversions::entries`]): the converted entries are not
//! stored, but contain what the requested version shows. Objects are converted before they are stored
//! ([`Conversions::objects`]).
//!
//! **Invariant:** no lock is held during a webhook call. Responses are cached ([`converted_entries`]), so that a
//! hundred watches of one version call it once for each change.

mod converted_entries;
mod review;

use std::sync::Arc;

use homeostat_api::convert::{after_webhook, before_webhook, webhook_for, webhook_to_store};
use homeostat_api::resource::{ConversionWebhook, Resource};
use homeostat_api::status::Status;
use homeostat_core::{Entropy, Uid};
use homeostat_store::Entry;
use serde_json::Value;
use tokio::time::Instant;

use self::converted_entries::{ConvertedEntries, EntryVersion};
use self::review::{check_response, converted_object, review};
use crate::serve::SlotHandle;
use crate::stored::{convert, encode};
use crate::webhook_client::{CallFailure, WebhookCall, WebhookClient};

/// The timeout of a converter, as in Kubernetes.
const TIMEOUT_S: u64 = 30;
/// The maximum number of objects in one call. The memory limit for a response bounds what a converter may return for
/// them.
const BATCH_MAX: usize = 500;
/// The maximum size of the objects in one call, unless it is a single larger object.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Calls conversion webhooks, and caches their responses.
pub(crate) struct Conversions {
    client: Arc<WebhookClient>,
    entropy: Entropy,
    kept: ConvertedEntries,
}

impl Conversions {
    pub(crate) fn new(client: Arc<WebhookClient>, entropy: Entropy) -> Self {
        Self { client, entropy, kept: ConvertedEntries::default() }
    }

    /// Returns entries as this version shows them. Entries that need no webhook are returned unchanged.
    pub(crate) async fn entries(
        &self,
        resource: &Resource,
        entries: Vec<Arc<Entry>>,
        slot: Option<&SlotHandle>,
    ) -> Result<Vec<Arc<Entry>>, Status> {
        let mut shown = entries;
        let mut at = 0;
        while at < shown.len() {
            at = self.convert_batch(resource, &mut shown, at, slot).await?;
        }
        Ok(shown)
    }

    /// Converts the entries from `start` on that fit into one call, and returns where the next one begins.
    async fn convert_batch(
        &self,
        resource: &Resource,
        entries: &mut [Arc<Entry>],
        start: usize,
        slot: Option<&SlotHandle>,
    ) -> Result<usize, Status> {
        let (mut asked, mut objects, mut bytes, mut next) = (Vec::new(), Vec::new(), 0, start);
        let mut webhook = None;
        while let Some(entry) = entries.get(next) {
            let needed = webhook_for(resource, &entry.bytes).filter(|_| entry.tag != encode::CONVERTED);
            let Some(needed) = needed else {
                next += 1;
                continue;
            };
            if let Some(kept) = self.kept.get(&EntryVersion::new(resource, entry, needed)) {
                entries[next] = kept;
                next += 1;
                continue;
            }
            bytes += entry.bytes.len();
            if !objects.is_empty() && (bytes > BATCH_BYTES_MAX || objects.len() >= BATCH_MAX) {
                break;
            }
            let mut object = encode::parse_entry(entry);
            before_webhook(resource, &mut object);
            webhook = Some(needed);
            asked.push(next);
            objects.push(object);
            next += 1;
        }
        let Some(webhook) = webhook else { return Ok(next) };
        let converted = self.ask(webhook, resource, &resource.version, objects, slot).await?;
        for (at, object) in asked.into_iter().zip(converted) {
            let entry = Arc::new(convert::converted_entry(resource, &entries[at], &object));
            self.kept.put(EntryVersion::new(resource, &entries[at], webhook), &entry);
            entries[at] = entry;
        }
        Ok(next)
    }

    /// Returns entries as this version shows them, once all watches of this version that came earlier have theirs.
    /// Watches share responses, so a change is converted once. They also share failures, so a slow converter does not
    /// delay them one after another.
    pub(crate) async fn entries_in_turn(
        &self,
        resource: &Resource,
        entries: Vec<Arc<Entry>>,
    ) -> Result<Vec<Arc<Entry>>, Status> {
        let asked_at = Instant::now();
        let turn = self.kept.converter_lock(resource);
        let mut last_failure = turn.lock().await;
        if let Some((_, status)) = last_failure.as_ref().filter(|(failed_at, _)| *failed_at >= asked_at) {
            return Err(status.clone());
        }
        let outcome = self.entries(resource, entries, None).await;
        *last_failure = outcome.as_ref().err().map(|status| (Instant::now(), status.clone()));
        outcome
    }

    /// Encodes an object of this version for the store.
    pub(crate) async fn encode(
        &self,
        resource: &Resource,
        object: &Value,
        slot: Option<&SlotHandle>,
    ) -> Result<homeostat_store::Value, Status> {
        let (Some(_), Some(custom)) = (webhook_to_store(resource), resource.custom()) else {
            return Ok(convert::encode_from_version(resource, object));
        };
        let stored = self.object(resource, &custom.storage_version, object.clone(), slot).await?;
        Ok(convert::encode_converted(resource, &stored))
    }

    /// Returns an object in another version of its definition.
    pub(crate) async fn object(
        &self,
        resource: &Resource,
        version: &str,
        object: Value,
        slot: Option<&SlotHandle>,
    ) -> Result<Value, Status> {
        let Some(webhook) = resource.custom().and_then(|custom| custom.conversion.as_deref()) else {
            return Ok(object);
        };
        let converted = self.ask(webhook, resource, version, vec![object], slot).await?;
        Ok(converted.into_iter().next().unwrap_or_default())
    }

    /// Calls the webhook for all objects that are in another version.
    async fn ask(
        &self,
        webhook: &ConversionWebhook,
        resource: &Resource,
        version: &str,
        mut objects: Vec<Value>,
        slot: Option<&SlotHandle>,
    ) -> Result<Vec<Value>, Status> {
        let desired = format!("{}/{version}", resource.group);
        let is_other = |object: &Value| object["apiVersion"] != *desired;
        let Some(first) = objects.iter().find(|object| is_other(object)) else { return Ok(objects) };
        let from = describe_type(first);
        let failed = |why: String| Status::unclassified(format!("conversion webhook for {from} {why}"));
        let uid = Uid::random(&self.entropy).as_str().to_owned();
        let asked = objects.iter().filter(|object| is_other(object)).collect::<Vec<_>>();
        let review_version = webhook.review_versions.iter().find(|one| matches!(&***one, "v1" | "v1beta1"));
        let review_version =
            review_version.ok_or_else(|| Status::unclassified("no supported conversion review versions"))?;
        let body = review(review_version, &uid, &desired, &asked).to_string();
        let count = asked.len();
        let question = WebhookCall {
            id: &format!("conversion/{}", webhook.definition),
            name: &webhook.definition,
            config: &webhook.client_config,
            timeout_s: TIMEOUT_S,
            user_agent: "kube-apiserver",
            body,
            slot: slot.cloned(),
        };
        let answer = self.client.ask(question).await.map_err(|failure| match failure {
            CallFailure::Crowded(status) => *status,
            CallFailure::Failed(why) => failed(format!("failed: {why}")),
        })?;
        let converted =
            check_response(answer, review_version, &uid).map_err(|why| failed(format!("failed: {why}")))?;
        if converted.len() != count {
            return Err(failed(format!("returned {} objects, expected {count}", converted.len())));
        }
        let originals = objects.iter_mut().filter(|object| is_other(object));
        for (at, (original, converted)) in originals.zip(converted).enumerate() {
            let mut object =
                converted_object(original, converted, &desired, (count > 1).then_some(at)).map_err(failed)?;
            after_webhook(resource, &mut object);
            *original = object;
        }
        Ok(objects)
    }
}

/// Returns the type of an object as Go prints it.
fn describe_type(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}
