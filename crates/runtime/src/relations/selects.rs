//! Selected objects: ours has a label selector, and is reconciled when an object it matches, or matched before the
//! change, appears, changes or goes. Both are in one namespace, unless one of the kinds lives in none.
//!
//! Each of our objects is indexed under one label its selector demands, so a change asks only the few that may match.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::Cause;
use homeostat_core::selector::LabelSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, ObjectMeta};
use serde_json::json;

use super::{Followed, Relation, RelationContext, admits, guarded, triggered, urgency};
use crate::cache::{ObjectCache, ObjectIndex};
use crate::kind::KindInfo;
use crate::object::Object;

/// A label selector in one of the types it is written in.
pub trait Selector {
    /// The same, ready to match. One that is not valid matches nothing.
    fn into_selector(self) -> LabelSelector;
}

impl Selector for LabelSelector {
    fn into_selector(self) -> LabelSelector {
        self
    }
}

impl Selector for meta::LabelSelector {
    fn into_selector(self) -> LabelSelector {
        LabelSelector::from_json(&json!(self)).unwrap_or_else(|_| LabelSelector::nothing())
    }
}

/// A namespace, and a label that must be there; none for a selector that demands no single label.
type Anchor = (String, Option<(String, String)>);

/// Reads the selector of an object of ours.
pub(crate) type SelectorOf = Arc<dyn Fn(&Object) -> Option<LabelSelector> + Send + Sync>;

pub(crate) fn selects(other: &'static KindInfo, selector: SelectorOf) -> Relation {
    let connect = move |wire: &RelationContext<'_>, followed: Followed| {
        let anchoring = selector.clone();
        let has_place = wire.main.info().is_namespaced && other.is_namespaced;
        let anchor_of = move |object: &Object| -> Vec<Anchor> {
            let selector = anchoring(object);
            selector.map(|selector| anchor(place(has_place, object.meta()), &selector)).into_iter().collect()
        };
        let anchors = ObjectIndex::new(wire.main, Box::new(anchor_of));
        let cache = wire.declare(followed.info);
        let (main, queue) = (wire.main.clone(), wire.queue.clone());
        cache.subscribe(move |delta| {
            let matching = |state: &Object| -> BTreeSet<Key> {
                let place = place(has_place, state.meta());
                let found = || selectors_of(&main, &anchors, &selector, (place, state.meta()));
                guarded("a selector", &delta.key, &queue, found).unwrap_or_default()
            };
            let is_admitted = admits(followed.filter.as_ref(), delta, &queue);
            let [old, new] =
                [&delta.old, &delta.new].map(|state| state.as_deref().map(matching).unwrap_or_default());
            for ours in triggered(&old, &new, is_admitted) {
                let cause = Cause::Related { other: delta.key.clone(), change: delta.change };
                queue.add(ours, cause, urgency(delta, &queue, ours));
            }
        });
        cache.watch_freshness()
    };
    Relation::by_metadata(other, "selects", Box::new(connect))
}

/// The namespace both must be in; none if it does not matter.
fn place(has_place: bool, meta: &ObjectMeta) -> String {
    meta.namespace.clone().filter(|_| has_place).unwrap_or_default()
}

fn anchor(namespace: String, selector: &LabelSelector) -> Anchor {
    let demanded = selector.requirements().iter().find_map(|requirement| {
        let value = selector.exact(requirement.key())?;
        Some((requirement.key().to_owned(), value.to_owned()))
    });
    (namespace, demanded)
}

/// Those of ours whose selector matches an object with this metadata.
fn selectors_of(
    main: &ObjectCache,
    anchors: &ObjectIndex<Anchor>,
    selector: &SelectorOf,
    (namespace, meta): (String, &ObjectMeta),
) -> BTreeSet<Key> {
    let labels = meta.labels.as_ref();
    let demands = labels.into_iter().flatten().map(|(key, value)| Some((key.clone(), value.clone())));
    let candidates = demands.chain([None]).flat_map(|demand| anchors.keys(&(namespace.clone(), demand)));
    let lookup = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let is_match = |key: &Key| {
        let ours = main.get(key)?;
        selector(&*ours).filter(|selector| selector.matches(lookup))
    };
    candidates.filter(|key| is_match(key).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_types_of_selectors_mean_the_same() {
        let written: meta::LabelSelector =
            serde_json::from_value(json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]}]}))
            .expect("a selector");
        let parsed = LabelSelector::parse("app=web,tier in (a,b)").expect("a selector");
        assert_eq!(written.into_selector(), parsed.clone().into_selector());
        let odd: meta::LabelSelector =
            serde_json::from_value(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}))
                .expect("a selector");
        assert_eq!(odd.into_selector(), LabelSelector::nothing(), "what is not valid matches nothing");
        assert_eq!(meta::LabelSelector::default().into_selector(), LabelSelector::everything());
    }
}
