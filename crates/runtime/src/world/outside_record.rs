//! Keeps outside records, one object in the cluster per external resource, for APIs that cannot store a mark. A record
//! is written before the resource is created and removed after the resource is gone. It has no owner reference: a
//! record that outlives its object reveals a missed deletion.

use std::sync::Arc;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cache::caches::Caches;
use crate::cache::{Cache, Index};
use crate::kind::info;
use crate::shard_assignment::stable_hash;
use crate::watch::Scope;

/// An external resource that is ours.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "homeostat.dev", version = "v1", kind = "OutsideRecord", namespaced)]
#[kube(printcolumn = r#"{"name": "World", "type": "string", "jsonPath": ".spec.world"}"#)]
#[kube(printcolumn = r#"{"name": "Thing", "type": "string", "jsonPath": ".spec.thing"}"#)]
#[kube(printcolumn = r#"{"name": "Owner", "type": "string", "jsonPath": ".spec.owner"}"#)]
#[kube(printcolumn = r#"{"name": "Made", "type": "boolean", "jsonPath": ".spec.made"}"#)]
#[serde(rename_all = "camelCase")]
pub struct OutsideRecordSpec {
    /// Who keeps it: the operator, or its identity.
    pub manager: String,
    /// The world it is in.
    pub world: String,
    /// Its name there.
    pub thing: String,
    /// The name of the object that wants it; the record is in its namespace.
    pub owner: String,
    /// The namespace of that object; empty when it is cluster-scoped.
    #[serde(default)]
    pub owner_namespace: String,
    /// The uid of that object.
    pub owner_uid: String,
    /// When we last started to create it.
    pub intended_at: String,
    /// What we started to create, as JSON: if that is what exists, we created it.
    #[serde(default)]
    pub intended: String,
    /// What we started to create before that, without learning whether we did: any of these may exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intended_before: Vec<String>,
    /// We know that we created it. False means that we intended to and never learned whether we did.
    #[serde(default)]
    pub made: bool,
}

/// The namespace for the records of cluster-scoped objects.
const FALLBACK_NAMESPACE: &str = "default";

/// The number of intents that are kept. Each is a create that never got a response: more than a few for one resource
/// are not an accident, and a record must not grow forever.
const INTENTS_MAX: usize = 8;

impl OutsideRecordSpec {
    /// Returns the namespace of the record.
    pub(super) fn namespace(&self) -> &str {
        if self.owner_namespace.is_empty() { FALLBACK_NAMESPACE } else { &self.owner_namespace }
    }

    /// Adds a newer intent for the same object. A resource that was known to be ours stays ours, whatever a stale read
    /// showed; otherwise all intents are kept, because any of them may be the one that exists.
    pub(super) fn intend_anew(&self, spec: Self) -> Self {
        if self.owner_uid != spec.owner_uid {
            return spec;
        }
        let mut before = self.intended_before.clone();
        if !self.made && self.intended != spec.intended && !before.contains(&self.intended) {
            before.push(self.intended.clone());
        }
        let excess = before.len().saturating_sub(INTENTS_MAX);
        before.drain(..excess);
        Self { made: self.made, intended_before: before, ..spec }
    }

    /// Returns all specs that may exist because we began to create them.
    pub(super) fn intents(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.intended).chain(&self.intended_before)
    }

    /// Returns the name of the record: a hash, because external names may be long and contain any character.
    pub(super) fn object_name(&self) -> String {
        let resource = format!("{}/{}/{}", self.manager, self.world, self.thing);
        format!("{}-{:016x}", self.world.to_lowercase(), stable_hash(&resource))
    }
}

/// The records of one manager in one world as the cache shows them.
pub(super) struct Records {
    pub(super) cache: Cache<OutsideRecord>,
    by_resource: Index<OutsideRecord, String>,
    by_owner: Index<OutsideRecord, String>,
}

impl Records {
    /// Declares the cache of records.
    pub(super) fn declare(caches: &Caches, scope: &Scope, manager: &str, world: &'static str) -> Self {
        let cache = Cache::from_erased(caches.declare(info::<OutsideRecord>(), scope));
        let index = |field: fn(&OutsideRecordSpec) -> &String| {
            let manager = manager.to_owned();
            cache.index(move |record: &OutsideRecord| {
                let is_ours = record.spec.manager == manager && record.spec.world == world;
                is_ours.then(|| field(&record.spec).clone())
            })
        };
        let (by_resource, by_owner) = (index(|spec| &spec.thing), index(|spec| &spec.owner_uid));
        Self { cache, by_resource, by_owner }
    }

    /// Returns the record of this resource.
    pub(super) fn of_resource(&self, resource: &str) -> Option<Arc<OutsideRecord>> {
        // Two objects may each have written one; the older one counts.
        let records = self.by_resource.get(&resource.to_owned());
        let age =
            |record: &Arc<OutsideRecord>| record.metadata.creation_timestamp.as_ref().map(|time| time.0);
        records.into_iter().min_by_key(age)
    }

    /// Returns the record of this resource that the object with this uid has written.
    pub(super) fn of_owner(&self, resource: &str, uid: &str) -> Option<Arc<OutsideRecord>> {
        self.owned_by(uid).into_iter().find(|record| record.spec.thing == resource)
    }

    /// Returns the records of the object with this uid.
    pub(super) fn owned_by(&self, uid: &str) -> Vec<Arc<OutsideRecord>> {
        self.by_owner.get(&uid.to_owned())
    }
}
