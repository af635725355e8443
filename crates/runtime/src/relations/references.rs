//! Declared references: our object names others, the runtime keeps the reverse index and triggers ours when a named
//! one appears, changes or goes. A dropped reference is a change of our own object, so nothing is lost.

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{Relation, urgency};
use crate::kind::{Kind, Target};

pub(crate) fn references<K: Kind, T: Kind, I>(names: impl Fn(&K) -> I + Send + Sync + 'static) -> Relation<K>
where
    I: IntoIterator<Item: Into<Target>>,
{
    Box::new(move |wire| {
        let referrers = wire.main.index(move |object: &K| {
            let namespace = object.meta().namespace.clone().unwrap_or_default();
            let targets = names(object).into_iter();
            targets.map(|target| target.into().key::<T>(&namespace)).collect::<Vec<Key>>()
        });
        let cache = wire.caches.declare::<T>(wire.scope);
        let inbox = wire.inbox.clone();
        cache.subscribe(move |delta| {
            for ours in referrers.keys(&delta.key) {
                let cause = Cause::Referenced { other: delta.key.clone(), change: delta.change };
                inbox.add(&ours, cause, urgency(delta, &inbox, &ours));
            }
        });
        cache.watch_freshness()
    })
}
