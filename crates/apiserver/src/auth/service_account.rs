//! Issues and verifies service account tokens: they are issued on request, and are valid until they expire or the
//! object that they are bound to is gone.
//!
//! **Invariant:** a token is accepted only while its account (and the Pod, Secret or Node that it is bound to) is in
//! the store with the uid that the token names. The signature is checked once per token and remembered; the store is
//! checked every time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use homeostat_api::field::{self, FieldPath};
use homeostat_api::status::{ResourceName, Status};
use homeostat_core::{Clock, Entropy, Key, Uid};
use homeostat_store::{SharedStore, Snapshot};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::AUTHENTICATED;
use super::Identity;
use super::impersonate::service_account_groups;
use super::jwt::TokenKeys;
use super::rbac_index::SERVICE_ACCOUNT_PREFIX;
use super::rule::quoted;
use crate::stored::labels_and_owners::LabelsAndOwners;
use crate::stored::token_fields::TokenFields;

/// The issuer of the tokens, and their audience unless the request names a different one.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The path of the public keys, named in the discovery document.
const KEYS_PATH: &str = "/openid/v1/jwks";

const GROUP: &str = "authentication.k8s.io";
/// The account of a Pod that does not name one.
const DEFAULT_ACCOUNT: &str = "default";
const KIND: &str = "TokenRequest";
/// The default, minimum and maximum lifetimes in Kubernetes.
const LIFETIME_S: i64 = 3600;
const LIFETIME_S_MIN: i64 = 600;
const LIFETIME_S_MAX: i64 = 1 << 32;
/// How many verified signatures are remembered. Checking a signature again costs about 80 µs and remembering it takes
/// 300 bytes, and a process with more live tokens than this is rare. When the memory is full, all are forgotten.
const REMEMBERED_MAX: usize = 4096;
/// Longer tokens are verified each time: a token names as many audiences as its request did, and remembering thousands
/// of long tokens would take gigabytes.
const REMEMBERED_BYTES_MAX: usize = 8 << 10;
/// How long an object still counts after its deletion began, because clocks differ; the same as in Kubernetes.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Issues and accepts the tokens of service accounts.
pub struct TokenIssuer {
    keys: RwLock<Arc<TokenKeys>>,
    /// The names of this issuer: the first one is written into tokens, all are accepted, and all are audiences.
    names: Vec<String>,
    pub(super) store: SharedStore,
    clock: Clock,
    entropy: Entropy,
    remembered: Mutex<HashMap<[u8; 32], Arc<TokenClaims>>>,
}

/// A token that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedToken {
    /// The owner of the token.
    pub identity: Identity,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct TokenClaims {
    iss: String,
    aud: Vec<String>,
    exp: i64,
    nbf: i64,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: BoundObjects,
}

#[derive(Debug, Deserialize)]
struct BoundObjects {
    namespace: String,
    serviceaccount: ObjectReference,
    pod: Option<ObjectReference>,
    secret: Option<ObjectReference>,
    node: Option<ObjectReference>,
}

#[derive(Debug, Deserialize)]
struct ObjectReference {
    name: String,
    #[serde(default)]
    uid: String,
}

impl TokenIssuer {
    /// Creates an issuer that signs with these keys and looks accounts up in this store.
    pub fn new(keys: impl Into<TokenKeys>, store: SharedStore, clock: Clock, entropy: Entropy) -> Self {
        let keys = RwLock::new(Arc::new(keys.into()));
        Self { keys, names: vec![ISSUER.to_owned()], store, clock, entropy, remembered: Mutex::default() }
    }

    /// Sets the names of the issuer, if any are given. The default is [`ISSUER`].
    #[must_use]
    pub fn named(mut self, names: &[String]) -> Self {
        if !names.is_empty() {
            self.names = names.to_vec();
        }
        self
    }

    /// Returns the audiences of tokens for this server.
    pub(super) fn audiences(&self) -> &[String] {
        &self.names
    }

