//! Telling people that an object cannot be reconciled because it does not decode: an event, the condition `Reconciled`
//! in its status and the one that its controller keeps, written without knowing the object's type. The next successful
//! reconcile takes them back.

use homeostat_core::Key;
use homeostat_core::journal::{Verb, WriteOutcome};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::condition::condition;
use super::status::{RECONCILED, Snapshot, StatusChange, Written};
use crate::engine::Engine;
use crate::error::Error;
use crate::fence::Claim;
use crate::kind::{KindInfo, parse_revision};

/// The name of both.
const UNDECODABLE: &str = "Undecodable";

/// Leaves the event, and writes the condition if the kind is one whose status is ours to write and does not say so already.
pub(crate) async fn report_undecodable(
    engine: &Engine,
    key: &Key,
    claim: &Claim,
    error: &str,
) -> Result<(), Error> {
    let Some(object) = engine.read_whole(key).await? else { return Ok(()) };
    engine.admit(claim, key, Verb::Status, key)?;
    if !is_told(&object) {
        engine.warn_of(
            reference(engine.cache.info(), &object),
            UNDECODABLE,
            format!("the object does not decode: {error}"),
        );
    }
    if !engine.tells_in_status() {
        return Ok(());
    }
    let mut change = StatusChange::default();
    let generation = object["metadata"]["generation"].as_i64();
    for r#type in std::iter::once(RECONCILED).chain(engine.dependent_condition) {
        let fallen = condition(r#type, false, UNDECODABLE, error);
        change.set_condition(&Condition { observed_generation: generation, ..fallen });
    }
    if generation.is_some() {
        change.set("observedGeneration", json!(generation));
    }
    let written = engine.change_status(key, claim, &change, Snapshot::whole(object), as_json).await?;
    if let Written::Done(object) = written {
        let revision = Some(parse_revision(object["metadata"]["resourceVersion"].as_str()));
        engine.note(key, Verb::Status, key, WriteOutcome::Done { revision });
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

fn as_json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text)
}

/// What an event is about that is known only as JSON.
fn reference(info: &KindInfo, object: &Value) -> ObjectReference {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    ObjectReference {
        api_version: Some(info.api_version.clone()),
        kind: Some(info.kind.clone()),
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        field_path: None,
    }
}
