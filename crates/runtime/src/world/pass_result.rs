//! Collects the result of one full pass, sans I/O: the finding for each listed resource, and the conclusions once all
//! are listed. It contains counts and names, never the resources themselves, so a pass over a large world costs little
//! more than its list.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use homeostat_core::Key;

use super::leak_suspects::Suspicion;

/// The finding for a listed resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceFinding {
    /// It matches this object's spec.
    InSync(Key),
    /// It is ours and differs from the spec: these objects must be reconciled.
    Suspect(Vec<Key>),
    /// It is not known to be ours, and its name is desired by these objects, which must be reconciled.
    InTheWay(Vec<Key>),
    /// It belongs to this object, which exists but does not desire it.
    Unlisted(Key),
    /// It is ours and undesired, or unowned in a world that is ours alone.
    Leak(Suspicion),
    /// It is ours, but is being deleted or cannot be judged now.
    Kept,
    /// It is owned by someone else.
    Foreign,
}

/// The result of one full pass.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    pub(super) resources: usize,
    /// The number of resources that are certainly ours: the sweep is limited to a share of this, so doubtful ones do
    /// not count.
    pub(super) owned: usize,
    in_sync: HashMap<Key, usize>,
    pub(super) suspects: BTreeSet<Key>,
    /// Resources to report to their objects, because neither their specs nor their inventories name them.
    pub(super) unlisted: Vec<(Key, String)>,
    pub(super) leaks: BTreeMap<String, Suspicion>,
}

impl PassResult {
    /// Creates an empty result for about this many objects.
    pub(super) fn new(objects: usize) -> Self {
        Self { in_sync: HashMap::with_capacity(objects), ..Self::default() }
    }

    /// Adds a listed resource.
    pub(super) fn add_finding(&mut self, name: String, finding: ResourceFinding) {
        self.resources += 1;
        self.owned +=
            usize::from(!matches!(finding, ResourceFinding::Foreign | ResourceFinding::InTheWay(_)));
        match finding {
            ResourceFinding::InSync(key) => *self.in_sync.entry(key).or_default() += 1,
            ResourceFinding::Suspect(keys) | ResourceFinding::InTheWay(keys) => self.suspects.extend(keys),
            ResourceFinding::Unlisted(key) => {
                self.suspects.insert(key.clone());
                self.unlisted.push((key, name));
            }
            ResourceFinding::Leak(suspicion) => {
                self.leaks.insert(name, suspicion);
            }
            ResourceFinding::Kept | ResourceFinding::Foreign => {}
        }
    }

    /// Returns how many resources of an object were listed and match its spec; `None` if any does not.
    pub(super) fn agreed(&self, key: &Key) -> Option<usize> {
        (!self.suspects.contains(key)).then(|| self.in_sync.get(key).copied().unwrap_or_default())
    }

    /// Returns whether all `wanted` resources that this object desires exist and match the spec. If not, the object is
    /// a suspect.
    pub(super) fn is_settled(&mut self, key: &Key, wanted: usize) -> bool {
        let is_settled = self.agreed(key) == Some(wanted);
        if !is_settled {
            self.suspects.insert(key.clone());
        }
        is_settled
    }

    /// Spares resources that may belong to objects that could not be read or are invalid.
    pub(super) fn spare_unwanted(&mut self) {
        self.leaks.retain(|_, suspicion| matches!(suspicion, Suspicion::OwnerGone(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::decide_step::Owner;

    #[test]
    fn an_object_is_settled_when_all_its_things_are() {
        let key = |name| Key::new("demo.dev", "shapes", "a", name);
        let mut survey = PassResult::default();
        survey.add_finding("x".into(), ResourceFinding::InSync(key("x")));
        survey.add_finding("y1".into(), ResourceFinding::InSync(key("y")));
        survey.add_finding("y2".into(), ResourceFinding::Suspect(vec![key("y")]));
        survey.add_finding("z".into(), ResourceFinding::Foreign);
        survey.add_finding("v".into(), ResourceFinding::InTheWay(vec![key("v")]));
        assert!(survey.is_settled(&key("x"), 1));
        assert!(!survey.is_settled(&key("x2"), 1), "its resource was not listed");
        assert!(!survey.is_settled(&key("y"), 2));
        assert!(survey.is_settled(&key("none"), 0), "an object may want nothing");
        assert_eq!((survey.resources, survey.owned), (5, 3));
        assert_eq!(survey.suspects, BTreeSet::from([key("v"), key("x2"), key("y")]));
    }

    #[test]
    fn doubt_about_objects_spares_what_they_may_want() {
        let owner = Owner { key: Key::new("demo.dev", "shapes", "a", "x"), uid: "1".into() };
        let gone = Suspicion::OwnerGone(owner);
        let mut survey = PassResult::default();
        survey.add_finding("x".into(), ResourceFinding::Leak(gone.clone()));
        survey.add_finding("y".into(), ResourceFinding::Leak(Suspicion::Unwanted));
        survey.add_finding("z".into(), ResourceFinding::Leak(Suspicion::Stray));
        survey.spare_unwanted();
        assert_eq!(survey.leaks, BTreeMap::from([("x".into(), gone)]));
    }
}
