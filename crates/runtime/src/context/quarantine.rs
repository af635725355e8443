//! Reports that an object cannot be reconciled because it cannot be decoded: with an event, and with the condition
//! `Reconciled` and the one that its controller maintains in its status, which are written without knowing the object's
//! type. The next successful reconcile removes them.

use homeostat_core::Key;
use homeostat_core::journal::{Verb, WriteOutcome};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::condition::condition;
use super::status::{RECONCILED, StatusBasis, StatusChange, StatusWriteOutcome};
use crate::error::Error;
use crate::fence::TenureClaim;
use crate::kind::{KindInfo, parse_revision};
use crate::shared::ControllerShared;

/// The reason given in the event and in the conditions.
const UNDECODABLE: &str = "Undecodable";

/// Records the event, and writes the conditions if the runtime may write this kind's status and the object does not
/// already have them.
pub(crate) async fn report_undecodable(
    controller: &ControllerShared,
    key: &Key,
    claim: &TenureClaim,
    error: &str,
) -> Result<(), Error> {
    let Some(object) = controller.read_whole(key).await? else { return Ok(()) };
    controller.refuse_if_deposed(claim, key, Verb::Status, key)?;
    if !is_told(&object) {
        controller.warn_of(
            reference(controller.cache.info(), &object),
            UNDECODABLE,
            format!("the object does not decode: {error}"),
        );
    }
    if !controller.tells_in_status() {
        return Ok(());
    }
    let mut change = StatusChange::default();
    let generation = object["metadata"]["generation"].as_i64();
    for r#type in std::iter::once(RECONCILED).chain(controller.dependent_condition) {
        let fallen = condition(r#type, false, UNDECODABLE, error);
        change.set_condition(&Condition { observed_generation: generation, ..fallen });
    }
    if generation.is_some() {
        change.set("observedGeneration", json!(generation));
    }
    let written = controller.change_status(key, claim, &change, StatusBasis::whole(object), as_json).await?;
    if let StatusWriteOutcome::Done(object, diff) = written {
        let revision = Some(parse_revision(object["metadata"]["resourceVersion"].as_str()));
        controller.note_diff(key, Verb::Status, key, WriteOutcome::Done { revision }, diff);
    }
    Ok(())
}

/// Returns whether its status already says so for this generation. Our own writes to the object appear in the watch,
/// and change the position in the error.
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

/// Returns a reference to an object that is known only as JSON.
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
