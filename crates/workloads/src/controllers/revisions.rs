//! Manages the revisions of a StatefulSet or DaemonSet: each template it has had, as a ControllerRevision that `kubectl
//! rollout history` and `undo` understand.
//!
//! [`find_newest`] decides which revision is the newest, without I/O; [`ensure_newest`] makes it so on the server.

use std::sync::Arc;

use homeostat_runtime::{Context, Error, Kind, from_json};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::pod_template::short_hash;

/// The label that holds a Pod's revision, and a revision's hash.
pub(super) const REVISION: &str = "controller-revision-hash";

/// The longest part of an owner's name in its revisions' names: what is left of a name after the hash and the part that
/// a Pod needs, as in Kubernetes.
const PREFIX_MAX: usize = 223;

/// Returns a patch that sets this template.
fn template_patch(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The step required for the newest revision to hold the owner's template.
enum NewestRevision {
    /// Nothing: it already does.
    Known(Arc<ControllerRevision>),
    /// This revision holds it and must become the newest.
    Renumber(Arc<ControllerRevision>, i64),
    /// This revision must be created.
    Missing(Box<ControllerRevision>),
}

/// Looks for the owner's template among its revisions, which are in order.
fn find_newest(
    owner: &ObjectMeta,
    template: &PodTemplateSpec,
    revisions: &[Arc<ControllerRevision>],
    collisions: i32,
) -> NewestRevision {
    // Compares types, not text: a different build may serialize the same template differently.
    let is_equal = |revision: &Arc<ControllerRevision>| template_of(revision).as_ref() == Some(template);
    let next = revisions.last().map_or(1, |last| last.revision + 1);
    match revisions.iter().rposition(is_equal) {
        Some(at) if at + 1 == revisions.len() => NewestRevision::Known(revisions[at].clone()),
        Some(at) => NewestRevision::Renumber(revisions[at].clone(), next),
        None => NewestRevision::Missing(Box::new(revision(owner, template, next, collisions))),
    }
}

/// Returns the revision with the owner's template, and creates it if it is missing.
pub(super) async fn ensure_newest<K: Kind>(
    cx: &Context<K>,
    owner: &K,
    template: &PodTemplateSpec,
    revisions: &[Arc<ControllerRevision>],
    collisions: i32,
) -> Result<Arc<ControllerRevision>, Error> {
    match find_newest(owner.meta(), template, revisions, collisions) {
        NewestRevision::Known(revision) => Ok(revision),
        NewestRevision::Renumber(revision, number) => cx.patch(&*revision, json!({"revision": number})).await,
        NewestRevision::Missing(revision) => {
            let created = cx.create::<_, ControllerRevision>(*revision).await;
            if matches!(&created, Err(error) if error.is_conflict()) {
                // The name is taken: the next reconcile tries a different one.
                cx.patch_status(owner, json!({"status": {"collisionCount": collisions + 1}})).await?;
            }
            created
        }
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

/// Returns the template that a revision holds.
pub(super) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let RawExtension(data) = revision.data.as_ref()?;
    from_json(&data["spec"]["template"]).ok()
}

pub(super) fn revision_name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the unused revisions beyond the limit, oldest first.
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
