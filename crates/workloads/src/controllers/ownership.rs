//! Adopts and releases children: an object adopts objects that match its selector and have no controller, and releases
//! those it controls that no longer match.
//!
//! **Invariant:** an owner that is being deleted adopts nothing. The server itself is asked before the first adoption:
//! with a stale cache, the owner would re-adopt objects that an orphaning delete has just released, and garbage
//! collection would remove it.

use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Context, Error, Kind, Metadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::Request;
use serde_json::json;

/// The index of objects without a controller, by namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrphansInNamespace(pub(crate) String);

/// Returns the index key of this object, if it has no controller.
pub(crate) fn orphan_index_key<T: Kind>(object: &T) -> Option<OrphansInNamespace> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    controller_of(object.meta()).is_none().then_some(OrphansInNamespace(namespace))
}

/// Returns the reference to the object that controls this one.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_deref()?.iter().find(|reference| reference.controller == Some(true))
}

/// Returns whether `owner` controls the object with this metadata.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller_of(meta).is_some_and(|reference| Some(&reference.uid) == owner.uid.as_ref())
}

/// Parses a selector in the API's form. An invalid one, which the API server should have refused, selects nothing.
pub(crate) fn label_selector(written: &meta::LabelSelector) -> LabelSelector {
    LabelSelector::from_json(&json!(written)).unwrap_or_else(|_| LabelSelector::nothing())
}

/// Returns whether the selector matches these labels.
pub(crate) fn matches_labels(selector: &LabelSelector, meta: &ObjectMeta) -> bool {
    selector.matches(|key| meta.labels.as_ref()?.get(key).map(String::as_str))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimDecision {
    Ours,
    Adopt,
    Release,
    NotOurs,
}

fn decide_claim(object: &ObjectMeta, owner: &ObjectMeta, selector: &LabelSelector) -> ClaimDecision {
    let is_match = matches_labels(selector, object);
    match controller_of(object) {
        Some(reference) if Some(&reference.uid) != owner.uid.as_ref() => ClaimDecision::NotOurs,
        Some(_) if is_match => ClaimDecision::Ours,
        Some(_) => ClaimDecision::Release,
        None if is_match && object.deletion_timestamp.is_none() => ClaimDecision::Adopt,
        None => ClaimDecision::NotOurs,
    }
}

/// Returns the objects of kind `T` that are ours after adopting and releasing. Only those that `may_adopt` allows are
/// adopted.
pub(crate) async fn claim_objects<K: Kind, T: Kind>(
    cx: &Context<K>,
    selector: &LabelSelector,
    may_adopt: impl Fn(&T) -> bool,
) -> Result<Vec<Arc<T>>, Error> {
    let owner = cx.object().meta();
    let orphans = cx.indexed::<T, _>(&OrphansInNamespace(owner.namespace.clone().unwrap_or_default()))?;
    let mut ours = Vec::new();
    let mut is_alive = None;
    for object in cx.owned::<T>()?.into_iter().chain(orphans) {
        match decide_claim(object.meta(), owner, selector) {
            ClaimDecision::Ours => ours.push(object),
            ClaimDecision::Adopt if may_adopt(&object) => {
                if is_alive.is_none() {
                    is_alive = Some(owner_is_alive(cx).await?);
                }
                if is_alive == Some(true) {
                    ours.extend(adopt(cx, &*object).await?);
                }
            }
            ClaimDecision::Release => release(cx, &*object).await?,
            ClaimDecision::Adopt | ClaimDecision::NotOurs => {}
        }
    }
    Ok(ours)
}

async fn owner_is_alive<K: Kind>(cx: &Context<K>) -> Result<bool, Error> {
    let meta = cx.object().meta();
    let path = Request::new(K::url_path(&(), meta.namespace.as_deref()));
    let request = path.get_metadata(cx.key().name(), &kube::api::GetParams::default());
    let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
    match cx.client().request::<Metadata<K>>(request).await {
        Ok(fresh) => Ok(fresh.metadata.uid == meta.uid && fresh.metadata.deletion_timestamp.is_none()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(Error::Transport {
            verb: "look again at",
            target: cx.key().to_string(),
            source: Box::new(error),
        }),
    }
}

async fn adopt<K: Kind, T: Kind>(cx: &Context<K>, object: &T) -> Result<Option<Arc<T>>, Error> {
    let Some(reference) = cx.object().controller_owner_ref(&()) else { return Ok(None) };
    let reference = OwnerReference { block_owner_deletion: Some(true), ..reference };
    let patch = json!({"metadata": {"ownerReferences": [reference]}});
    let adopted = cx.patch_strategic(object, patch).await;
    adopted.map(Some).or_else(|error| if is_settled_elsewhere(&error) { Ok(None) } else { Err(error) })
}

async fn release<K: Kind, T: Kind>(cx: &Context<K>, object: &T) -> Result<(), Error> {
    let uid = &cx.object().meta().uid;
    let patch = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}]}});
    let released = cx.patch_strategic(object, patch).await.map(drop);
    released.or_else(|error| if is_settled_elsewhere(&error) { Ok(()) } else { Err(error) })
}

/// Returns whether the object is gone, replaced, or already controlled by another: the next event will show it.
fn is_settled_elsewhere(error: &Error) -> bool {
    matches!(error.code(), Some(404 | 409 | 422))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(labels: &str, controller: Option<&str>, is_dying: bool, expected: ClaimDecision) {
        let owner = ObjectMeta { uid: Some("ours".into()), ..ObjectMeta::default() };
        let references = controller.map(|uid| {
            vec![OwnerReference { uid: uid.into(), controller: Some(true), ..OwnerReference::default() }]
        });
        let object = ObjectMeta {
            labels: Some([("app".to_owned(), labels.to_owned())].into()),
            owner_references: references,
            deletion_timestamp: is_dying.then_some(meta::Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        let selector = LabelSelector::parse("app=web").expect("a selector");
        assert_eq!(decide_claim(&object, &owner, &selector), expected);
    }

    #[test]
    fn whose_it_is() {
        check("web", None, false, ClaimDecision::Adopt);
        check("web", None, true, ClaimDecision::NotOurs);
        check("db", None, false, ClaimDecision::NotOurs);
        check("web", Some("ours"), false, ClaimDecision::Ours);
        check("db", Some("ours"), false, ClaimDecision::Release);
        check("web", Some("theirs"), false, ClaimDecision::NotOurs);
    }
}
