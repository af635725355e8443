//! Where records are kept: in an annotation of the object, or, beyond its limit, in a Secret that the object owns.
//!
//! A Secret and not a ConfigMap, because a record holds a copy of the spec, and a copy must not have more readers than
//! the original. It is read and written by name, never listed or watched. The Secret is written before the annotation
//! that points to it: after a crash in between, the newer record is found.

use homeostat_core::journal::Verb;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource as _;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::{Value, json};

use super::codec::{ANNOTATION_BYTES_MAX, Stored, decode, encode, pointer};
use super::essence::{Fingerprint, RECORD_SUFFIX};
use super::record::HandlerRecord;
use crate::context::{AnnotationChange, Run};
use crate::error::Error;
use crate::events::Severity;
use crate::fault::{Result, terminal};
use crate::kind::key;
use crate::kind::object::Object;
use crate::request::{RequestLabel, call};

/// What is done to the Secrets that hold records.
pub(super) const SECRET_VERBS: &[&str] = &["get", "create", "patch"];

/// A record and where it is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredRecord {
    pub(super) record: HandlerRecord,
    /// What the annotation said when the record was read or written.
    pub(super) text: Option<String>,
    /// It was too large for the annotation once. It stays in the Secret from then on, or it would move with every edit.
    pub(super) is_aside: bool,
    /// The record has changed since.
    pub(super) is_unsaved: bool,
}

/// Returns the name of the annotation.
fn annotation_name(cx: &Run) -> String {
    format!("{}{RECORD_SUFFIX}", cx.controller().finalizer)
}

/// Returns what the annotation of the object says.
pub(super) fn text_of(cx: &Run, object: &Object) -> Option<String> {
    object.meta().annotations.as_ref()?.get(&annotation_name(cx)).cloned()
}

/// Reads the record of the object.
pub(super) async fn load(cx: &Run, text: Option<String>) -> Result<StoredRecord> {
    let record = match text.as_deref().map(decode) {
        None => HandlerRecord::default(),
        Some(Ok(Stored::Here(record))) => record,
        Some(Ok(Stored::Aside)) => return load_aside(cx, text).await,
        Some(Err(error)) => {
            unreadable(cx, &format!("the annotation {} cannot be read ({error})", annotation_name(cx)))?
        }
    };
    Ok(StoredRecord { record, text, is_aside: false, is_unsaved: false })
}

async fn load_aside(cx: &Run, text: Option<String>) -> Result<StoredRecord> {
    let name = secret_name(cx);
    let request = secrets(cx).get(&name, &GetParams::default());
    let secret: Secret =
        match call(cx.client(), RequestLabel { verb: "get secret", target: &name }, request).await {
            // Somebody removed it: the object is handled from the beginning, as when its annotation is removed.
            Err(error) if error.is_not_found() => {
                return Ok(StoredRecord { text, is_aside: true, ..StoredRecord::default() });
            }
            answer => answer?,
        };
    let content = secret.data.unwrap_or_default().remove("record").map(|bytes| bytes.0).unwrap_or_default();
    let record = match decode(&String::from_utf8_lossy(&content)) {
        Ok(Stored::Here(record)) => record,
        Ok(Stored::Aside) | Err(_) => unreadable(cx, &format!("the secret {name} cannot be read"))?,
    };
    Ok(StoredRecord { record, text, is_aside: true, is_unsaved: false })
}

/// Fails for an object whose record cannot be read: a person must look at it, or it would be handled as if it were new.
/// For one that is being deleted, returns an empty record, so that its delete handlers are called (again): nothing else
/// would ever remove it.
fn unreadable(cx: &Run, problem: &str) -> Result<HandlerRecord> {
    if cx.object().meta().deletion_timestamp.is_some() {
        tracing::warn!(object = %cx.key(), problem, "deleting as if nothing had been done yet");
        return Ok(HandlerRecord::default());
    }
    let words = format!("{problem}; remove it to have the object handled from the beginning");
    cx.event(Severity::Warning, "RecordUnreadable", words.clone());
    Err(terminal(words))
}

/// Writes the record of the object, if it changed.
pub(super) async fn save(cx: &Run, kept: &mut StoredRecord) -> Result<(), Error> {
    if !kept.is_unsaved {
        return Ok(());
    }
    let mut text = encode(&kept.record);
    if kept.is_aside || text.len() > ANNOTATION_BYTES_MAX {
        save_aside(cx, &text).await?;
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

async fn save_aside(cx: &Run, text: &str) -> Result<(), Error> {
    let name = secret_name(cx);
    cx.check_right(Verb::Apply, &key::<Secret>(cx.key().namespace(), &name))?;
    let owner = cx.info().owner_reference(cx.object().meta());
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "homeostat.dev/handled",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {"record": k8s_openapi::ByteString(text.as_bytes().to_vec())},
    });
    let params = PatchParams::apply(cx.controller().operator.name.as_str()).force();
    let request = secrets(cx).patch(&name, &params, &Patch::Apply(&body));
    call::<Value>(cx.client(), RequestLabel { verb: "apply secret", target: &name }, request)
        .await
        .map(|_| ())
}

fn secrets(cx: &Run) -> Path {
    let namespace = Some(cx.key().namespace()).filter(|namespace| !namespace.is_empty());
    Path::new(Secret::url_path(&(), Some(namespace.unwrap_or(cx.client().default_namespace()))))
}

/// Returns a name that is made of the object, the operator and the controller, and short enough whatever their names.
fn secret_name(cx: &Run) -> String {
    let uid = cx.object().meta().uid.as_deref().unwrap_or_default();
    let whose = Fingerprint::of_value(&cx.controller().finalizer.as_str().into());
    format!("handled-{uid}-{whose}")
}
