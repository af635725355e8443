//! Finds out which object holds a name, and whether the object that an external resource belongs to still exists.
//!
//! **Invariant:** an object is never considered gone because the cache lacks it; an object that cannot be decoded, or
//! has not arrived yet, is not in any cache. The server is asked before its resources are handed to another object or
//! deleted.

use kube::api::GetParams;
use serde_json::Value;

use super::decide_step::Owner;
use super::world_parts::{WorldParts, is_owner};
use super::world_trait::World;
use crate::error::Error;
use crate::kind::{info, key, key_of};
use crate::request::{RequestLabel, send_request};

impl<W: World> WorldParts<W> {
    /// Asks whether the object that a resource belongs to still exists.
    pub(super) async fn lives(&self, owner: &Owner) -> Result<bool, Error> {
        if !self.is_missing(owner) || !self.is_in_scope(&owner.key) {
            return Ok(true);
        }
        let request = info::<W::Kind>().path_beside(&owner.key).get(owner.key.name(), &GetParams::default());
        let label = RequestLabel { verb: "get", target: owner.key.as_str() };
        match send_request::<Value>(&self.shared.client, label, request).await {
            Ok(found) => Ok(found["metadata"]["uid"].as_str() == Some(owner.uid.as_str())),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the object that a resource belongs to is missing from the cache. Another object with the same
    /// name does not count.
    pub(super) fn is_missing(&self, owner: &Owner) -> bool {
        self.cache.get(&owner.key).is_none_or(|object| !is_owner(&*object, owner))
    }

    /// Asks whether the name belongs to this object. It belongs to the object that has a record of it, or else to the
    /// first object that desires it.
    pub(super) async fn holds(&self, object: &W::Kind, name: &str) -> Result<bool, Error> {
        if let Some(owner) = self.recorded_owner(name)
            && self.lives(&owner).await?
        {
            return Ok(is_owner(object, &owner));
        }
        let claimants = self.claimants(name);
        Ok(claimants.first().is_none_or(|(first, _)| *first == key_of(object)))
    }

    /// Returns the object that has a record of this resource.
    pub(super) fn recorded_owner(&self, name: &str) -> Option<Owner> {
        let record = self.records.as_ref()?.of_resource(name)?;
        let spec = &record.spec;
        let key = key::<W::Kind>(&spec.owner_namespace, &spec.owner);
        Some(Owner { key, uid: spec.owner_uid.clone() })
    }
}
