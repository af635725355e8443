//! A strategy says how the generic verbs treat a kind; this module has its aspects, and the strategies that several
//! kinds share.
//!
//! **Invariant:** a strategy is data. The behavior of a kind (defaults, preparation, validation) is declared
//! separately.

use serde_json::{Map, Value};

use super::{KindSource, Resource};
use crate::names::NameRule;
use crate::object::fill::is_same;

/// When an update raises `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// The kind has no generation; a value that a client sent at creation is kept.
    Absent,
    /// Starts at 1; no update raises it.
    Fixed,
    /// Rises when anything other than metadata and status changes.
    Content,
    /// Also rises when annotations change.
    ContentAndAnnotations,
    /// Also rises when labels change.
    ContentAndLabels,
    /// Rises when anything other than metadata changes; used by custom kinds without a status subresource.
    Everything,
}

impl GenerationRule {
    /// Returns whether the change from `old` to `new` raises the generation.
    pub fn rises(self, new: &Value, old: &Value) -> bool {
        match self {
            Self::Absent | Self::Fixed => false,
            Self::Content => differs(new, old, false),
            Self::ContentAndAnnotations => {
                differs(new, old, false) || !same_metadata(new, old, "annotations")
            }
            Self::ContentAndLabels => differs(new, old, false) || !same_metadata(new, old, "labels"),
            Self::Everything => differs(new, old, true),
        }
    }
}

fn differs(new: &Value, old: &Value, with_status: bool) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    let counts = |name: &str| match name {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => with_status,
        _ => true,
    };
    // A list that is always written is stored as null and may be absent from a client's body.
    let changed = |from: &Map<String, Value>, to: &Map<String, Value>| {
        from.iter().any(|(name, value)| counts(name) && !value.is_null() && to.get(name) != Some(value))
    };
    changed(new, old) || changed(old, new)
}

fn same_metadata(new: &Value, old: &Value, name: &str) -> bool {
    is_same(&new["metadata"][name], &old["metadata"][name])
}

/// The properties of a kind that the generic verbs need to know.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one independent fact each, read by different verbs")]
pub struct Strategy {
    /// Whether an update may leave out the resourceVersion.
    pub allows_unconditional_update: bool,
    /// Whether an update of an absent object creates it.
    pub creates_on_update: bool,
    /// When the generation rises.
    pub generation: GenerationRule,
    /// Whether a delete returns the object instead of a Status.
    pub returns_object_on_delete: bool,
    /// Whether a delete honours grace periods.
    pub is_graceful: bool,
    /// Whether dependents are orphaned unless the delete specifies otherwise.
    pub orphans_by_default: bool,
    /// Whether garbage collection applies.
    pub is_collectable: bool,
    /// How objects may be named.
    pub name: NameRule,
    /// Dotted paths that the main endpoint keeps as stored, regardless of the update.
    pub reset_on_main: &'static [&'static str],
    /// Dotted paths that the status endpoint keeps as stored.
    pub reset_on_status: &'static [&'static str],
}

impl Strategy {
    /// Returns whether the kind has a generation.
    pub fn has_generation(&self) -> bool {
        self.generation != GenerationRule::Absent
    }

    pub(crate) const fn generation(mut self, generation: GenerationRule) -> Self {
        self.generation = generation;
        self
    }

    pub(crate) const fn counted(self) -> Self {
        self.generation(GenerationRule::Content)
    }

    pub(crate) const fn conditional(mut self) -> Self {
        self.allows_unconditional_update = false;
        self
    }

    pub(crate) const fn created_by_update(mut self) -> Self {
        self.creates_on_update = true;
        self
    }

    pub(crate) const fn returned(mut self) -> Self {
        self.returns_object_on_delete = true;
        self
    }

    pub(crate) const fn graceful(mut self) -> Self {
        self.is_graceful = true;
        self
    }

    pub(crate) const fn uncollectable(mut self) -> Self {
        self.is_collectable = false;
        self
    }

    pub(crate) const fn orphaning(mut self) -> Self {
        self.orphans_by_default = true;
        self
    }

    pub(crate) const fn named(mut self, name: NameRule) -> Self {
        self.name = name;
        self
    }

    pub(crate) const fn with_status(mut self, kept_on_status: &'static [&'static str]) -> Self {
        self.reset_on_main = &["status"];
        self.reset_on_status = kept_on_status;
        self
    }
}

/// The paths that a status endpoint keeps: the spec.
pub(crate) const SPEC: &[&str] = &["spec"];
/// The paths that a status endpoint keeps if it does not change metadata either.
pub(crate) const ALL_BUT_STATUS: &[&str] = &["metadata", "spec"];

/// The strategy of plain kinds.
pub(crate) const PLAIN: Strategy = Strategy {
    allows_unconditional_update: true,
    creates_on_update: false,
    generation: GenerationRule::Absent,
    returns_object_on_delete: false,
    is_graceful: false,
    orphans_by_default: false,
    is_collectable: true,
    name: NameRule::Subdomain,
    reset_on_main: &[],
    reset_on_status: &[],
};

/// The strategy of kinds with a spec that a controller works towards and a status that reports its progress.
pub(crate) const WORKLOAD: Strategy = PLAIN.counted().with_status(SPEC);

const CUSTOM: Strategy = PLAIN.generation(GenerationRule::Everything).conditional();
const CUSTOM_WITH_STATUS: Strategy = PLAIN.counted().conditional().with_status(ALL_BUT_STATUS);

/// Returns the strategy of a served kind.
pub fn strategy(resource: &Resource) -> &'static Strategy {
    match &resource.source {
        KindSource::BuiltIn(known) => &known.kind.strategy,
        KindSource::Custom(custom) if custom.has_status => &CUSTOM_WITH_STATUS,
        KindSource::Custom(_) => &CUSTOM,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(group: &str, plural: &str) -> Option<Resource> {
        crate::kinds::built_in_rows().into_iter().find(|row| &*row.group == group && &*row.plural == plural)
    }

    #[test]
    fn a_status_endpoint_and_its_resets_come_together() {
        for resource in crate::kinds::built_in_rows() {
            let has_status = resource.subresource("status").is_some();
            assert_eq!(!strategy(&resource).reset_on_status.is_empty(), has_status, "{}", resource.plural);
        }
    }

    #[test]
    fn well_known_kinds_have_their_facts() {
        let of = |group, plural| strategy(&served(group, plural).expect("served"));
        assert!(of("", "configmaps").allows_unconditional_update && !of("", "configmaps").creates_on_update);
        assert!(!of("coordination.k8s.io", "leases").allows_unconditional_update);
        assert!(of("coordination.k8s.io", "leases").creates_on_update);
        assert!(of("batch", "jobs").orphans_by_default && of("", "pods").is_graceful);
        assert!(!of("", "events").is_collectable && of("", "services").returns_object_on_delete);
    }

    #[test]
    fn generation_follows_content() {
        let old = json!({"metadata": {"generation": 1}, "spec": {"a": 1}, "status": {"b": 1}});
        let status = json!({"metadata": {"generation": 1}, "spec": {"a": 1}, "status": {"b": 2}});
        let noted = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {"a": 1}, "status": {"b": 1}});
        assert!(!GenerationRule::Content.rises(&status, &old));
        assert!(GenerationRule::Everything.rises(&status, &old));
        assert!(!GenerationRule::Content.rises(&noted, &old));
        assert!(GenerationRule::ContentAndAnnotations.rises(&noted, &old));
        assert!(GenerationRule::Content.rises(&json!({"status": {"b": 1}}), &old));
    }
}
