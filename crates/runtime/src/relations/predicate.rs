//! Predicates decide which changes to an object matter. A predicate compares the state before and after; `|`, `&` and
//! `!` combine them.
//!
//! An object seen for the first time, one whose deletion has begun and one that is gone always matter: level-triggered
//! code must see them.

use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kind::object::Object;

type Compare = dyn Fn(&Object, &Object) -> bool + Send + Sync;

/// A test on the old and new state, without the type of the object.
#[derive(Clone)]
pub(crate) struct ChangeTest {
    compare: Arc<Compare>,
    /// Whether it reads more than metadata, and therefore needs objects of the type it was written for.
    pub(crate) reads_whole: bool,
}

/// A test on the old and new state.
pub struct Predicate<K> {
    test: ChangeTest,
    kind: PhantomData<fn(&K)>,
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self::from_test(self.test.clone())
    }
}

impl<K: 'static> Predicate<K> {
    /// Creates a predicate from a test on the old and the new state.
    pub fn new(test: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        let compare = Arc::new(move |old: &Object, new: &Object| test(old.as_type(), new.as_type()));
        Self::from_test(ChangeTest { compare, reads_whole: true })
    }
}

impl<K> Predicate<K> {
    fn from_test(test: ChangeTest) -> Self {
        Self { test, kind: PhantomData }
    }

    pub(crate) fn erased(self) -> ChangeTest {
        self.test
    }
}

impl ChangeTest {
    /// Returns whether the change from `old` to `new` matters.
    pub(crate) fn passes(&self, old: Option<&Object>, new: Option<&Object>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => is_deletion(old.meta(), new.meta()) || (self.compare)(old, new),
            _ => true,
        }
    }

    /// Returns a test that passes when both pass.
    pub(crate) fn and(self, other: Self) -> Self {
        let reads_whole = self.reads_whole || other.reads_whole;
        let (one, other) = (self.compare, other.compare);
        Self { compare: Arc::new(move |old, new| one(old, new) && other(old, new)), reads_whole }
    }

    fn or(self, other: Self) -> Self {
        let reads_whole = self.reads_whole || other.reads_whole;
        let (one, other) = (self.compare, other.compare);
        Self { compare: Arc::new(move |old, new| one(old, new) || other(old, new)), reads_whole }
    }

    fn not(self) -> Self {
        let (test, reads_whole) = (self.compare, self.reads_whole);
        Self { compare: Arc::new(move |old, new| !test(old, new)), reads_whole }
    }
}

fn is_deletion(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.deletion_timestamp != new.deletion_timestamp || old.uid != new.uid
}

impl<K> BitOr for Predicate<K> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self::from_test(self.test.or(other.test))
    }
}

impl<K> BitAnd for Predicate<K> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self::from_test(self.test.and(other.test))
    }
}

impl<K> Not for Predicate<K> {
    type Output = Self;
    fn not(self) -> Self {
        Self::from_test(self.test.not())
    }
}

fn of_metadata(test: impl Fn(&ObjectMeta, &ObjectMeta) -> bool + Send + Sync + 'static) -> ChangeTest {
    let compare = Arc::new(move |old: &Object, new: &Object| test(old.meta(), new.meta()));
    ChangeTest { compare, reads_whole: false }
}

/// Ready-made predicates: `changed::generation() | changed::annotation("demo.dev/force")`.
pub mod changed {
    use super::{Predicate, tests_of};
    use crate::kind::Kind;

    /// Matches when the spec changed. For kinds without generations, any change matches.
    pub fn generation<K: Kind>() -> Predicate<K> {
        Predicate::from_test(tests_of::generation())
    }

    /// Matches when any label changed.
    pub fn labels<K: Kind>() -> Predicate<K> {
        Predicate::from_test(tests_of::labels())
    }

    /// Matches when any annotation changed.
    pub fn annotations<K: Kind>() -> Predicate<K> {
        Predicate::from_test(tests_of::annotations())
    }

    /// Matches when this annotation changed.
    pub fn annotation<K: Kind>(name: &'static str) -> Predicate<K> {
        Predicate::from_test(tests_of::annotation(name))
    }

    /// Matches when the finalizers changed.
    pub fn finalizers<K: Kind>() -> Predicate<K> {
        Predicate::from_test(tests_of::finalizers())
    }
}

/// The tests of the ready-made predicates, compiled once for all kinds.
mod tests_of {
    use super::{ChangeTest, of_metadata};

    pub(super) fn generation() -> ChangeTest {
        of_metadata(|old, new| new.generation.is_none() || old.generation != new.generation)
    }

    pub(super) fn labels() -> ChangeTest {
        of_metadata(|old, new| old.labels != new.labels)
    }

    pub(super) fn annotations() -> ChangeTest {
        of_metadata(|old, new| old.annotations != new.annotations)
    }

    pub(super) fn annotation(name: &'static str) -> ChangeTest {
        of_metadata(move |old, new| {
            let [old, new] = [old, new].map(|meta| meta.annotations.as_ref().and_then(|all| all.get(name)));
            old != new
        })
    }

    pub(super) fn finalizers() -> ChangeTest {
        of_metadata(|old, new| old.finalizers != new.finalizers)
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
        assert_eq!(predicate.clone().erased().passes(Some(&map(1, "a", "a")), Some(new)), expected);
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
        let passes = |old: Option<&Object>, new: Option<&Object>| never.clone().erased().passes(old, new);
        assert!(passes(None, Some(&object)) && passes(Some(&object), None));
        let mut dying = object.clone();
        let moment = jiff::Timestamp::UNIX_EPOCH;
        dying.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(moment));
        assert!(passes(Some(&object), Some(&dying)));
    }
}