    /// Replaces the keys. Tokens signed with removed keys are refused from now on.
    pub fn set_keys(&self, keys: TokenKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn keys(&self) -> Arc<TokenKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Handles a `TokenRequest` for the account.
    pub fn request(&self, namespace: &str, name: &str, mut body: Value) -> Result<Value, Status> {
        let snapshot = self.store.snapshot();
        let uid = uid_of(&snapshot, "serviceaccounts", namespace, name)?;
        complete_request(&mut body, namespace, name, &uid, &self.names)?;
        let lifetime_s = requested_lifetime(&body)?;
        let (bound_kind, bound) = bound_object(&snapshot, namespace, name, &body)?;
        let now = self.clock.now();
        let mut kubernetes = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
        if !bound_kind.is_empty() {
            kubernetes[bound_kind] = bound;
        }
        let expires = now.as_second().saturating_add(lifetime_s);
        let token = self.keys().signing.sign(&json!({
            "iss": self.names[0], "sub": format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            "aud": body["spec"]["audiences"], "iat": now.as_second(), "nbf": now.as_second(), "exp": expires,
            "jti": Uid::random(&self.entropy).as_str(), "kubernetes.io": kubernetes,
        }));
        let shown = |at: i64| Timestamp::from_second(at).unwrap_or(Timestamp::MAX).to_string();
        body["metadata"]["creationTimestamp"] = shown(now.as_second()).into();
        body["status"] = json!({"token": token, "expirationTimestamp": shown(expires)});
        Ok(body)
    }

    /// Returns the owner of a token that is valid for one of the audiences.
    pub fn verify(&self, token: &str, audiences: &[String]) -> Result<AcceptedToken, String> {
        let Some(claims) = self.claims(token) else {
            return self.verify_secret_token(token, audiences).ok_or_else(|| "invalid bearer token".into());
        };
        let now = self.clock.now().as_second();
        if !self.names.contains(&claims.iss) {
            return Err("invalid bearer token".into());
        }
        if now >= claims.exp {
            return Err("service account token has expired".into());
        }
        if now < claims.nbf.saturating_sub(LEEWAY.as_secs()) {
            return Err("service account token is not valid yet".into());
        }
        let named = claims.aud.iter().collect::<HashSet<_>>();
        let meant = audiences.iter().filter(|one| named.contains(one)).cloned().collect::<Vec<_>>();
        if meant.is_empty() {
            let (has, wanted) = (quoted(&claims.aud), quoted(audiences));
            // Kubernetes asks two authenticators and reports both failures.
            return Err(format!(
                "[invalid bearer token, token audiences {has} is invalid for the target audiences {wanted}]"
            ));
        }
        self.check_bound(&claims.bound)?;
        Ok(AcceptedToken { identity: identity(&claims), audiences: meant })
    }

    /// Returns the media type and content of the documents with which other programs verify our tokens; `None` for
    /// other paths. `host` is the address at which the client reached this server.
    pub fn document(&self, path: &str, host: &str) -> Option<(&'static str, Value)> {
        match path {
            "/.well-known/openid-configuration" => Some((
                "application/json",
                json!({"issuer": self.names[0], "jwks_uri": format!("https://{host}{KEYS_PATH}"),
                    "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": self.algorithms()}),
            )),
            KEYS_PATH => Some(("application/jwk-set+json", json!({"keys": self.public_keys()}))),
            _ => None,
        }
    }

    fn public_keys(&self) -> Vec<Value> {
        self.keys().verifying.iter().map(super::jwt::VerifyingKey::jwk).collect()
    }

    /// Returns the algorithms of the keys, without duplicates.
    fn algorithms(&self) -> Vec<Value> {
        let mut algorithms: Vec<Value> = self.public_keys().iter().map(|key| key["alg"].clone()).collect();
        algorithms.dedup();
        algorithms
    }

    fn claims(&self, token: &str) -> Option<Arc<TokenClaims>> {
        let hash = <[u8; 32]>::from(Sha256::digest(token));
        let remembered = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = remembered().get(&hash) {
            return Some(claims.clone());
        }
        let keys = self.keys();
        let claims = keys.verify(token)?;
        let claims = Arc::new(serde_json::from_value::<TokenClaims>(claims).ok()?);
        if token.len() > REMEMBERED_BYTES_MAX {
            return Some(claims);
        }
        let mut remembered = remembered();
        if !Arc::ptr_eq(&keys, &self.keys()) {
            // The keys were replaced in the meantime, which emptied the memory.
            return Some(claims);
        }
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash, claims.clone());
        Some(claims)
    }

