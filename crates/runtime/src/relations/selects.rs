//! Follows selected objects: our object has a label selector, and is reconciled when an object it matches, or matched
//! before the change, appears, changes or disappears. Both are in the same namespace, unless one of the kinds is
//! cluster-scoped.
//!
//! Each of our objects is indexed under one label that its selector requires, so a change is compared only with the few
//! objects that may match.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::Cause;
use homeostat_core::selector::LabelSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, ObjectMeta};
use serde_json::json;

use super::{FollowedKind, Relation, RelationContext, guarded, passes, triggered, urgency};
use crate::cache::{ObjectCache, ObjectIndex};
use crate::kind::KindInfo;
use crate::kind::object::Object;

/// A label selector of any supported type.
pub trait Selector {
    /// Converts it into a selector that can be matched. A selector that is invalid matches nothing.
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

/// The key under which our objects are indexed by their selectors.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SelectorIndexKey {
    /// The namespace both must be in; empty if it does not matter.
    namespace: String,
    /// A label that must have this value; `None` for a selector that requires no single label.
    label: Option<(String, String)>,
}

/// Whether both objects must be in the same namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamespaceMatch {
    SameNamespace,
    Anywhere,
}

/// Reads the selector of one of our objects.
pub(crate) type SelectorOf = Arc<dyn Fn(&Object) -> Option<LabelSelector> + Send + Sync>;

pub(crate) fn selects(other: &'static KindInfo, selector: SelectorOf) -> Relation {
    let connect = move |wire: &RelationContext<'_>, followed: FollowedKind| {
        let anchoring = selector.clone();
        let are_namespaced = wire.main.info().is_namespaced && other.is_namespaced;
        let nearness = if are_namespaced { NamespaceMatch::SameNamespace } else { NamespaceMatch::Anywhere };
        let anchor_of = move |object: &Object| -> Vec<SelectorIndexKey> {
            let selector = anchoring(object);
            selector
                .map(|selector| anchor(namespace_of(object.meta(), nearness), &selector))
                .into_iter()
                .collect()
        };
        let anchors = ObjectIndex::new(wire.main, Box::new(anchor_of));
        let cache = wire.declare(followed.info);
        let (main, queue) = (wire.main.clone(), wire.queue.clone());
        cache.subscribe(move |delta| {
            let matching = |state: &Object| -> BTreeSet<Key> {
                let found = || {
                    match_selectors(
                        &main,
                        &anchors,
                        &selector,
                        ChangedObject { nearness, meta: state.meta() },
                    )
                };
                guarded("a selector", &delta.key, &queue, found).unwrap_or_default()
            };
            let passes_filter = passes(followed.filter.as_ref(), delta, &queue);
            let [old, new] =
                [&delta.old, &delta.new].map(|state| state.as_deref().map(matching).unwrap_or_default());
            for ours in triggered(&old, &new, passes_filter) {
                let cause = Cause::Related { other: delta.key.clone(), change: delta.change };
                queue.add(ours, cause, urgency(delta, &queue, ours));
            }
        });
        cache.watch_freshness()
    };
    Relation::by_metadata(other, "selects", Box::new(connect))
}

/// Returns the namespace both must be in; empty if it does not matter.
fn namespace_of(meta: &ObjectMeta, nearness: NamespaceMatch) -> String {
    meta.namespace.clone().filter(|_| nearness == NamespaceMatch::SameNamespace).unwrap_or_default()
}

fn anchor(namespace: String, selector: &LabelSelector) -> SelectorIndexKey {
    let label = selector.requirements().iter().find_map(|requirement| {
        let value = selector.exact(requirement.key())?;
        Some((requirement.key().to_owned(), value.to_owned()))
    });
    SelectorIndexKey { namespace, label }
}

/// A changed object, which our objects' selectors may match.
#[derive(Clone, Copy)]
struct ChangedObject<'a> {
    nearness: NamespaceMatch,
    meta: &'a ObjectMeta,
}

/// Returns our objects whose selector matches the changed object.
fn match_selectors(
    main: &ObjectCache,
    anchors: &ObjectIndex<SelectorIndexKey>,
    selector: &SelectorOf,
    candidate: ChangedObject<'_>,
) -> BTreeSet<Key> {
    let namespace = namespace_of(candidate.meta, candidate.nearness);
    let labels = candidate.meta.labels.as_ref();
    let demands = labels.into_iter().flatten().map(|(key, value)| Some((key.clone(), value.clone())));
    let candidates = demands
        .chain([None])
        .flat_map(|label| anchors.keys(&SelectorIndexKey { namespace: namespace.clone(), label }));
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
