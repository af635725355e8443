//! Follows owned objects: a change to a child triggers both its previous and its new owners. A filter may suppress
//! changes, but never a child that appears, disappears or changes its owners.

use std::collections::BTreeSet;

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{FollowedKind, Relation, RelationContext, passes, triggered, urgency};
use crate::kind::KindInfo;
use crate::kind::object::Object;

pub(crate) fn owns(child: &'static KindInfo) -> Relation {
    let connect = move |wire: &RelationContext<'_>, followed: FollowedKind| {
        let (cache, owner) = (wire.declare(followed.info), wire.main.info());
        let (queue, last_applied) = (wire.queue.clone(), wire.last_applied.clone());
        cache.subscribe(move |delta| {
            if delta.new.is_none() {
                last_applied.forget(&delta.key);
            }
            let [old, new] = [&delta.old, &delta.new].map(|state| owners_in(owner, state.as_deref()));
            let passes_filter = passes(followed.filter.as_ref(), delta, &queue);
            for owner in triggered(&old, &new, passes_filter) {
                let cause = Cause::Owned { child: delta.key.clone(), change: delta.change };
                queue.add(owner, cause, urgency(delta, &queue, owner));
            }
        });
        cache.watch_freshness()
    };
    Relation::by_metadata(child, "owns", Box::new(connect))
}

fn owners_in(owner: &KindInfo, child: Option<&Object>) -> BTreeSet<Key> {
    child.into_iter().flat_map(|child| owners_of(owner, child)).collect()
}

/// Returns the objects of this kind that own `child`.
fn owners_of(owner: &KindInfo, child: &Object) -> impl Iterator<Item = Key> {
    let namespace =
        if owner.is_namespaced { child.meta().namespace.as_deref().unwrap_or_default() } else { "" };
    let references = child.meta().owner_references.as_deref().unwrap_or_default();
    references
        .iter()
        .filter(|reference| {
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            reference.kind == owner.kind && group == owner.group
        })
        .map(move |reference| owner.key(namespace, &reference.name))
}
