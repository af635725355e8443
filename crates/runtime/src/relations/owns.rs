//! Owned objects: a change of a child triggers its owners, those before the change and those after. A predicate may
//! hold changes back, but never a child that comes, goes or changes its owners.

use std::collections::BTreeSet;

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{Relation, admits, urgency};
use crate::kind::{Kind, is_namespaced, key};
use crate::predicate::Predicate;

pub(crate) fn owns<K: Kind, T: Kind>(predicate: Option<Predicate<T>>) -> Relation<K> {
    Box::new(move |wire| {
        let cache = wire.caches.declare::<T>(wire.scope);
        let (inbox, memo) = (wire.inbox.clone(), wire.memo.clone());
        cache.subscribe(move |delta| {
            if delta.new.is_none() {
                memo.forget(&delta.key);
            }
            let [old, new] = [&delta.old, &delta.new].map(|state| owners_in::<K, T>(state.as_deref()));
            if old == new && !admits(predicate.as_ref(), delta, &inbox) {
                return;
            }
            for owner in old.union(&new) {
                let cause = Cause::Owned { child: delta.key.clone(), change: delta.change };
                inbox.add(owner, cause, urgency(delta, &inbox, owner));
            }
        });
        cache.watch_freshness()
    })
}

fn owners_in<K: Kind, T: Kind>(child: Option<&T>) -> BTreeSet<Key> {
    child.into_iter().flat_map(owners_of::<K, T>).collect()
}

/// The objects of kind `K` that own `child`.
fn owners_of<K: Kind, T: Kind>(child: &T) -> impl Iterator<Item = Key> {
    let namespace =
        if is_namespaced::<K>() { child.meta().namespace.as_deref().unwrap_or_default() } else { "" };
    let references = child.meta().owner_references.as_deref().unwrap_or_default();
    references
        .iter()
        .filter(|reference| {
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            reference.kind == K::kind(&()) && group == K::group(&())
        })
        .map(move |reference| key::<K>(namespace, &reference.name))
}
