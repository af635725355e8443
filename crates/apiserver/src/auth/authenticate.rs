//! Authenticates requests: by client certificate, bearer token or service account token, or as the anonymous user.
//!
//! **Invariant:** invalid credentials are refused with 401, even where anonymous requests are allowed; the first valid
//! credentials decide. Tokens are kept as hashes and compared in constant time.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use homeostat_api::status::Status;
use homeostat_core::Clock;
use http::{HeaderMap, header};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::audience_token::AudienceTokens;
use super::service_account::{AcceptedToken, ISSUER, TokenIssuer};
use super::{Identity, StaticTokens};
use crate::refusal_counts::RefusalCounts;
use crate::refusal_log::RefusalLog;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The message for a token that is unknown, or not valid for the requested audience.
const INVALID: &str = "invalid bearer token";
/// The prefix that browsers use to send a token, as they cannot set headers on WebSockets.
const WEBSOCKET_TOKEN_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The proof that the other end of a connection gave in the TLS handshake.
#[derive(Clone, Debug, Default)]
pub enum ClientCertificateProof {
    /// No certificate.
    #[default]
    Unnamed,
    /// A certificate issued by our CA.
    Named {
        /// The user that it names.
        identity: Identity,
        /// When it expires: a connection may outlive it.
        until: Timestamp,
    },
    /// A certificate that we do not trust.
    Untrusted,
}

/// The hash of a token, and the user it names.
type TokenHash = ([u8; 32], Identity);

/// Determines who sent a request.
pub struct Authenticator {
    tokens: Vec<TokenHash>,
    /// The tokens of a file, which may change.
    static_tokens: ArcSwap<Vec<TokenHash>>,
    issuer: Option<TokenIssuer>,
    allows_anonymous: bool,
    clock: Clock,
    /// Counts the requests that the listener refused. They are kept here because the listener, which counts them, and
    /// the API, which shows them, share the authenticator.
    pub(crate) refusals: RefusalCounts,
    /// The log of those requests, if the API has one.
    refusal_log: OnceLock<Box<dyn RefusalLog>>,
    /// Tokens for recipients other than this server.
    audience_tokens: AudienceTokens,
}

impl Authenticator {
    /// Creates an authenticator that knows no users: everyone is anonymous, and every token is refused.
    pub fn new(clock: Clock) -> Self {
        Self {
            tokens: Vec::new(),
            static_tokens: ArcSwap::default(),
            issuer: None,
            allows_anonymous: true,
            clock,
            refusals: RefusalCounts::default(),
            refusal_log: OnceLock::new(),
            audience_tokens: AudienceTokens::default(),
        }
    }

    /// Records the requests that the listener refuses in this log. Only the first call has an effect.
    pub(crate) fn record_refusals(&self, log: Box<dyn RefusalLog>) {
        let _ = self.refusal_log.set(log);
    }

    /// Returns the log of requests that the listener refuses.
    pub(crate) fn refusal_log(&self) -> Option<&dyn RefusalLog> {
        self.refusal_log.get().map(|log| &**log)
    }

    /// Accepts this token as that user. Only its hash is kept.
    #[must_use]
    pub fn with_token(mut self, token: &str, identity: Identity) -> Self {
        self.tokens.push(hash_token(token, identity));
        self
    }

    /// Accepts each of these tokens as its user, and none of those that were set before.
    pub(crate) fn set_tokens(&self, tokens: &StaticTokens) {
        let hashes = tokens.iter().map(|(token, identity)| hash_token(token, identity.clone()));
        self.static_tokens.store(Arc::new(hashes.collect()));
    }

    /// Issues and accepts service account tokens.
    #[must_use]
    pub fn with_issuer(mut self, issuer: TokenIssuer) -> Self {
        self.issuer = Some(issuer);
        self
    }

    /// Responds with 401 to requests without credentials.
    #[must_use]
    pub fn without_anonymous(mut self) -> Self {
        self.allows_anonymous = false;
        self
    }

