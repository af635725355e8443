//! Follows related objects: the user's mapping says which of our objects a change concerns. It sees the old and the new
//! state. A filter may suppress changes, but never one after which the mapping names different objects.

use std::collections::BTreeSet;

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{
    FollowedKind, RelatedKind, Relation, RelationContext, Targets, guarded, passes, triggered, urgency,
};
use crate::kind::KindInfo;
use crate::kind::object::Object;

pub(crate) fn watches(other: &'static KindInfo, map: Targets) -> Relation {
    let connect = move |wire: &RelationContext<'_>, followed: FollowedKind| {
        let (cache, main, queue) = (wire.declare(followed.info), wire.main.info(), wire.queue.clone());
        cache.subscribe(move |delta| {
            let concerned = |state: &Object| -> BTreeSet<Key> {
                let keys = || {
                    let targets = map(state);
                    targets.iter().map(|target| main.target_key(target, delta.key.namespace())).collect()
                };
                guarded("a mapping", &delta.key, &queue, keys).unwrap_or_default()
            };
            let passes_filter = passes(followed.filter.as_ref(), delta, &queue);
            let [old, new] =
                [&delta.old, &delta.new].map(|state| state.as_deref().map(concerned).unwrap_or_default());
            for ours in triggered(&old, &new, passes_filter) {
                let cause = Cause::Related { other: delta.key.clone(), change: delta.change };
                queue.add(ours, cause, urgency(delta, &queue, ours));
            }
        });
        cache.watch_freshness()
    };
    let other = RelatedKind { info: other, method: "watches", reads_whole: true, triggers: true };
    Relation { other: Some(other), connect: Box::new(connect) }
}
