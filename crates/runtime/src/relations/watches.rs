//! Related objects: the user's mapping says which of ours a change concerns. It sees the old and the new state.

use std::collections::BTreeSet;

use homeostat_core::journal::Cause;

use super::{Relation, urgency};
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
            let matters = |test: &Predicate<T>| test.admits(delta.old.as_deref(), delta.new.as_deref());
            if !predicate.as_ref().is_none_or(matters) {
                return;
            }
            let mut concerned = BTreeSet::new();
            for state in [&delta.old, &delta.new].into_iter().flatten() {
                let targets = map(state).into_iter();
                concerned.extend(targets.map(|target| target.into().key::<K>(delta.key.namespace())));
            }
            for ours in concerned {
                inbox.add(
                    &ours,
                    Cause::Related { other: delta.key.clone(), change: delta.change },
                    urgency(delta),
                );
            }
        });
        cache.watch_freshness()
    })
}
