//! Telling people that an object cannot be reconciled because it does not decode: an event, the condition `Reconciled`
//! in its status and the one that its controller keeps, written without knowing the object's type. The next successful
//! reconcile takes them back.

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::{Value, json};

use super::condition::condition;
use super::status::{RECONCILED, merge_conditions};
use crate::contrast::merge_patch;
use crate::engine::Engine;
use crate::error::Error;
use crate::kind::{Kind, parse_revision};
use crate::talk::{Attempt, call};

/// The name of both.
const UNDECODABLE: &str = "Undecodable";

/// Leaves the event, and writes the condition if the kind is one whose status is ours to write and does not say so already.
pub(crate) async fn condemn<K: Kind>(engine: &Engine<K>, key: &Key, error: &str) -> Result<(), Error> {
    let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
    let (url, client) = (Path::new(K::url_path(&(), namespace)), &engine.ground.client);
    let attempt = |verb| Attempt { verb, target: key.as_str() };
    let found = call::<Value>(client, attempt("get"), url.get(key.name(), &GetParams::default())).await;
    let Some(object) = unless_gone(found)? else { return Ok(()) };
    if !engine.is_admitted(key) {
        return Err(Error::Fenced { target: key.clone() });
    }
    if !is_told(&object) {
        engine.warn_of(reference::<K>(&object), UNDECODABLE, format!("the object does not decode: {error}"));
    }
    if !engine.is_custom {
        return Ok(());
    }
    let mut status = object["status"].clone();
    let fallen = std::iter::once(RECONCILED).chain(engine.vouches);
    let verdicts = fallen.map(|r#type| condition(r#type, false, UNDECODABLE, error)).collect();
    let generation = object["metadata"]["generation"].as_i64();
    merge_conditions(&mut status, verdicts, generation, engine.ground.clock.now());
    if generation.is_some() {
        status["observedGeneration"] = json!(generation);
    }
    let Some(patch) = merge_patch(&object["status"], &status) else { return Ok(()) };
    let body =
        json!({"metadata": {"resourceVersion": object["metadata"]["resourceVersion"]}, "status": patch});
    let params =
        PatchParams { field_manager: Some(engine.ground.name.to_string()), ..PatchParams::default() };
    let request = url.patch_subresource("status", key.name(), &params, &Patch::Merge(body));
    let written = unless_gone(call::<Value>(client, attempt("write the status of"), request).await)?;
    if let Some(object) = written {
        let revision = Some(parse_revision(object["metadata"]["resourceVersion"].as_str()));
        let outcome = WriteOutcome::Done { revision };
        let (object, target) = (key.clone(), key.clone());
        let entry = Entry::Wrote { object, verb: Verb::Status, target, outcome, diff: Vec::new() };
        engine.ground.journal.record(&engine.source, entry);
    }
    Ok(())
}

/// Does its status say so already, of this generation? Our own writes to it come back, and the error moves with them.
fn is_told(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    object["status"]["conditions"].as_array().is_some_and(|conditions| {
        let mut conditions = conditions.iter().filter(|one| one["reason"] == UNDECODABLE);
        conditions.any(|one| one["observedGeneration"] == *generation)
    })
}

/// What an event is about that is known only as JSON.
fn reference<K: Kind>(object: &Value) -> ObjectReference {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        field_path: None,
    }
}

/// The answer; none when the object is gone or its kind has no status.
fn unless_gone(answer: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
