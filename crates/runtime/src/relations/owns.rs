//! Owned objects: a change of a child triggers its owners, those before the change and those after.

use std::collections::BTreeSet;

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{Relation, urgency};
use crate::kind::{Kind, is_namespaced, key};

pub(crate) fn owns<K: Kind, T: Kind>() -> Relation<K> {
    Box::new(|wire| {
        let cache = wire.caches.declare::<T>(wire.scope);
        let (inbox, memo) = (wire.inbox.clone(), wire.memo.clone());
        cache.subscribe(move |delta| {
            if delta.new.is_none() {
                memo.forget(&delta.key);
            }
            let mut owners = BTreeSet::new();
            for state in [&delta.old, &delta.new].into_iter().flatten() {
                owners.extend(owners_of::<K, T>(state));
            }
            for owner in owners {
                inbox.add(
                    &owner,
                    Cause::Owned { child: delta.key.clone(), change: delta.change },
                    urgency(delta),
                );
            }
        });
        cache.watch_freshness()
    })
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
