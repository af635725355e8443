//! Determines how a controller follows the kinds it is related to: which of their changes matter, and whether only
//! metadata is kept. An option names a kind and applies to every relation to it, so the order of the builder's calls
//! does not matter.
//!
//! **Invariant:** an option that would have no effect, or that a relation cannot honour, is reported as an error before
//! anything starts.

use super::{RelatedKind, Relation};
use crate::kind::KindInfo;
use crate::relations::predicate::ChangeTest;

/// The options of one controller.
#[derive(Default)]
pub(crate) struct Options {
    filters: Vec<Filter>,
    metadata_only: Vec<MetadataOnly>,
}

struct Filter {
    info: &'static KindInfo,
    test: ChangeTest,
}

struct MetadataOnly {
    whole: &'static KindInfo,
    /// The type that holds only the metadata of `whole`.
    metadata: &'static KindInfo,
}

/// How a relation follows the other kind.
pub(crate) struct FollowedKind {
    /// The kind, or only its metadata.
    pub(crate) info: &'static KindInfo,
    /// Which changes matter; all of them if absent.
    pub(crate) filter: Option<ChangeTest>,
}

impl Options {
    /// Ignores changes to objects of this kind that do not pass the test.
    pub(crate) fn filter(&mut self, info: &'static KindInfo, test: ChangeTest) {
        self.filters.push(Filter { info, test });
    }

    /// Keeps only metadata of this kind.
    pub(crate) fn keep_only_metadata(&mut self, whole: &'static KindInfo, metadata: &'static KindInfo) {
        self.metadata_only.push(MetadataOnly { whole, metadata });
    }

    /// Returns how a relation follows this kind.
    pub(crate) fn followed(&self, other: &'static KindInfo) -> FollowedKind {
        let filters = self.filters.iter().filter(|filter| filter.info.is_same_kind(other));
        let filter = filters.map(|filter| filter.test.clone()).reduce(ChangeTest::and);
        FollowedKind { info: self.kept(other), filter }
    }

    /// Returns the type that the cache keeps for this kind.
    fn kept(&self, other: &'static KindInfo) -> &'static KindInfo {
        let only = self.metadata_only.iter().find(|only| only.whole.is_same_kind(other));
        only.map_or(other, |only| only.metadata)
    }

    /// Refuses options that no relation of this controller can honour, and says how to correct them.
    pub(crate) fn verify(&self, main: &KindInfo, relations: &[Relation]) -> Result<(), String> {
        let others = || relations.iter().filter_map(|relation| relation.other);
        for only in &self.metadata_only {
            let related: Vec<RelatedKind> =
                others().filter(|other| other.info.is_same_kind(only.whole)).collect();
            only.verify(main, &related)?;
        }
        for filter in &self.filters {
            let related = others().filter(|other| other.triggers && other.info.is_same_kind(filter.info));
            let kept: Vec<&KindInfo> = related.map(|other| self.kept(other.info)).collect();
            filter.verify(main, &kept)?;
        }
        Ok(())
    }
}

impl MetadataOnly {
    /// Refuses the option if there is no relation to its kind, or if a relation reads whole objects.
    fn verify(&self, main: &KindInfo, related: &[RelatedKind]) -> Result<(), String> {
        let kind = &self.whole.kind;
        if related.is_empty() {
            let cure = if main.is_same_kind(self.whole) {
                "objects of its own kind are always kept whole; remove the call".to_owned()
            } else {
                format!("declare the kind, as in .owns::<{kind}>(), or remove the call")
            };
            return Err(format!(
                "metadata_only::<{kind}>() names a kind to which the controller has no relation: {cure}"
            ));
        }
        match related.iter().find(|other| other.reads_whole && !other.info.is_metadata_only) {
            Some(RelatedKind { method, .. }) => Err(format!(
                "metadata_only::<{kind}>() keeps only metadata, and the function given to {method} reads whole objects: let \
                 it take a &Metadata<{kind}>, or remove the call of metadata_only"
            )),
            None => Ok(()),
        }
    }
}

impl Filter {
    /// Refuses the filter if no relation lets its kind trigger reconciles, or if too little of the objects is kept.
    fn verify(&self, main: &KindInfo, kept: &[&KindInfo]) -> Result<(), String> {
        let kind = &self.info.kind;
        if kept.is_empty() {
            let cure = if main.is_same_kind(self.info) {
                "use .when(..) for changes of the object itself".to_owned()
            } else {
                format!("declare the kind, as in .owns::<{kind}>(), or remove the call")
            };
            return Err(format!(
                "filter::<{kind}>(..) names a kind to which the controller has no relation that triggers it: {cure}"
            ));
        }
        if self.test.reads_whole && kept.iter().any(|kept| kept.type_id != self.info.type_id) {
            return Err(format!(
                "filter::<{kind}>(..) compares whole objects, and only their metadata is kept: use predicates of `changed`, \
                 compare a Metadata<{kind}>, or remove metadata_only::<{kind}>()"
            ));
        }
        Ok(())
    }
}