    /// Returns whether the identity either does not belong to a service account or belongs to one that still exists.
    pub(super) fn is_current(&self, identity: &Identity) -> bool {
        let account =
            identity.name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|name| name.split_once(':'));
        // An impersonated account has no uid, and need not exist.
        let Some((namespace, name)) = account.filter(|_| !identity.uid.is_empty()) else { return true };
        let stored = stored_fields(&self.store.snapshot(), "serviceaccounts", namespace, name);
        stored.is_some_and(|object| *object.uid == *identity.uid)
    }

    fn check_bound(&self, bound: &BoundObjects) -> Result<(), String> {
        let snapshot = self.store.snapshot();
        let namespace = &*bound.namespace;
        let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
        let objects = [
            ("serviceaccounts", namespace, Some(&bound.serviceaccount)),
            ("pods", namespace, bound.pod.as_ref()),
            ("secrets", namespace, bound.secret.as_ref()),
            ("nodes", "", node),
        ];
        for (resource, namespace, reference) in objects {
            let Some(reference) = reference else { continue };
            let stored = stored_fields(&snapshot, resource, namespace, &reference.name);
            let is_good = stored.is_some_and(|object| {
                *object.uid == *reference.uid
                    && object.deletion_timestamp.is_none_or(|at| at >= self.clock.now() - LEEWAY)
            });
            if !is_good {
                return Err("service account token has been invalidated".into());
            }
        }
        Ok(())
    }
}

