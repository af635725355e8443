//! Flow schemas and priority levels.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read};

pub(crate) fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = read::condition(object, "Dangling");
    vec![
        read::name(object).into(),
        read::text(object, "spec.priorityLevelConfiguration.name").into(),
        read::number(object, "spec.matchingPrecedence").into(),
        read::text_or(object, "spec.distinguisherMethod.type", "<none>").into(),
        age::of(object, now).into(),
        dangling.map_or("?", |condition| read::text(condition, "status")).into(),
    ]
}

pub(crate) fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |path| read::at(object, path).cloned().unwrap_or_else(|| "<none>".into());
    vec![
        read::name(object).into(),
        read::text(object, "spec.type").into(),
        limit("spec.limited.nominalConcurrencyShares"),
        limit("spec.limited.limitResponse.queuing.queues"),
        limit("spec.limited.limitResponse.queuing.handSize"),
        limit("spec.limited.limitResponse.queuing.queueLengthLimit"),
        age::of(object, now).into(),
    ]
}
