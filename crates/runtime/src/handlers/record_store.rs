//! Stores records: in an annotation on the object or, if they are too large, in a Secret that the object owns.
//!
//! A Secret is used instead of a ConfigMap, because a record holds a copy of the spec, and a copy must not have more
//! readers than the original. It is read and written by name, never listed or watched. The Secret is written before the
//! annotation that points to it: after a crash in between, the newer record is found, and the annotation follows.
//!
//! **Invariant:** a record is written only over the one that was read, in the annotation and in the Secret. A replica
//! that comes too late notices this, and continues with the other replica's record.

use homeostat_core::journal::Verb;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource as _;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::Request as Path;
use serde_json::json;

use super::authored_state::{Fingerprint, RECORD_SUFFIX};
use super::record::HandlerRecord;
use super::record_codec::{ANNOTATION_BYTES_MAX, StoredRecord, decode, encode, pointer};
use crate::context::{AnnotationChange, ReconcileRun};
use crate::error::Error;
use crate::events::Severity;
use crate::fault::{Result, terminal};
use crate::kind::key;
use crate::kind::object::Object;
use crate::request::{RequestLabel, send_request};

/// The rights that are needed for the Secrets of records.
pub(super) const SECRET_VERBS: &[&str] = &["get", "create", "patch"];

/// The maximum number of attempts to write the Secret while something else about it keeps changing. The next run tries
/// again.
const TRIES_MAX: usize = 5;

/// A record and where it is stored.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadedRecord {
    pub(super) record: HandlerRecord,
    /// The annotation's text when the record was last read or written.
    pub(super) text: Option<String>,
    /// Whether the record was once too large for the annotation. It then stays in the Secret; otherwise every edit
    /// could move it.
    pub(super) is_aside: bool,
    /// The resourceVersion of the Secret when it was read or written; `None` if it did not exist.
    secret_revision: Option<String>,
    /// Whether the record has changed since then.
    pub(super) is_unsaved: bool,
}

/// A Secret that holds a record.
struct FoundSecret {
    revision: Option<String>,
    text: String,
}

/// Returns the name of the annotation.
fn annotation_name(cx: &ReconcileRun) -> String {
    format!("{}{RECORD_SUFFIX}", cx.controller().finalizer)
}

/// Returns the text of the object's annotation.
pub(super) fn text_of(cx: &ReconcileRun, object: &Object) -> Option<String> {
    object.meta().annotations.as_ref()?.get(&annotation_name(cx)).cloned()
}

/// Reads the record of the object.
pub(super) async fn load(cx: &ReconcileRun, text: Option<String>) -> Result<LoadedRecord> {
    let record = match text.as_deref().map(decode) {
        None => HandlerRecord::default(),
        Some(Ok(StoredRecord::Inline(record))) => record,
        Some(Ok(StoredRecord::InSecret)) => return load_aside(cx, text).await,
        Some(Err(error)) => {
            unreadable(cx, &format!("the annotation {} cannot be read ({error})", annotation_name(cx)))?
        }
    };
    Ok(LoadedRecord { record, text, ..LoadedRecord::default() })
}

async fn load_aside(cx: &ReconcileRun, text: Option<String>) -> Result<LoadedRecord> {
    let name = secret_name(cx);
    // If somebody removed it, the object is handled from the beginning, as if its annotation had been removed.
    let Some(found) = read_secret(cx, &name).await? else {
        return Ok(LoadedRecord { text, is_aside: true, ..LoadedRecord::default() });
    };
    let record = match decode(&found.text) {
        Ok(StoredRecord::Inline(record)) => record,
        Ok(StoredRecord::InSecret) | Err(_) => unreadable(cx, &format!("the secret {name} cannot be read"))?,
    };
    // Whoever wrote the Secret has not written the annotation yet, and perhaps never will.
    let is_unsaved = text.as_ref() != Some(&pointer(&found.text));
    Ok(LoadedRecord { record, text, is_aside: true, secret_revision: found.revision, is_unsaved })
}

async fn read_secret(cx: &ReconcileRun, name: &str) -> Result<Option<FoundSecret>, Error> {
    let request = secrets(cx).get(name, &GetParams::default());
    let label = RequestLabel { verb: "get secret", target: name };
    let secret: Secret = match send_request(cx.client(), label, request).await {
        Err(error) if error.is_not_found() => return Ok(None),
        answer => answer?,
    };
    let content = secret.data.unwrap_or_default().remove("record").map(|bytes| bytes.0).unwrap_or_default();
    let text = String::from_utf8_lossy(&content).into_owned();
    Ok(Some(FoundSecret { revision: secret.metadata.resource_version, text }))
}

