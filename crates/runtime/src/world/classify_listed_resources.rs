//! Classifies the external resources that a full pass listed: in sync, different from the spec, foreign, or a leak.
//! `leak_suspects` decides when a leak may be deleted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::Resource;

use super::decide_step::OwnershipClaim;
use super::leak_suspects::Suspicion;
use super::pass_result::ResourceFinding;
use super::world_parts::{WorldParts, is_owner};
use super::world_policy::ApiSharing;
use super::world_trait::World;
use crate::panics::describe_panic;

impl<W: World> WorldParts<W> {
    /// Classifies a listed resource. A resource that makes the world's code panic is left to the objects whose specs
    /// name it, which then fail.
    pub(super) fn classify(&self, name: &str, have: &W::Have) -> ResourceFinding {
        catch_unwind(AssertUnwindSafe(|| self.classify_listed(name, have))).unwrap_or_else(|panic| {
            tracing::error!(
                world = W::NAME,
                name,
                why = describe_panic(&*panic),
                "a resource cannot be compared with the desired state"
            );
            ResourceFinding::InTheWay(self.objects_wanting(name))
        })
    }

    fn classify_listed(&self, name: &str, have: &W::Have) -> ResourceFinding {
        let claim = self.claim(name, have);
        let claimants = self.claimants(name);
        if claimants.is_empty() {
            return self.classify_unwanted(name, claim);
        }
        let keys = || claimants.iter().map(|(key, _)| key.clone()).collect();
        let claimant = match &claim {
            OwnershipClaim::Ours(Some(owner)) => {
                claimants.iter().find(|(_, object)| is_owner(&**object, owner))
            }
            OwnershipClaim::Ours(None) => claimants.first(),
            OwnershipClaim::Doubtful(_) | OwnershipClaim::Theirs(_) | OwnershipClaim::Nobody => None,
        };
        let is_equal = |object: &Arc<W::Kind>| {
            self.wanted(object).is_ok_and(|wanted| {
                wanted.get(name).is_some_and(|want| self.world.diff(want, have).is_empty())
            })
        };
        match claimant {
            Some((key, object)) if is_equal(object) => ResourceFinding::InSync(key.clone()),
            _ if self.is_ours(&claim) => ResourceFinding::Suspect(keys()),
            _ => ResourceFinding::InTheWay(keys()),
        }
    }

    fn classify_unwanted(&self, name: &str, claim: OwnershipClaim) -> ResourceFinding {
        match claim {
            OwnershipClaim::Ours(Some(owner)) | OwnershipClaim::Doubtful(owner)
                if !self.is_in_scope(&owner.key) =>
            {
                ResourceFinding::Foreign
            }
            OwnershipClaim::Ours(Some(owner)) if self.is_missing(&owner) => {
                ResourceFinding::Leak(Suspicion::OwnerGone(owner))
            }
            OwnershipClaim::Ours(Some(owner)) => match self.cache.get(&owner.key) {
                Some(object) if object.meta().deletion_timestamp.is_some() => ResourceFinding::Kept,
                _ => ResourceFinding::Unlisted(owner.key),
            },
            // The last object whose spec names it is being deleted, and its cleanup deletes the resource.
            OwnershipClaim::Ours(None) if !self.objects_wanting(name).is_empty() => ResourceFinding::Kept,
            OwnershipClaim::Ours(None) => ResourceFinding::Leak(Suspicion::Unwanted),
            OwnershipClaim::Doubtful(owner) => ResourceFinding::InTheWay(vec![owner.key]),
            OwnershipClaim::Nobody if self.policy.r#use == ApiSharing::Exclusive => {
                ResourceFinding::Leak(Suspicion::Stray)
            }
            OwnershipClaim::Nobody | OwnershipClaim::Theirs(_) => ResourceFinding::Foreign,
        }
    }
}
