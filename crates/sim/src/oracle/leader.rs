//! Only the leader writes. A former leader that wakes up late must not; with shards, only the holder of the shard
//! writes.

use crate::alarm::Alarm;
use crate::engine::{RunRecord, shown_time};
use crate::state::shown_key;

const HINT: &str = "work continues after the lease is lost: bind every task to the leadership, and stop it before the lease expires";

pub(super) fn judge(record: &RunRecord) -> Option<Alarm> {
    if let Some((object, text)) = record.deposed_writes.first() {
        return Some(Alarm::new("only the leader writes", object, text.clone()).hint(HINT));
    }
    let change = record.changes.iter().find(|change| change.has_two_writers)?;
    let name = shown_key(&change.event.key);
    let text = format!(
        "{name} is written by {} at +{}; another process wrote it before, and no lease has changed hands since",
        change.actor.shown(),
        shown_time(change.at)
    );
    Some(Alarm::new("only the leader writes", &name, text).hint(HINT))
}
