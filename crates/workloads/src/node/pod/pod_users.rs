//! Assigns users to a Pod, and owners to its claims' files.
//!
//! A claim outlives Pods, and two Pods may use it at the same time. Its files therefore belong to the claim's own user,
//! and a Pod that has claims and names no user runs as the first claim's user. Further claims are given to the same
//! user, unless another Pod uses them.

use std::path::PathBuf;

use homeostat_runtime::Context;
use k8s_openapi::api::core::v1::Pod;

use super::change_owner::change_owner;
use super::container_identity::{IdentityPolicy, PodIdBlocks, PodIdentities};
use super::environment::config_error;
use super::phase;
use super::status::StartRefusal;
use super::value_sources::{CachedSources, ValueSources};
use crate::node::id_blocks::{BlockHolder, IdBlock, IdBlocks, is_reserved};
use crate::node::supervisor::safe_path;
use crate::node::user_accounts::UserAccount;
use crate::node::{NodeShared, storage};

/// Returns the identities in the Pod. All its claims must be bound: none of its containers runs before that.
pub(super) fn identities_of_pod<'a>(
    shared: &'a NodeShared,
    pod: &'a Pod,
    sources: &CachedSources<'_>,
) -> Result<PodIdentities<'a>, StartRefusal> {
    let mut identities = PodIdentities {
        pod,
        identity_policy: &shared.identity_policy,
        blocks: None,
        shared_claims: Vec::new(),
    };
    let claims = claim_folders(shared, pod, sources)?;
    let Some(blocks) = &shared.blocks else { return Ok(identities) };
    let failed = |error: std::io::Error| config_error(format!("cannot find a user for this Pod: {error}"));
    let folder = shared.layout.pod(pod.metadata.uid.as_deref().unwrap_or_default());
    let (own, _) = blocks.block_for(BlockHolder::Pod(&folder)).map_err(failed)?;
    let files = match &shared.identity_policy {
        IdentityPolicy::AnyUser { .. } => {
            let (files, shared_claims) = share_claims(blocks, own, &claims, sources.cx).map_err(failed)?;
            identities.shared_claims = shared_claims;
            files
        }
        IdentityPolicy::OneUser { account, .. } => {
            give_claims_to_account(&claims, account).map_err(failed)?;
            own
        }
    };
    identities.blocks = Some(PodIdBlocks { own, files });
    Ok(identities)
}

/// A claim of the Pod and its folder.
struct ClaimFolder {
    name: String,
    folder: PathBuf,
}

/// Returns the claims whose folders the node created.
fn claim_folders(
    shared: &NodeShared,
    pod: &Pod,
    sources: &CachedSources<'_>,
) -> Result<Vec<ClaimFolder>, StartRefusal> {
    let mut claims = Vec::new();
    for (volume, name) in storage::claims(pod) {
        let claimed = sources.claimed_volume(volume, &name)?;
        if storage::is_ours(&claimed) {
            let folder = shared.layout.claim(claimed.metadata.name.as_deref().unwrap_or_default());
            claims.push(ClaimFolder { name, folder });
        }
    }
    Ok(claims)
}

/// Returns the first claim's block, to which the others are given, and the names of those that cannot be.
fn share_claims(
    blocks: &IdBlocks,
    own: IdBlock,
    claims: &[ClaimFolder],
    cx: &Context<Pod>,
) -> std::io::Result<(IdBlock, Vec<String>)> {
    let Some((first, others)) = claims.split_first() else { return Ok((own, Vec::new())) };
    let (files, is_new) = blocks.block_for(BlockHolder::Claim(&first.folder))?;
    if is_new {
        give_claim(first, files)?;
    }
    let mut shared = Vec::new();
    for other in others.iter().filter(|other| BlockHolder::Claim(&other.folder).recorded() != Some(files)) {
        if is_used_elsewhere(&other.name, cx) {
            shared.push(other.name.clone());
        } else {
            give_claim(other, files)?;
            BlockHolder::Claim(&other.folder).record(files)?;
        }
    }
    Ok((files, shared))
}

/// Gives everything in a claim to the users of a block: files that Pods wrote, and files that root wrote for them.
fn give_claim(claim: &ClaimFolder, block: IdBlock) -> std::io::Result<()> {
    change_owner(&safe_path::open_or_make_folder(&claim.folder)?, |id| match id {
        0 => Some(block.user()),
        id => is_reserved(id).then(|| block.counterpart(id)).filter(|new_owner| *new_owner != id),
    })
}

/// Returns whether another living Pod also uses the claim.
fn is_used_elsewhere(claim: &str, cx: &Context<Pod>) -> bool {
    let own = &cx.object().metadata;
    let uses = |pod: &Pod| {
        pod.metadata.namespace == own.namespace
            && pod.metadata.uid != own.uid
            && !phase::is_finished(pod)
            && storage::claim_names(pod).iter().any(|name| name == claim)
    };
    cx.list::<Pod>().is_ok_and(|all| all.iter().any(|pod| uses(pod)))
}

/// Gives everything in the claims to the account that all Pods run as, unless that account can read everything anyway.
fn give_claims_to_account(claims: &[ClaimFolder], account: &UserAccount) -> std::io::Result<()> {
    for claim in claims.iter().filter(|_| account.user != 0) {
        let folder = safe_path::open_or_make_folder(&claim.folder)?;
        if rustix::fs::fstat(&folder)?.st_uid != account.user {
            // Groups stay unchanged: the account may be in them.
            change_owner(&folder, |id| (id == 0 || is_reserved(id)).then_some(account.user))?;
        }
    }
    Ok(())
}