fn identity(claims: &TokenClaims) -> Identity {
    let BoundObjects { namespace, serviceaccount, pod, node, .. } = &claims.bound;
    let mut extra = BTreeMap::new();
    let mut note = |key: &str, value: String| {
        extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    note("credential-id", format!("JTI={}", claims.jti));
    for (kind, reference) in [("pod", pod), ("node", node)] {
        if let Some(reference) = reference {
            note(&format!("{kind}-name"), reference.name.clone());
            note(&format!("{kind}-uid"), reference.uid.clone());
        }
    }
    let mut groups = service_account_groups(namespace);
    groups.push(AUTHENTICATED.into());
    let name = format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", serviceaccount.name);
    Identity { name, uid: serviceaccount.uid.clone(), groups, extra }
}

/// Returns what is known about a stored object, which is parsed once and not for each request.
fn stored_fields(
    snapshot: &Snapshot,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Option<Arc<TokenFields>> {
    LabelsAndOwners::token_fields(snapshot.get(&Key::new("", resource, namespace, name))?)
}

fn uid_of(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Result<String, Status> {
    stored_fields(snapshot, resource, namespace, name)
        .map(|object| object.uid.to_string())
        .ok_or_else(|| Status::not_found(&ResourceName { group: "", resource, name }))
}

/// Fills in the fields that the request may omit, and refuses invalid ones.
fn complete_request(
    body: &mut Value,
    namespace: &str,
    name: &str,
    uid: &str,
    audiences: &[String],
) -> Result<(), Status> {
    if !body.is_object() {
        *body = json!({});
    }
    body["kind"] = KIND.into();
    body["apiVersion"] = format!("{GROUP}/v1").into();
    for field in ["metadata", "spec"] {
        if !body[field].is_object() {
            body[field] = json!({});
        }
    }
    for (field, expected, detail) in [
        ("name", name, "must match the service account name if specified"),
        ("namespace", namespace, "must match the service account namespace if specified"),
    ] {
        match body["metadata"][field].as_str() {
            None | Some("") => body["metadata"][field] = expected.into(),
            Some(found) if found == expected => {}
            Some(found) => {
                let metadata = FieldPath::Root.field("metadata");
                let errors = field::Error::invalid(&metadata.field(field), &found.into(), detail).into();
                return Err(Status::invalid(GROUP, KIND, name, &errors));
            }
        }
    }
    check_account_uid(body, name, uid)?;
    body["metadata"]["uid"] = uid.into();
    let spec = &mut body["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!(audiences);
    }
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = LIFETIME_S.into();
    }
    if spec.get("boundObjectRef").is_none() {
        spec["boundObjectRef"] = Value::Null;
    }
    Ok(())
}

fn check_account_uid(body: &Value, name: &str, uid: &str) -> Result<(), Status> {
    match body["metadata"]["uid"].as_str() {
        None | Some("") => Ok(()),
        Some(found) if found == uid => Ok(()),
        Some(found) => {
            let why = format!(
                "the UID in the token request ({found}) does not match the UID of the service account ({uid})"
            );
            Err(Status::conflict(&ResourceName { group: GROUP, resource: KIND, name }, &why))
        }
    }
}

fn requested_lifetime(body: &Value) -> Result<i64, Status> {
    let given = &body["spec"]["expirationSeconds"];
    let detail = match given.as_i64() {
        Some(seconds) if seconds < LIFETIME_S_MIN => "may not specify a duration less than 10 minutes",
        Some(seconds) if seconds <= LIFETIME_S_MAX => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let spec = FieldPath::Root.field("spec");
    let errors = field::Error::invalid(&spec.field("expirationSeconds"), given, detail).into();
    Err(Status::invalid(GROUP, KIND, "", &errors))
}

/// Returns the claim for the object that the token is bound to: its name among the claims (empty if there is none)
/// and its reference.
fn bound_object(
    snapshot: &Snapshot,
    namespace: &str,
    account: &str,
    body: &Value,
) -> Result<(&'static str, Value), Status> {
    let reference = &body["spec"]["boundObjectRef"];
    if reference.is_null() {
        return Ok(("", Value::Null));
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (version_group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let (claim, resource, namespace) = match (version_group, kind) {
        ("", "Pod") => ("pod", "pods", namespace),
        ("", "Secret") => ("secret", "secrets", namespace),
        ("", "Node") => ("node", "nodes", ""),
        _ => {
            let text = format!("cannot bind token to object of type {version_group}/{version}, Kind={kind}");
            return Err(Status::bad_request(text));
        }
    };
    let uid = uid_of(snapshot, resource, namespace, name)?;
    if claim == "pod" {
        check_pod_account(snapshot, namespace, name, account)?;
    }
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might \
             have been deleted and then recreated"
        );
        return Err(Status::conflict(&ResourceName { group: "", resource: kind, name }, &why));
    }
    Ok((claim, json!({"name": name, "uid": uid})))
}

fn check_pod_account(snapshot: &Snapshot, namespace: &str, pod: &str, account: &str) -> Result<(), Status> {
    let entry = snapshot.get(&Key::new("", "pods", namespace, pod));
    let pod = entry.and_then(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok()).unwrap_or_default();
    let named = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    if named.unwrap_or(DEFAULT_ACCOUNT) == account {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
    )))
}

#[cfg(test)]
mod tests {
    use homeostat_store::{Expect, Memory, Op, Txn, Value as Bytes};

    use super::*;

    async fn put(store: &SharedStore, resource: &str, name: &str, object: Option<Value>) {
        let op = object.map_or(Op::Delete, |object| Op::Put(Bytes::plain(object.to_string())));
        store.commit(Txn::one(Key::new("", resource, "a", name), Expect::Any, op)).await.unwrap();
    }

    async fn issuer() -> (TokenIssuer, SharedStore) {
        let store: SharedStore = Arc::new(Memory::new());
        put(&store, "serviceaccounts", "bot", Some(json!({"metadata": {"uid": "u1"}}))).await;
        put(&store, "secrets", "s", Some(json!({"metadata": {"uid": "u2"}}))).await;
        let key =
            crate::auth::jwt::SigningKey::from_pkcs8(&crate::auth::jwt::SigningKey::generate()).unwrap();
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
        (TokenIssuer::new(key, store.clone(), clock, Entropy::seeded(1)), store)
    }

    fn token(issuer: &TokenIssuer, spec: &Value) -> String {
        let answer = issuer.request("a", "bot", json!({"spec": spec})).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    fn ours() -> Vec<String> {
        vec![ISSUER.to_owned()]
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_names_its_account_until_it_expires() {
        let (issuer, _store) = issuer().await;
        let token = token(&issuer, &json!({"expirationSeconds": 600}));
        let accepted = issuer.verify(&token, &ours()).unwrap();
        assert_eq!(accepted.identity.name, "system:serviceaccount:a:bot");
        assert_eq!(accepted.identity.uid, "u1");
        tokio::time::advance(std::time::Duration::from_secs(599)).await;
        assert!(issuer.verify(&token, &ours()).is_ok());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(issuer.verify(&token, &ours()).unwrap_err(), "service account token has expired");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_good_for_its_audience_only() {
        let (issuer, _store) = issuer().await;
        let token = token(&issuer, &json!({"audiences": ["app"]}));
        assert!(issuer.verify(&token, &ours()).is_err());
        assert_eq!(issuer.verify(&token, &["app".into(), "x".into()]).unwrap().audiences, ["app"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_invalid_once_its_bound_object_is_gone() {
        let (issuer, store) = issuer().await;
        let plain = token(&issuer, &json!({}));
        let bound =
            token(&issuer, &json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}}));
        let are_good = || [&plain, &bound].map(|token| issuer.verify(token, &ours()).is_ok());
        assert_eq!(are_good(), [true, true]);
        put(&store, "secrets", "s", Some(json!({"metadata": {"uid": "another"}}))).await;
        assert_eq!(are_good(), [true, false]);
        put(&store, "serviceaccounts", "bot", None).await;
        assert_eq!(are_good(), [false, false]);
        put(&store, "serviceaccounts", "bot", Some(json!({"metadata": {"uid": "u3"}}))).await;
        assert_eq!(are_good(), [false, false], "the same name is another account");
    }
}
