//! Determines which ReplicaSet of a Deployment is new, which revision each one has, and what their annotations say.
//! This module is pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::rollout_sizes::{RolloutLimits, SetShare, SetSize};

/// The label that distinguishes the Pods of one template from those of another.
pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// A Deployment's annotations that its ReplicaSets do not need.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.revision",
];

/// The maximum length of the list of former revisions on a ReplicaSet: the same as in Kubernetes.
const HISTORY_CHARACTERS_MAX: usize = 2000;

/// The ReplicaSets of one Deployment, the old ones oldest first.
#[derive(Clone, Default)]
pub(super) struct ReplicaSets {
    pub(super) new: Option<Arc<ReplicaSet>>,
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl ReplicaSets {
    /// Finds the new one among them: the oldest one with the Deployment's template.
    pub(super) fn of(mut all: Vec<Arc<ReplicaSet>>, spec: &DeploymentSpec) -> Self {
        all.sort_by(|left, right| age(left).cmp(&age(right)));
        let new = all.iter().position(|set| has_template(set, &spec.template)).map(|at| all.remove(at));
        Self { new, old: all }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|set| replicas(set) > 0)
    }

    /// Returns the set to scale when nothing is being rolled out: the only active one, or the newest.
    pub(super) fn active_or_latest(&self) -> Option<&Arc<ReplicaSet>> {
        let mut active = self.active();
        match (active.next(), active.next()) {
            (None, _) => self.new.as_ref().or(self.old.last()),
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => None,
        }
    }

    /// Returns whether the Deployment has been scaled since its sets were last sized.
    pub(super) fn were_scaled(&self, desired: i32) -> bool {
        self.active().any(|set| number_annotation(set, DESIRED).is_some_and(|known| known != desired))
    }

    /// Returns the active sets, largest first; sets of equal size are ordered newest first when growing, oldest first
    /// when shrinking.
    pub(super) fn by_size(&self, is_growing: bool) -> Vec<Arc<ReplicaSet>> {
        let mut active: Vec<_> = self.active().cloned().collect();
        active.sort_by(|left, right| left_first(left, right, is_growing));
        active
    }

    pub(super) fn total(&self) -> i32 {
        self.all().map(|set| replicas(set)).sum()
    }

    /// Returns the revision for the next new set.
    pub(super) fn next_revision(&self) -> i64 {
        self.old.iter().map(|set| revision(set)).max().unwrap_or_default() + 1
    }

    /// Replaces a set with a newer state of it.
    pub(super) fn replace(&mut self, set: &Arc<ReplicaSet>) {
        let places = self.old.iter_mut().chain(&mut self.new);
        places.filter(|place| place.metadata.uid == set.metadata.uid).for_each(|place| *place = set.clone());
    }
}

fn left_first(left: &ReplicaSet, right: &ReplicaSet, is_growing: bool) -> std::cmp::Ordering {
    let by_size = Reverse(replicas(left)).cmp(&Reverse(replicas(right)));
    let by_age = age(left).cmp(&age(right));
    by_size.then(if is_growing { by_age.reverse() } else { by_age })
}

fn age(set: &ReplicaSet) -> (Option<&Time>, Option<&str>) {
    (set.metadata.creation_timestamp.as_ref(), set.metadata.name.as_deref())
}

/// Returns whether the set was created from this template.
pub(super) fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(theirs) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) else { return false };
    theirs.spec == template.spec && without_hash(theirs) == without_hash(template)
}

fn without_hash(template: &PodTemplateSpec) -> ObjectMeta {
    let mut meta = template.metadata.clone().unwrap_or_default();
    if let Some(labels) = &mut meta.labels {
        labels.remove(HASH);
    }
    meta.labels = meta.labels.filter(|labels| !labels.is_empty());
    meta
}

pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default()
}

pub(super) fn size_of_set(set: &ReplicaSet) -> SetSize {
    SetSize { replicas: replicas(set), available: available(set) }
}

pub(super) fn share_of_set(set: &ReplicaSet) -> SetShare {
    SetShare { replicas: replicas(set), max_before: number_annotation(set, MAX) }
}

