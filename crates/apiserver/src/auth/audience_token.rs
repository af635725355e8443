//! Issues short-lived tokens with which a user can prove their identity to someone else, and do nothing else.
//!
//! A program that is queried through `pods/proxy` does not learn who the caller is, and must not get the caller's own
//! credentials. The caller therefore requests a token for that one program from this server, and the program uses
//! `TokenReview` to find out whose token it is, and `SubjectAccessReview` to find out what that user may read.
//! Kubernetes has such tokens for service accounts only (`TokenRequest`); here every user can request them for
//! themselves.
//!
//! **Invariant:** no request to this server is ever authenticated by such a token: it is valid for its audience only,
//! and the audience is never this server. They are kept as hashes, in memory, and their number is bounded.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use super::{Identity, account_of};

/// How long a token is valid: long enough for one command, or for one round of `--watch`.
pub(crate) const LIFETIME: Duration = Duration::from_secs(300);

/// The prefix of the audiences that tokens are issued for. No server has such a name.
pub(crate) const AUDIENCE_PREFIX: &str = "homeostat-why/";

/// The maximum length of an audience: prefix, namespace and name.
const AUDIENCE_BYTES_MAX: usize = 512;

/// The maximum number of tokens of one account; another one replaces the account's oldest. A single command queries no
/// more operators than this.
const ACCOUNT_TOKENS_MAX: usize = 64;

/// The maximum number of tokens of all accounts; another one replaces the oldest of the account that has the most.
const TOKENS_MAX: usize = 4096;

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// The currently valid tokens, by their hashes.
#[derive(Debug, Default)]
pub(super) struct AudienceTokens(Mutex<BTreeMap<[u8; 32], AudienceToken>>);

#[derive(Debug)]
struct AudienceToken {
    /// The user that the token names.
    identity: Identity,
    /// The account of the user who requested it, who may have impersonated that user.
    account: String,
    audience: String,
    expires: Timestamp,
}

impl AudienceTokens {
    /// Issues a token that names `identity`, requested by `sender`; `None` if the audience is not one that tokens are
    /// issued for.
    pub(super) fn issue(
        &self,
        (sender, identity): (&Identity, &Identity),
        audience: &str,
        now: Timestamp,
    ) -> Option<String> {
        if !audience.starts_with(AUDIENCE_PREFIX) || audience.len() > AUDIENCE_BYTES_MAX {
            return None;
        }
        let mut bytes = [0; TOKEN_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let account = account_of(sender);
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, token| token.expires > now);
        if tokens.values().filter(|token| token.account == account).count() >= ACCOUNT_TOKENS_MAX {
            forget_oldest(&mut tokens, account);
        }
        if tokens.len() >= TOKENS_MAX
            && let Some(largest) = largest_account(&tokens)
        {
            forget_oldest(&mut tokens, &largest);
        }
        let kept = AudienceToken {
            identity: identity.clone(),
            account: account.to_owned(),
            audience: audience.to_owned(),
            expires: now + LIFETIME,
        };
        tokens.insert(Sha256::digest(&token).into(), kept);
        Some(token)
    }

    /// Returns the owner of a token that is valid for one of the audiences, and that audience. The hash of a random
    /// token reveals nothing about the token, so it can be looked up like any other key.
    pub(super) fn find(
        &self,
        hash: &[u8; 32],
        audiences: &[String],
        now: Timestamp,
    ) -> Option<(Identity, String)> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.get(hash)?;
        let is_valid = found.expires > now && audiences.contains(&found.audience);
        is_valid.then(|| (found.identity.clone(), found.audience.clone()))
    }
}

/// Removes the oldest token of an account.
fn forget_oldest(tokens: &mut BTreeMap<[u8; 32], AudienceToken>, account: &str) {
    let own = tokens.iter().filter(|(_, token)| token.account == account);
    if let Some(hash) = own.min_by_key(|(_, token)| token.expires).map(|(hash, _)| *hash) {
        tokens.remove(&hash);
    }
}

/// Returns the account with the most tokens.
fn largest_account(tokens: &BTreeMap<[u8; 32], AudienceToken>) -> Option<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for token in tokens.values() {
        *counts.entry(&token.account).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(account, _)| account.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIENCE: &str = "homeostat-why/a/web";

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    fn is_valid(tokens: &AudienceTokens, token: &str, now: Timestamp) -> bool {
        tokens.find(&Sha256::digest(token).into(), &[AUDIENCE.to_owned()], now).is_some()
    }

    #[test]
    fn tokens_expire_and_an_account_has_few() {
        let (tokens, jane, now) = (AudienceTokens::default(), user("jane"), Timestamp::UNIX_EPOCH);
        let issue = |now| tokens.issue((&jane, &jane), AUDIENCE, now).unwrap();
        let first = issue(now);
        assert!(is_valid(&tokens, &first, now + jiff::SignedDuration::from_secs(299)));
        assert!(!is_valid(&tokens, &first, now + jiff::SignedDuration::from_secs(300)));
        for _ in 0..ACCOUNT_TOKENS_MAX {
            issue(now + jiff::SignedDuration::from_secs(1));
        }
        assert!(!is_valid(&tokens, &first, now), "the oldest token of an account makes room");
    }

    #[test]
    fn who_acts_as_many_users_pushes_out_nobody_else() {
        let (tokens, jane, now) = (AudienceTokens::default(), user("jane"), Timestamp::UNIX_EPOCH);
        let kept = tokens.issue((&jane, &jane), AUDIENCE, now).unwrap();
        let attacker = user("system:serviceaccount:team:one");
        for number in 0..TOKENS_MAX {
            let other = user(&format!("system:serviceaccount:team:n{number}"));
            tokens.issue((&attacker, &other), AUDIENCE, now).unwrap();
        }
        assert!(is_valid(&tokens, &kept, now));
    }

    #[test]
    fn many_accounts_push_out_the_tokens_of_the_largest() {
        let (tokens, jane, now) = (AudienceTokens::default(), user("jane"), Timestamp::UNIX_EPOCH);
        let kept = tokens.issue((&jane, &jane), AUDIENCE, now).unwrap();
        for number in 0..=TOKENS_MAX {
            let other = user(&format!("user-{}", number / ACCOUNT_TOKENS_MAX));
            tokens.issue((&other, &other), AUDIENCE, now).unwrap();
        }
        assert!(is_valid(&tokens, &kept, now));
    }
}
