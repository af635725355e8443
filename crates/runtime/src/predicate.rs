//! Which changes of an object matter. A predicate compares the state before and after; `|`, `&` and `!` combine them.
//!
//! An object seen for the first time, one that began to be deleted and one that is gone always matter: level-triggered
//! code must hear of them.

use std::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use crate::kind::Kind;

type Test<K> = Arc<dyn Fn(&K, &K) -> bool + Send + Sync>;

/// A test of old and new state.
pub struct Predicate<K>(Test<K>);

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: 'static> Predicate<K> {
    /// Any test of your own: old state, new state.
    pub fn new(test: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }
}

impl<K: Kind> Predicate<K> {
    /// Does the change from `old` to `new` matter?
    pub(crate) fn admits(&self, old: Option<&K>, new: Option<&K>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => is_deletion(old, new) || (self.0)(old, new),
            _ => true,
        }
    }
}

fn is_deletion<K: Kind>(old: &K, new: &K) -> bool {
    old.meta().deletion_timestamp != new.meta().deletion_timestamp || old.meta().uid != new.meta().uid
}

impl<K: 'static> BitOr for Predicate<K> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self::new(move |old, new| (self.0)(old, new) || (other.0)(old, new))
    }
}

impl<K: 'static> BitAnd for Predicate<K> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self::new(move |old, new| (self.0)(old, new) && (other.0)(old, new))
    }
}

impl<K: 'static> Not for Predicate<K> {
    type Output = Self;
    fn not(self) -> Self {
        Self::new(move |old, new| !(self.0)(old, new))
    }
}

/// Ready-made predicates: `changed::generation() | changed::annotation("demo.dev/force")`.
pub mod changed {
    use super::{Kind, Predicate};

    /// The spec changed. Kinds without generations count any change.
    pub fn generation<K: Kind>() -> Predicate<K> {
        Predicate::new(|old: &K, new: &K| {
            new.meta().generation.is_none() || old.meta().generation != new.meta().generation
        })
    }

    /// Any label changed.
    pub fn labels<K: Kind>() -> Predicate<K> {
        Predicate::new(|old: &K, new: &K| old.meta().labels != new.meta().labels)
    }

    /// Any annotation changed.
    pub fn annotations<K: Kind>() -> Predicate<K> {
        Predicate::new(|old: &K, new: &K| old.meta().annotations != new.meta().annotations)
    }

    /// This annotation changed.
    pub fn annotation<K: Kind>(name: &'static str) -> Predicate<K> {
        Predicate::new(move |old: &K, new: &K| {
            let value =
                |object: &K| object.meta().annotations.as_ref().and_then(|all| all.get(name).cloned());
            value(old) != value(new)
        })
    }

    /// The finalizers changed.
    pub fn finalizers<K: Kind>() -> Predicate<K> {
        Predicate::new(|old: &K, new: &K| old.meta().finalizers != new.meta().finalizers)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(generation: i64, label: &str, note: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.generation = Some(generation);
        map.metadata.labels = Some([("l".to_owned(), label.to_owned())].into());
        map.metadata.annotations = Some([("n".to_owned(), note.to_owned())].into());
        map
    }

    #[track_caller]
    fn check(predicate: &Predicate<ConfigMap>, new: &ConfigMap, expected: bool) {
        assert_eq!(predicate.admits(Some(&map(1, "a", "a")), Some(new)), expected);
    }

    #[test]
    fn predicates_combine() {
        let either = changed::generation() | changed::annotation("n");
        check(&either, &map(1, "b", "a"), false);
        check(&either, &map(2, "a", "a"), true);
        check(&either, &map(1, "a", "b"), true);
        check(&(changed::labels() & !changed::annotations()), &map(1, "b", "b"), false);
        check(&(changed::labels() & !changed::annotations()), &map(1, "b", "a"), true);
        check(&Predicate::new(|old: &ConfigMap, new| old.data != new.data), &map(2, "b", "b"), false);
    }

    #[test]
    fn births_and_deletions_always_matter() {
        let never = Predicate::new(|_: &ConfigMap, _: &ConfigMap| false);
        let object = map(1, "a", "a");
        assert!(never.admits(None, Some(&object)) && never.admits(Some(&object), None));
        let mut dying = object.clone();
        let moment = jiff::Timestamp::UNIX_EPOCH;
        dying.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(moment));
        assert!(never.admits(Some(&object), Some(&dying)));
    }
}