    /// Returns the issuer of service account tokens, if there is one.
    pub fn issuer(&self) -> Option<&TokenIssuer> {
        self.issuer.as_ref()
    }

    /// Returns the current time, for the timestamps of reviews.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the user who sent these headers over a connection with this peer.
    pub fn authenticate(
        &self,
        peer: &ClientCertificateProof,
        headers: &HeaderMap,
    ) -> Result<Identity, Status> {
        if let ClientCertificateProof::Named { identity, until } = peer
            && self.clock.now() < *until
        {
            return Ok(identity.clone());
        }
        if let Some(token) = bearer_token(headers) {
            return self
                .accept(&token, &[])
                .map(|accepted| accepted.identity)
                .map_err(|_| Status::unauthorized());
        }
        match peer {
            ClientCertificateProof::Unnamed if self.allows_anonymous => Ok(Identity::anonymous()),
            _ => Err(Status::unauthorized()),
        }
    }

    /// Issues a short-lived token with which `identity` can prove its identity to the audience, as requested by
    /// `sender`; `None` if tokens are not issued for this audience.
    pub(crate) fn issue_audience_token(
        &self,
        sender: &Identity,
        identity: &Identity,
        audience: &str,
    ) -> Option<String> {
        self.audience_tokens.issue((sender, identity), audience, self.clock.now())
    }

    /// Returns the owner of a token that is valid for one of the audiences (for this server if none are given).
    pub fn accept(&self, token: &str, audiences: &[String]) -> Result<AcceptedToken, String> {
        let ours = self.issuer.as_ref().map_or_else(|| vec![ISSUER.to_owned()], |it| it.audiences().to_vec());
        let audiences = if audiences.is_empty() { &*ours } else { audiences };
        let hash = <[u8; 32]>::from(Sha256::digest(token));
        if let Some(identity) = self.find_token(&hash) {
            // A static token names no audience: it is valid for this server only.
            let audiences = audiences.iter().filter(|one| ours.contains(one)).cloned().collect::<Vec<_>>();
            return if audiences.is_empty() {
                Err(INVALID.into())
            } else {
                Ok(AcceptedToken { identity, audiences })
            };
        }
        let audience_token = self.audience_tokens.find(&hash, audiences, self.clock.now());
        if let Some((identity, audience)) = audience_token.filter(|(_, audience)| !ours.contains(audience)) {
            if self.issuer.as_ref().is_some_and(|issuer| !issuer.is_current(&identity)) {
                return Err(INVALID.into());
            }
            return Ok(AcceptedToken { identity, audiences: vec![audience] });
        }
        let issuer = self.issuer.as_ref().ok_or(INVALID)?;
        issuer.verify(token, audiences)
    }

    /// Returns the user of a token that was given to this server with its owner.
    fn find_token(&self, hash: &[u8; 32]) -> Option<Identity> {
        let static_tokens = self.static_tokens.load();
        let mut all = self.tokens.iter().chain(static_tokens.iter());
        all.find(|(known, _)| constant_time_eq(known, hash)).map(|(_, identity)| identity.clone())
    }
}

fn hash_token(token: &str, identity: Identity) -> TokenHash {
    (Sha256::digest(token).into(), identity)
}

/// Compares in constant time, so that the duration does not reveal the position of the first difference.
fn constant_time_eq(left: &[u8; 32], right: &[u8; 32]) -> bool {
    std::hint::black_box(left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b))) == 0
}

/// Returns the token in the headers. An empty token, or one with a different scheme, counts as none.
fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return websocket_token(headers) };
    let value = String::from_utf8_lossy(value.as_bytes());
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

