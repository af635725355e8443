//! Related objects: the user's mapping says which of ours a change concerns. It sees the old and the new state.

use std::collections::BTreeSet;

use homeostat_core::Key;
use homeostat_core::journal::Cause;

use super::{Relation, Targets, admits, guarded, urgency};
use crate::kind::KindInfo;
use crate::predicate::ChangeTest;

pub(crate) fn watches(other: &'static KindInfo, predicate: Option<ChangeTest>, map: Targets) -> Relation {
    Box::new(move |wire| {
        let (cache, main, inbox) = (wire.declare(other), wire.main.info(), wire.inbox.clone());
        cache.subscribe(move |delta| {
            if !admits(predicate.as_ref(), delta, &inbox) {
                return;
            }
            let mut concerned = BTreeSet::new();
            for state in [&delta.old, &delta.new].into_iter().flatten() {
                let keys = || -> Vec<Key> {
                    let targets = map(&**state);
                    targets.iter().map(|target| main.target_key(target, delta.key.namespace())).collect()
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
