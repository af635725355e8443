//! Related objects: the user's mapping says which of ours a change concerns. It sees the old and the new state.

use std::collections::BTreeSet;

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{Relation, admits, guarded, urgency};
use crate::kind::{Kind, Target};
use crate::predicate::Predicate;

pub(crate) fn watches<K: Kind, T: Kind, I>(
    predicate: Option<Predicate<T>>,
    map: impl Fn(&T) -> I + Send + Sync + 'static,
) -> Relation<K>
where
    I: IntoIterator<Item: Into<Target>>,
{
    Box::new(move |wire| {
        let cache = wire.caches.declare::<T>(wire.scope);
        let inbox = wire.inbox.clone();
        cache.subscribe(move |delta| {
            if !admits(predicate.as_ref(), delta, &inbox) {
                return;
            }
            let mut concerned = BTreeSet::new();
            for state in [&delta.old, &delta.new].into_iter().flatten() {
                let keys = || -> Vec<Key> {
                    let targets = map(state).into_iter();
                    targets.map(|target| target.into().key::<K>(delta.key.namespace())).collect()
                };
                concerned.extend(guarded("a mapping", &delta.key, &inbox, keys).unwrap_or_default());
            }
            for ours in concerned {
                let cause = Cause::Related { other: delta.key.clone(), change: delta.change };
                inbox.add(&ours, cause, urgency(delta, &inbox, &ours));
            }
        });
        cache.watch_freshness()
    })
}
