//! Finds the owner of an object that a reconciler wants to apply: this operator, nobody yet, or someone else.
//!
//! An object is ours if it carries our owner reference, if we applied it in this process, or if our field manager wrote
//! it; only the last requires asking the server, once, because caches do not keep managed fields. A write to our object
//! names its uid, so that another object which has taken its name since is not overwritten. Server-side apply has no
//! "only if it does not exist": an object that someone else creates between our check and our first write is the only
//! remaining case.

use homeostat_core::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::GetParams;
use serde::Deserialize;

use super::ReconcileRun;
use crate::cache::ObjectCache;
use crate::error::Error;
use crate::kind::KindInfo;
use crate::request::{RequestLabel, call_whole};

/// The owner of the object with a given name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ObjectOwnership {
    /// The object does not exist.
    Free,
    /// We created it, or may write it for another reason.
    Ours { uid: Option<String> },
    /// Someone else created it.
    Foreign { holder: String },
}

/// The metadata of an object of any kind.
#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl ReconcileRun {
    /// Returns the owner according to the caches and to what we remember, if that suffices.
    pub(super) fn known_standing(&self, info: &KindInfo, key: &Key) -> Option<ObjectOwnership> {
        if let Some(cache) = self.synced_metadata(info).or_else(|| self.synced(info).ok()) {
            return self.cached_standing(&cache, key);
        }
        self.controller.last_applied.uid(key).map(|uid| ObjectOwnership::Ours { uid: Some(uid) })
    }

    fn cached_standing(&self, cache: &ObjectCache, key: &Key) -> Option<ObjectOwnership> {
        let Some(object) = cache.get(key) else {
            let is_absent = self.covers(cache.info(), key) && cache.quarantined_error(key).is_none();
            return is_absent.then_some(ObjectOwnership::Free);
        };
        let meta = object.meta();
        let is_ours = self.is_owner_of(meta)
            || self
                .controller
                .last_applied
                .uid(key)
                .is_some_and(|applied| meta.uid.as_deref() == Some(&applied));
        is_ours.then(|| ObjectOwnership::Ours { uid: meta.uid.clone() })
    }

    /// Returns whether one of our caches would show the deletion of the object with this key.
    pub(super) fn is_watched(&self, info: &KindInfo, key: &Key) -> bool {
        let is_cached = self.cache(info).is_ok() || self.metadata_cache(info).is_some();
        is_cached && self.covers(info, key)
    }

    /// Returns whether an object with this key would be in our cache of the kind.
    fn covers(&self, info: &KindInfo, key: &Key) -> bool {
        let scope = &self.controller.scope;
        let has_namespace = scope.namespace.as_deref().is_none_or(|namespace| namespace == key.namespace());
        (has_namespace || !info.is_namespaced) && (scope.labels.is_none() || !info.is_same_kind(self.info()))
    }

    /// Asks the server who owns the object.
    pub(super) async fn ask_standing(
        &self,
        info: &KindInfo,
        key: &Key,
        is_owned: bool,
    ) -> Result<ObjectOwnership, Error> {
        let request = info.path_beside(key).get_metadata(key.name(), &GetParams::default());
        let label = RequestLabel { verb: "get", target: key.as_str() };
        match call_whole::<OnlyMetadata>(&self.controller.operator.client, label, request).await {
            Ok(object) => Ok(self.judge(&object.metadata, is_owned)),
            Err(error) if error.is_not_found() => Ok(ObjectOwnership::Free),
            Err(error) => Err(error),
        }
    }

    fn judge(&self, meta: &ObjectMeta, is_owned: bool) -> ObjectOwnership {
        let ours = ObjectOwnership::Ours { uid: meta.uid.clone() };
        if self.is_owner_of(meta) {
            return ours;
        }
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        if let Some(other) = controller.filter(|_| is_owned) {
            return ObjectOwnership::Foreign { holder: format!("{} {} controls it", other.kind, other.name) };
        }
        let wrote = meta.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
        let mut managers: Vec<&str> = wrote.filter_map(|entry| entry.manager.as_deref()).collect();
        if managers.contains(&self.controller.operator.name.as_str()) {
            return ours;
        }
        managers.sort_unstable();
        managers.dedup();
        let holder = if managers.is_empty() {
            "it does not say who made it".to_owned()
        } else {
            format!("made by {}", managers.join(", "))
        };
        ObjectOwnership::Foreign { holder }
    }

    fn is_owner_of(&self, meta: &ObjectMeta) -> bool {
        let uid = self.object.meta().uid.as_deref();
        meta.owner_references.iter().flatten().any(|owner| Some(owner.uid.as_str()) == uid)
    }
}
