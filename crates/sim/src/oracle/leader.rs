//! Only the leader writes: not whoever led before and wakes up late, and of shards only whoever has them.

use crate::alarm::Alarm;
use crate::engine::{RunRecord, shown_time};
use crate::state::shown_key;

const HINT: &str = "work goes on after the lease was lost: bind every task to the leadership, and stop it before the lease ends";

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
