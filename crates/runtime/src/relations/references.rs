//! Follows declared references: our object names others, and the runtime keeps the reverse index and triggers our
//! object when a named one appears, changes or disappears. A dropped reference is a change to our own object, so
//! nothing is lost.

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{FollowedKind, Relation, RelationContext, Targets, passes, urgency};
use crate::cache::ObjectIndex;
use crate::kind::KindInfo;
use crate::kind::object::Object;

pub(crate) fn references(other: &'static KindInfo, names: Targets) -> Relation {
    let connect = move |wire: &RelationContext<'_>, followed: FollowedKind| {
        let keys = move |object: &Object| -> Vec<Key> {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            names(object).iter().map(|target| other.target_key(target, namespace)).collect()
        };
        let referrers = ObjectIndex::new(wire.main, Box::new(keys));
        let (cache, queue) = (wire.declare(followed.info), wire.queue.clone());
        cache.subscribe(move |delta| {
            if !passes(followed.filter.as_ref(), delta, &queue) {
                return;
            }
            for ours in referrers.keys(&delta.key) {
                let cause = Cause::Referenced { other: delta.key.clone(), change: delta.change };
                queue.add(&ours, cause, urgency(delta, &queue, &ours));
            }
        });
        cache.watch_freshness()
    };
    Relation::by_metadata(other, "references", Box::new(connect))
}
