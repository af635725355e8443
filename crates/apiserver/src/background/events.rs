//! Deletes events an hour after they were last written.

use homeostat_api::kinds::core::event::EVENT;
use homeostat_api::kinds::events::convert::TIME_TO_LIVE;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::backend::Backend;
use crate::stored::encode;
use crate::verbs::{DeleteOptions, remove};
use crate::write_history::ServerTask;
use crate::yielding_work::YieldingWork;

/// Deletes events that are too old.
pub(super) async fn delete_expired(backend: &Backend) {
    let table = backend.registry.table();
    let resource = table.built_in(&EVENT);
    let snapshot = backend.store.snapshot();
    let Ok(ttl) = SignedDuration::try_from(TIME_TO_LIVE) else { return };
    let before = backend.clock.now() - ttl;
    let mut work = YieldingWork::default();
    for entry in snapshot.range(&resource.storage().prefix(), "") {
        work.add(entry.bytes.len()).await;
        if last_written(&encode::parse_entry(entry)).is_some_and(|at| at < before) {
            let options = DeleteOptions::default();
            // It is fine if an event is already gone, and a busy store is retried in a minute.
            let _ = remove(
                (backend, ServerTask::EventExpiry),
                resource,
                (entry.key.namespace(), entry.key.name()),
                &options,
            )
            .await;
        }
    }
}

fn last_written(event: &Value) -> Option<Timestamp> {
    let series = &event["series"]["lastObservedTime"];
    let times = [series, &event["lastTimestamp"], &event["metadata"]["creationTimestamp"]];
    times.into_iter().filter_map(|time| time.as_str()?.parse().ok()).max()
}
