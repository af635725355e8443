//! Assigns users to a Pod, and owners to the files of its claims.
//!
//! A claim outlives Pods, and two Pods may use it at a time. So its files belong to a user of the claim, and a Pod that
//! has claims and names no user runs as the user of the first one. Further claims are given to the same user, unless
//! another Pod uses them.

use std::path::PathBuf;

use homeostat_runtime::Context;
use k8s_openapi::api::core::v1::Pod;

use super::change_owner::change_owner;
use super::environment::config_error;
use super::identity::{IdentityPolicy, PodIdBlocks, PodIdentities};
use super::sources::{CachedSources, ValueSources};
use super::status::StartRefusal;
use crate::node::id_blocks::{BlockHolder, IdBlock, IdBlocks, is_reserved};
use crate::node::supervisor::safe_path;
use crate::node::user_accounts::UserAccount;
use crate::node::{NodeShared, storage};

/// Everybody in the Pod. All its claims must be there: nothing of it runs before.
pub(super) fn identities_of_pod<'a>(
    shared: &'a NodeShared,
    pod: &'a Pod,
    supplies: &CachedSources<'_>,
) -> Result<PodIdentities<'a>, StartRefusal> {
    let mut identities = PodIdentities {
        pod,
        identity_policy: &shared.identity_policy,
        blocks: None,
        shared_claims: Vec::new(),
    };
    let claims = claim_folders(shared, pod, supplies)?;
    let Some(blocks) = &shared.blocks else { return Ok(identities) };
    let failed = |error: std::io::Error| config_error(format!("cannot find a user for this Pod: {error}"));
    let folder = shared.layout.pod(pod.metadata.uid.as_deref().unwrap_or_default());
    let (own, _) = blocks.block_for(BlockHolder::Pod(&folder)).map_err(failed)?;
    let files = match &shared.identity_policy {
        IdentityPolicy::AnyUser { .. } => {
            let (files, shared_claims) = share_claims(blocks, own, &claims, supplies.cx).map_err(failed)?;
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

/// The claims whose folders are the node's.
fn claim_folders(
    shared: &NodeShared,
    pod: &Pod,
    supplies: &CachedSources<'_>,
) -> Result<Vec<ClaimFolder>, StartRefusal> {
    let mut claims = Vec::new();
    for (volume, name) in storage::claims(pod) {
        let claimed = supplies.claimed(&name, volume.ephemeral.is_some())?;
        if storage::is_ours(&claimed) {
            let folder = shared.layout.claim(claimed.metadata.name.as_deref().unwrap_or_default());
            claims.push(ClaimFolder { name, folder });
        }
    }
    Ok(claims)
}

/// The block of the first claim, to which the others are given; and the names of those that cannot be.
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

/// Gives what is in a claim to the users of a block: what Pods wrote, and root for them.
fn give_claim(claim: &ClaimFolder, block: IdBlock) -> std::io::Result<()> {
    change_owner(&safe_path::open_or_make_folder(&claim.folder)?, |id| match id {
        0 => Some(block.user()),
        id => is_reserved(id).then(|| block.counterpart(id)).filter(|new_owner| *new_owner != id),
    })
}

/// Is the claim another living Pod's too?
fn is_used_elsewhere(claim: &str, cx: &Context<Pod>) -> bool {
    let is_over = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    let own = &cx.object().metadata;
    let uses = |pod: &Pod| {
        pod.metadata.namespace == own.namespace
            && pod.metadata.uid != own.uid
            && !is_over(pod)
            && storage::claim_names(pod).iter().any(|name| name == claim)
    };
    cx.list::<Pod>().is_ok_and(|all| all.iter().any(|pod| uses(pod)))
}

/// Gives what is in the claims to the one account that Pods run as, unless it may read everything.
fn give_claims_to_account(claims: &[ClaimFolder], account: &UserAccount) -> std::io::Result<()> {
    for claim in claims.iter().filter(|_| account.user != 0) {
        let folder = safe_path::open_or_make_folder(&claim.folder)?;
        if rustix::fs::fstat(&folder)?.st_uid != account.user {
            // Groups that were given stay: the account may be in them.
            change_owner(&folder, |id| (id == 0 || is_reserved(id)).then_some(account.user))?;
        }
    }
    Ok(())
}
