//! Decides when an object that is being deleted may be removed.
//!
//! **Invariant:** this is the only place that decides. A deletion, a write that removes the last finalizer, and the
//! server's own changes all use it, so an object cannot be deletable in one place and held in another.

use serde_json::Value;

use crate::object::meta;
use crate::resource::Resource;
use crate::resource::strategy::strategy;

/// Returns whether anything other than a grace period delays the deletion: a finalizer, or the equivalent of its kind.
pub fn is_held(resource: &Resource, object: &Value) -> bool {
    let is_held_by_kind = || {
        let of_kind = resource.declaration().and_then(|kind| kind.deletion.is_held);
        of_kind.is_some_and(|is_held| is_held(object))
    };
    meta::finalizers(object).next().is_some() || is_held_by_kind()
}

/// Returns whether this object may be removed: it is being deleted, its grace period is over, and nothing else delays
/// the deletion.
pub fn may_go(resource: &Resource, object: &Value) -> bool {
    meta::is_deleting(object) && is_grace_over(resource, object) && !is_held(resource, object)
}

/// Returns whether the grace period is over. In a kind that honours grace periods, an object without one has not been
/// asked to stop yet.
fn is_grace_over(resource: &Resource, object: &Value) -> bool {
    match object["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        Some(seconds) => seconds <= 0,
        None => !strategy(resource).is_graceful,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_goes_when_nothing_holds_it() {
        let rows = crate::kinds::built_in_rows();
        let check = |plural: &str, metadata: Value, spec: Value, expected: bool| {
            let row = rows.iter().find(|row| &*row.plural == plural).expect("served");
            let object = json!({"metadata": metadata, "spec": spec});
            assert_eq!(may_go(row, &object), expected, "{plural} {object}");
        };
        let dying = |seconds: Value, finalizers: Value| {
            json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds,
                "finalizers": finalizers})
        };
        check("configmaps", json!({}), json!({}), false);
        check("configmaps", dying(json!(0), json!([])), json!({}), true);
        check("configmaps", dying(json!(null), json!([])), json!({}), true);
        check("configmaps", dying(json!(0), json!(["a/b"])), json!({}), false);
        // Only Pods have a grace period.
        check("pods", dying(json!(0), json!([])), json!({}), true);
        check("pods", dying(json!(30), json!([])), json!({}), false);
        check("pods", dying(json!(null), json!([])), json!({}), false);
        // A namespace has its own finalizers.
        check("namespaces", dying(json!(null), json!([])), json!({"finalizers": ["kubernetes"]}), false);
        check("namespaces", dying(json!(null), json!([])), json!({"finalizers": []}), true);
        check("configmaps", dying(json!(0), json!([])), json!({"finalizers": ["kubernetes"]}), true);
    }
}
