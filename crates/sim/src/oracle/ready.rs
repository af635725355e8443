//! At rest, an object that is Ready reports its current generation, and is not failing.

use homeostat_core::Revision;
use serde_json::Value;

use crate::alarm::Alarm;
use crate::engine::{RunRecord, SettledEnd, Setup};
use crate::state::{DEFINITIONS, shown_key};

const HINT: &str =
    "write Ready=False (or Unknown) when a run fails, and observedGeneration with every condition";

pub(super) fn judge(setup: &Setup, record: &RunRecord) -> Option<Alarm> {
    let rests = record.rests.iter().map(|rest| (rest, true));
    let ends = rests.chain([(&record.scenario_end, false)]);
    let mut before = setup.template.born;
    ends.filter(|(end, _)| end.is_judged).find_map(|(end, is_rest)| {
        // If nothing fails, only conditions written since the last rest can be wrong.
        let since = if end.failing.is_empty() { before } else { setup.template.born };
        before = if end.failing.is_empty() { end.snapshot.revision() } else { before };
        judge_end(end, since, is_rest)
    })
}

fn judge_end(end: &SettledEnd, since: Revision, is_rest: bool) -> Option<Alarm> {
    end.snapshot.iter().filter(|entry| entry.revision > since).find_map(|entry| {
        // Definitions have conditions, too, and are large.
        if entry.key.resource() == DEFINITIONS {
            return None;
        }
        memchr::memmem::find(&entry.bytes, b"\"conditions\"")?;
        let object: Value = serde_json::from_slice(&entry.bytes).ok()?;
        let conditions = object["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|one| one["type"] == "Ready" && one["status"] == "True")?;
        let generation = object["metadata"]["generation"].as_i64()?;
        let observed =
            ready["observedGeneration"].as_i64().or(object["status"]["observedGeneration"].as_i64());
        let name = shown_key(&entry.key);
        let (group, resource) = (entry.key.group().trim_start_matches("crd:"), entry.key.resource());
        let key = homeostat_core::Key::new(group, resource, entry.key.namespace(), entry.key.name());
        // Between two steps the operator may be about to retry.
        let object_key = key.to_string();
        let is_retried = end.failing.contains_key(&object_key) && !end.given_up.contains(&object_key);
        if is_rest && is_retried {
            return None;
        }
        if observed.is_some_and(|observed| observed != generation) {
            let text = format!(
                "{name} reports Ready=True for generation {observed:?}, but its generation is {generation}"
            );
            return Some(Alarm::new("truthful status", &name, text).hint(HINT));
        }
        let error = end.failing.get(&object_key)?;
        let text = format!("{name} reports Ready=True while its reconcile fails: {error}");
        Some(Alarm::new("truthful status", &name, text).hint(HINT))
    })
}