pub(super) fn name(set: &ReplicaSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

pub(super) fn number_annotation(set: &ReplicaSet, key: &str) -> Option<i32> {
    annotation(&set.metadata, key)?.parse().ok().filter(|number| *number >= 0)
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(&set.metadata, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns whether the new set is complete and was sized for the current desired number.
pub(super) fn is_saturated(new: Option<&Arc<ReplicaSet>>, desired: i32) -> bool {
    new.is_some_and(|set| {
        replicas(set) == desired
            && number_annotation(set, DESIRED) == Some(desired)
            && available(set) == desired
    })
}

/// Returns the annotations that record how many replicas a set was sized for.
pub(super) fn size_annotations(limits: RolloutLimits) -> [(&'static str, String); 2] {
    [(DESIRED, limits.desired.to_string()), (MAX, limits.total_max().to_string())]
}

/// Returns the annotations that the new set should have but does not.
pub(super) fn missing_annotations(
    deployment: &Deployment,
    set: &ObjectMeta,
    next_revision: i64,
) -> BTreeMap<String, String> {
    let copied = deployment.metadata.annotations.iter().flatten();
    let copied = copied.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    let mut missing: BTreeMap<String, String> = copied
        .filter(|(key, value)| annotation(set, key) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let known = annotation(set, REVISION);
    let known_number = known.and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
    if known_number < next_revision {
        missing.insert(REVISION.to_owned(), next_revision.to_string());
        if let Some(known) = known {
            let former = annotation(set, REVISION_HISTORY).unwrap_or_default();
            missing.insert(REVISION_HISTORY.to_owned(), longer_history(former, known));
        }
    }
    missing
}

/// Appends a revision to the former ones, and drops the oldest when there are too many.
fn longer_history(former: &str, revision: &str) -> String {
    if former.is_empty() {
        return revision.to_owned();
    }
    let mut history = format!("{former},{revision}");
    while history.len() > HISTORY_CHARACTERS_MAX
        && let Some((_, rest)) = history.split_once(',')
    {
        history = rest.to_owned();
    }
    history
}

/// Returns the old sets beyond the history limit that can be deleted, lowest revisions first.
pub(super) fn surplus_sets(old: &[Arc<ReplicaSet>], limit: i32) -> Vec<Arc<ReplicaSet>> {
    let mut alive: Vec<_> =
        old.iter().filter(|set| set.metadata.deletion_timestamp.is_none()).cloned().collect();
    let excess = alive.len().saturating_sub(crate::controllers::numbers::as_usize(limit));
    alive.sort_by(|left, right| revision(left).cmp(&revision(right)).then(age(left).cmp(&age(right))));
    alive.truncate(excess);
    alive.retain(|set| is_empty(set));
    alive
}

fn is_empty(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    status.replicas == 0 && replicas(set) == 0 && status.observed_generation >= set.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_history(former: &str, revision: &str, expected: &str) {
        assert_eq!(longer_history(former, revision), expected);
    }

    #[test]
    fn history_grows_and_is_cut() {
        check_history("", "1", "1");
        check_history("1,3", "5", "1,3,5");
        let long = vec!["100"; 500].join(",");
        let cut = longer_history(&long, "101");
        assert!(cut.len() <= HISTORY_CHARACTERS_MAX && cut.ends_with(",101"), "{}", cut.len());
    }

    fn set(name: &str, second: u32, replicas: i32, image: &str) -> Arc<ReplicaSet> {
        let set = json!({
            "metadata": {"name": name, "uid": name, "generation": 1,
                "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
                "annotations": {REVISION: second.to_string(), DESIRED: "3"}},
            "spec": {"replicas": replicas, "selector": {}, "template": {
                "metadata": {"labels": {"app": "a", HASH: name}},
                "spec": {"containers": [{"name": "c", "image": image}]}}},
            "status": {"replicas": replicas, "observedGeneration": 1},
        });
        Arc::new(serde_json::from_value(set).expect("a ReplicaSet"))
    }

    fn spec(image: &str) -> DeploymentSpec {
        let spec = json!({"selector": {}, "template": {
            "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}}});
        serde_json::from_value(spec).expect("a spec")
    }

    #[test]
    fn the_new_set_is_the_oldest_with_the_template() {
        let all = || vec![set("c", 3, 0, "two"), set("a", 1, 3, "one"), set("b", 2, 0, "two")];
        let sets = ReplicaSets::of(all(), &spec("two"));
        assert_eq!(name(sets.new.as_ref().expect("one")), "b");
        assert_eq!(sets.old.iter().map(|set| name(set)).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(name(sets.active_or_latest().expect("one")), "a", "the only active one");
        assert!(ReplicaSets::of(all(), &spec("three")).new.is_none());
        assert!(sets.were_scaled(4) && !sets.were_scaled(3));
        assert_eq!(sets.next_revision(), 4);
    }

    #[test]
    fn the_oldest_empty_sets_go() {
        let old = [set("a", 1, 0, "1"), set("b", 2, 1, "2"), set("c", 3, 0, "3"), set("d", 4, 0, "4")];
        let gone =
            |limit| surplus_sets(&old, limit).iter().map(|set| name(set).to_owned()).collect::<Vec<_>>();
        assert_eq!(gone(10), Vec::<String>::new());
        assert_eq!(gone(3), ["a"]);
        assert_eq!(gone(0), ["a", "c", "d"]);
    }

    #[test]
    fn annotations_are_copied_but_for_those_of_the_controller() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"annotations": {
            "note": "new", "kept": "same", REVISION: "9"}}}))
        .expect("a Deployment");
        let set: ObjectMeta =
            serde_json::from_value(json!({"annotations": {"kept": "same", "note": "old", REVISION: "1"}}))
                .expect("metadata");
        let missing = missing_annotations(&deployment, &set, 3);
        let expected = json!({"note": "new", REVISION: "3", REVISION_HISTORY: "1"});
        assert_eq!(json!(missing), expected);
        assert_eq!(json!(missing_annotations(&deployment, &set, 1)), json!({"note": "new"}));
    }
}
