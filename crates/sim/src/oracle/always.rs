//! The user's `always` conditions hold after every single change.

use crate::alarm::Alarm;
use crate::cluster::Cluster;
use crate::engine::{RunRecord, Setup};
use crate::state::shown_key;

pub(super) fn judge(setup: &Setup, record: &RunRecord) -> Option<Alarm> {
    if setup.always.is_empty() {
        return None;
    }
    record.changes.iter().find_map(|change| {
        let cluster = Cluster::new(change.after.clone(), setup.template.born, String::new());
        let at = setup.always.iter().position(|condition| !condition(&cluster))?;
        let text = format!(
            "condition {} of `always` does not hold after {} changed at +{}",
            at + 1,
            shown_key(&change.event.key),
            crate::engine::shown_time(change.at)
        );
        Some(Alarm::new("always", &format!("condition {}", at + 1), text))
    })
}