fn websocket_token(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let encoded =
        protocols.split(',').find_map(|protocol| protocol.trim().strip_prefix(WEBSOCKET_TOKEN_PREFIX))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok().filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator() -> Authenticator {
        Authenticator::new(Clock::system()).with_token("secret", Identity::admin())
    }

    #[track_caller]
    fn check(authorization: Option<&str>, expected: Result<&str, u16>) {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        }
        let found = authenticator().authenticate(&ClientCertificateProof::Unnamed, &headers);
        assert_eq!(found.map(|who| who.name).map_err(|status| status.code), expected.map(Into::into));
    }

    #[test]
    fn a_token_names_its_user_and_a_wrong_one_is_refused() {
        check(Some("Bearer secret"), Ok("kubernetes-admin"));
        check(Some("bearer secret"), Ok("kubernetes-admin"));
        check(Some("Bearer secret2"), Err(401));
        check(Some("Bearer not.a.token"), Err(401));
        check(Some("Bearer  secret"), Ok("system:anonymous"));
        check(Some("Bearer "), Ok("system:anonymous"));
        check(Some("Basic YTpi"), Ok("system:anonymous"));
        check(None, Ok("system:anonymous"));
    }

    #[test]
    fn a_token_without_an_audience_is_for_this_server_only() {
        let check = |audiences: &[&str], expected: Result<&[&str], &str>| {
            let audiences = audiences.iter().map(ToString::to_string).collect::<Vec<_>>();
            let found = authenticator().accept("secret", &audiences).map(|accepted| accepted.audiences);
            let expected = expected.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(found, expected.map_err(Into::into), "{audiences:?}");
        };
        check(&[], Ok(&[ISSUER]));
        check(&["vault"], Err(INVALID));
        check(&["vault", ISSUER], Ok(&[ISSUER]));
    }

    #[test]
    fn an_audience_token_names_its_user_to_its_audience_and_opens_nothing_here() {
        let known = authenticator();
        let jane = Identity { name: "jane".into(), groups: vec!["dev".into()], ..Identity::default() };
        assert_eq!(known.issue_audience_token(&jane, &jane, ISSUER), None);
        let token = known.issue_audience_token(&jane, &jane, "homeostat-why/a/web").unwrap();
        let owner = |audiences: &[&str]| {
            let audiences = audiences.iter().map(ToString::to_string).collect::<Vec<_>>();
            known.accept(&token, &audiences).map(|accepted| (accepted.identity.name, accepted.audiences)).ok()
        };
        let meant = vec!["homeostat-why/a/web".to_owned()];
        assert_eq!(owner(&["homeostat-why/a/web"]), Some(("jane".into(), meant)));
        assert_eq!(owner(&["homeostat-why/a/other"]), None);
        assert_eq!(owner(&[ISSUER]), None);
        assert_eq!(owner(&[]), None);
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let found = known.authenticate(&ClientCertificateProof::Unnamed, &headers);
        assert_eq!(found.map_err(|status| status.code).map(|who| who.name), Err(401));
    }

    #[test]
    fn certificates_count_until_they_expire() {
        let identity = Identity { name: "jane".into(), ..Identity::default() };
        let named = |until| ClientCertificateProof::Named { identity: identity.clone(), until };
        let check = |authenticator: &Authenticator, peer: &ClientCertificateProof, expected: Option<&str>| {
            let found = authenticator.authenticate(peer, &HeaderMap::new()).ok().map(|who| who.name);
            assert_eq!(found.as_deref(), expected, "{peer:?}");
        };
        check(&authenticator(), &named(Timestamp::MAX), Some("jane"));
        check(&authenticator(), &named(Timestamp::UNIX_EPOCH), None);
        check(&authenticator(), &ClientCertificateProof::Untrusted, None);
        check(&authenticator().without_anonymous(), &ClientCertificateProof::Unnamed, None);
    }

    #[test]
    fn a_browser_sends_its_token_as_a_websocket_protocol() {
        let mut headers = HeaderMap::new();
        let protocols =
            format!("v5.channel.k8s.io, {WEBSOCKET_TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode("secret"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
        assert_eq!(bearer_token(&headers).as_deref(), Some("secret"));
    }
}
