//! A generated secret is generated only once. A second password under the same name locks out every client that has
//! read the first one.
//!
//! Random values differ between any two schedules, so the comparison of ends ignores them; this oracle checks how often
//! each is written. Only Secrets are judged: in other objects, a value that depends on time may be written again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ReferenceRun;
use crate::alarm::Alarm;
use crate::engine::{Actor, RunRecord};
use crate::object::read_object;
use crate::state::shown_key;

const HINT: &str = "the cache does not show yet what an earlier run generated: create the Secret instead of applying it, so that \
                    the second one is refused, or read it from the server first";

/// Values of Secrets that the operator replaced: object and path.
pub(super) type ReplacedValues = BTreeSet<(String, String)>;

pub(super) fn judge(reference: &ReferenceRun, record: &RunRecord) -> Option<Alarm> {
    let is_secret = |(object, path): &(String, String)| object.starts_with("secrets ") && is_value(path);
    if !reference.scenario.ignored.iter().any(is_secret) {
        return None;
    }
    let is_generated = |value: &&(String, String)| {
        reference.scenario.ignored.contains(*value) && !reference.replaced_values.contains(*value)
    };
    let replaced = replaced_values(record);
    let (object, path) = replaced.iter().find(is_generated)?;
    let text = format!(
        "{path} of {object} was generated, and is then replaced by another value; without faults it is not"
    );
    Some(Alarm::new("generated once", object, text).hint(HINT))
}

/// Returns the values in Secrets that the operator replaced by others.
pub(super) fn replaced_values(record: &RunRecord) -> ReplacedValues {
    let mut found = ReplacedValues::new();
    for change in record.changes.iter().filter(|change| matches!(change.actor, Actor::Operator(_))) {
        let (Some(old), Some(new)) = (&change.event.old, &change.event.new) else { continue };
        if change.event.key.resource() != "secrets" {
            continue;
        }
        let read = |bytes: &[u8]| read_object(bytes).map(|object| object["data"].clone()).unwrap_or_default();
        let (old, new) = (read(&old.bytes), read(&new.bytes));
        for (name, value) in old.as_object().into_iter().flatten() {
            if new.get(name).is_some_and(|other| *other != Value::Null && other != value) {
                found.insert((shown_key(&change.event.key), format!("data.{name}")));
            }
        }
    }
    found
}

fn is_value(path: &str) -> bool {
    path.starts_with("data.")
}
