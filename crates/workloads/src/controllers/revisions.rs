//! The revisions of a StatefulSet or DaemonSet: each template it had, as a ControllerRevision that `kubectl rollout
//! history` and `undo` understand. Pure.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::template::short_hash;

/// The label that tells the revision of a Pod, and the hash of a revision.
pub(super) const REVISION: &str = "controller-revision-hash";

/// The longest part of an owner's name in the names of its revisions: what is left of a name after the hash and a Pod's
/// own needs, as Kubernetes has it.
const PREFIX_MAX: usize = 223;

/// A patch that puts this template in place.
fn template_patch(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// What is to be done so that the newest revision holds the owner's template.
pub(super) enum NewestRevision {
    /// It is.
    Known(Arc<ControllerRevision>),
    /// This one is, and must become the newest.
    Renumber(Arc<ControllerRevision>, i64),
    /// It must be made.
    Missing(Box<ControllerRevision>),
}

/// Looks for the owner's template among its revisions, which are in order.
pub(super) fn find_newest(
    owner: &ObjectMeta,
    template: &PodTemplateSpec,
    revisions: &[Arc<ControllerRevision>],
    collisions: i32,
) -> NewestRevision {
    // As types, not as text: another build may write the same template differently.
    let is_equal = |revision: &Arc<ControllerRevision>| template_of(revision).as_ref() == Some(template);
    let next = revisions.last().map_or(1, |last| last.revision + 1);
    match revisions.iter().rposition(is_equal) {
        Some(at) if at + 1 == revisions.len() => NewestRevision::Known(revisions[at].clone()),
        Some(at) => NewestRevision::Renumber(revisions[at].clone(), next),
        None => NewestRevision::Missing(Box::new(revision(owner, template, next, collisions))),
    }
}

fn revision(
    owner: &ObjectMeta,
    template: &PodTemplateSpec,
    number: i64,
    collisions: i32,
) -> ControllerRevision {
    let data = template_patch(template);
    let hash = short_hash(&data, Some(collisions));
    let owner_name = owner.name.as_deref().unwrap_or_default();
    let prefix = owner_name.get(..PREFIX_MAX).unwrap_or(owner_name);
    let described = template.metadata.clone().unwrap_or_default();
    let mut labels = described.labels.unwrap_or_default();
    labels.insert(REVISION.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            labels: Some(labels),
            annotations: owner.annotations.clone(),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// The template a revision holds.
pub(super) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let RawExtension(data) = revision.data.as_ref()?;
    serde_json::from_value(data["spec"]["template"].clone()).ok()
}

pub(super) fn revision_name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// The revisions nobody uses beyond the limit, oldest first.
pub(super) fn surplus_revisions(
    revisions: &[Arc<ControllerRevision>],
    live: &[&str],
    limit: usize,
) -> Vec<Arc<ControllerRevision>> {
    let mut unused: Vec<_> =
        revisions.iter().filter(|revision| !live.contains(&revision_name(revision))).cloned().collect();
    unused.truncate(unused.len().saturating_sub(limit));
    unused
}