/// Fails for an object whose record cannot be read: a person must repair it, because otherwise it would be handled as
/// if it were new. If the object is being deleted, returns an empty record, so that its delete handlers are called
/// (again): nothing else would ever remove the object.
fn unreadable(cx: &ReconcileRun, problem: &str) -> Result<HandlerRecord> {
    if cx.object().meta().deletion_timestamp.is_some() {
        tracing::warn!(object = %cx.key(), problem, "deleting as if nothing had been done yet");
        return Ok(HandlerRecord::default());
    }
    let words = format!("{problem}; remove it to have the object handled from the beginning");
    cx.event(Severity::Warning, "RecordUnreadable", words.clone());
    Err(terminal(words))
}

/// Writes the record of the object, if it changed.
pub(super) async fn save(cx: &ReconcileRun, kept: &mut LoadedRecord) -> Result<(), Error> {
    if !kept.is_unsaved {
        return Ok(());
    }
    let mut text = encode(&kept.record);
    if kept.is_aside || text.len() > ANNOTATION_BYTES_MAX {
        save_aside(cx, kept, &text).await?;
        kept.is_aside = true;
        text = pointer(&text);
    }
    if kept.text.as_ref() != Some(&text) {
        let name = annotation_name(cx);
        cx.annotate(AnnotationChange { name: &name, old: kept.text.as_deref(), new: &text }).await?;
    }
    kept.text = Some(text);
    kept.is_unsaved = false;
    Ok(())
}

/// Writes the record into the Secret. If somebody else has written it since it was read, adopts their record and fails
/// this run.
async fn save_aside(cx: &ReconcileRun, kept: &mut LoadedRecord, text: &str) -> Result<(), Error> {
    let name = secret_name(cx);
    let target = key::<Secret>(cx.key().namespace(), &name);
    cx.check_right(Verb::Apply, &target)?;
    for _ in 0..TRIES_MAX {
        match write_secret(cx, &name, text, kept.secret_revision.as_deref()).await {
            Ok(secret) => {
                kept.secret_revision = secret.metadata.resource_version;
                return Ok(());
            }
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error),
        }
        let found = read_secret(cx, &name).await?;
        kept.secret_revision = found.as_ref().and_then(|found| found.revision.clone());
        let Some(found) = found else { continue };
        if found.text == text {
            // It was our own write, whose response was lost.
            return Ok(());
        }
        if kept.text.as_ref() != Some(&pointer(&found.text)) {
            if let Ok(StoredRecord::Inline(record)) = decode(&found.text) {
                kept.record = record;
                kept.is_aside = true;
            }
            break;
        }
        // Somebody changed the Secret, but not the record in it.
    }
    cx.record_failure(Verb::Apply, &target, Err(Error::Overtaken { target: target.clone() }))
}

/// Creates the Secret, or changes it if it still has this revision.
async fn write_secret(
    cx: &ReconcileRun,
    name: &str,
    text: &str,
    revision: Option<&str>,
) -> Result<Secret, Error> {
    let owner = cx.info().owner_reference(cx.object().meta());
    let mut body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "homeostat.dev/handled",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {"record": k8s_openapi::ByteString(text.as_bytes().to_vec())},
    });
    let manager = cx.controller().operator.name.as_str();
    let (verb, request) = match revision {
        None => {
            let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
            ("create secret", secrets(cx).create(&params, body.to_string().into_bytes()))
        }
        Some(revision) => {
            body["metadata"]["resourceVersion"] = json!(revision);
            let params = PatchParams::apply(manager).force();
            ("apply secret", secrets(cx).patch(name, &params, &Patch::Apply(&body)))
        }
    };
    send_request(cx.client(), RequestLabel { verb, target: name }, request).await
}

fn secrets(cx: &ReconcileRun) -> Path {
    let namespace = Some(cx.key().namespace()).filter(|namespace| !namespace.is_empty());
    Path::new(Secret::url_path(&(), Some(namespace.unwrap_or(cx.client().default_namespace()))))
}

/// Returns a name made of the object, the operator and the controller, shortened if necessary.
fn secret_name(cx: &ReconcileRun) -> String {
    let uid = cx.object().meta().uid.as_deref().unwrap_or_default();
    let whose = Fingerprint::of_value(&cx.controller().finalizer.as_str().into());
    format!("handled-{uid}-{whose}")
}
