//! Tokens of service accounts: issued on request, good until they expire or what they are bound to is gone.
//!
//! **Invariant:** a token is accepted only while its account (and the Pod, Secret or Node it is bound to) is in the
//! store with the uid the token names. The signature is checked once per token and remembered; the store is asked
//! every time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use homeostat_core::{Clock, Entropy, Key, Uid};
use homeostat_store::{SharedStore, Snapshot};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Identity;
use super::identity::AUTHENTICATED;
use super::impersonate::service_account_groups;
use super::jwt::SigningKey;
use super::policy::SERVICE_ACCOUNT_PREFIX;
use super::rule::quoted;
use crate::field::{self, Path};
use crate::status::{About, Status};

/// Who issues the tokens, and the audience they are for unless another is asked.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Where the public keys are served, as the discovery document says.
const KEYS_PATH: &str = "/openid/v1/jwks";

const GROUP: &str = "authentication.k8s.io";
/// The account of a Pod that names none.
const DEFAULT_ACCOUNT: &str = "default";
const KIND: &str = "TokenRequest";
/// Kubernetes' default, shortest and longest lifetimes.
const LIFETIME_S: i64 = 3600;
const LIFETIME_S_MIN: i64 = 600;
const LIFETIME_S_MAX: i64 = 1 << 32;
/// Verified signatures remembered. One costs some 80 µs to check again and 300 bytes to remember, and a process with
/// more live tokens than this is rare; when full, all are forgotten.
const REMEMBERED_MAX: usize = 4096;
/// Longer tokens are verified each time: a token names as many audiences as were asked for, and remembering thousands of
/// long ones would take gigabytes.
const REMEMBERED_BYTES_MAX: usize = 8 << 10;
/// How long after its deletion began an object still counts, for clocks that differ: Kubernetes' leeway.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Issues and accepts the tokens of service accounts.
pub struct Issuer {
    key: SigningKey,
    store: SharedStore,
    clock: Clock,
    entropy: Entropy,
    remembered: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

/// A token that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Whose it is.
    pub identity: Identity,
    /// Which of the wanted audiences it is for.
    pub audiences: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    aud: Vec<String>,
    exp: i64,
    nbf: i64,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: Bound,
}

#[derive(Debug, Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Reference,
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    name: String,
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
struct Stored {
    metadata: StoredMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMetadata {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<Timestamp>,
}

impl Issuer {
    /// Issues with this key; looks accounts up in this store.
    pub fn new(key: SigningKey, store: SharedStore, clock: Clock, entropy: Entropy) -> Self {
        Self { key, store, clock, entropy, remembered: Mutex::default() }
    }

    /// Answers a `TokenRequest` for the account.
    pub fn request(&self, namespace: &str, name: &str, mut body: Value) -> Result<Value, Status> {
        let snapshot = self.store.snapshot();
        let uid = uid_of(&snapshot, "serviceaccounts", namespace, name)?;
        fill_in(&mut body, namespace, name, &uid)?;
        let lifetime_s = lifetime(&body)?;
        let (bound_kind, bound) = bound_object(&snapshot, namespace, name, &body)?;
        let now = self.clock.now();
        let mut kubernetes = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
        if !bound_kind.is_empty() {
            kubernetes[bound_kind] = bound;
        }
        let expires = now.as_second().saturating_add(lifetime_s);
        let token = self.key.sign(&json!({
            "iss": ISSUER, "sub": format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            "aud": body["spec"]["audiences"], "iat": now.as_second(), "nbf": now.as_second(), "exp": expires,
            "jti": Uid::random(&self.entropy).as_str(), "kubernetes.io": kubernetes,
        }));
        let shown = |at: i64| Timestamp::from_second(at).unwrap_or(Timestamp::MAX).to_string();
        body["metadata"]["creationTimestamp"] = shown(now.as_second()).into();
        body["status"] = json!({"token": token, "expirationTimestamp": shown(expires)});
        Ok(body)
    }

    /// Whose token it is, if it is good for one of the audiences.
    pub fn verify(&self, token: &str, audiences: &[String]) -> Result<Accepted, String> {
        let claims = self.claims(token).ok_or("invalid bearer token")?;
        let now = self.clock.now().as_second();
        if claims.iss != ISSUER {
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
            // Kubernetes asks two authenticators, and reports both.
            return Err(format!(
                "[invalid bearer token, token audiences {has} is invalid for the target audiences {wanted}]"
            ));
        }
        self.check_bound(&claims.bound)?;
        Ok(Accepted { identity: identity(&claims), audiences: meant })
    }

    /// The documents by which others learn to verify our tokens: media type and value; `None` for other paths.
    /// `host` is where the asking client reached this server.
    pub fn document(&self, path: &str, host: &str) -> Option<(&'static str, Value)> {
        match path {
            "/.well-known/openid-configuration" => Some((
                "application/json",
                json!({"issuer": ISSUER, "jwks_uri": format!("https://{host}{KEYS_PATH}"),
                    "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"]}),
            )),
            KEYS_PATH => Some(("application/jwk-set+json", json!({"keys": [self.key.public_jwk()]}))),
            _ => None,
        }
    }

    fn claims(&self, token: &str) -> Option<Arc<Claims>> {
        let hash = <[u8; 32]>::from(Sha256::digest(token));
        let remembered = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = remembered().get(&hash) {
            return Some(claims.clone());
        }
        let claims = self.key.verify(token)?;
        let claims = Arc::new(serde_json::from_value::<Claims>(claims).ok()?);
        if token.len() > REMEMBERED_BYTES_MAX {
            return Some(claims);
        }
        let mut remembered = remembered();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash, claims.clone());
        Some(claims)
    }

    fn check_bound(&self, bound: &Bound) -> Result<(), String> {
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
            let stored = stored(&snapshot, resource, namespace, &reference.name);
            let is_good = stored.is_some_and(|object| {
                object.uid == reference.uid
                    && object.deletion_timestamp.is_none_or(|at| at >= self.clock.now() - LEEWAY)
            });
            if !is_good {
                return Err("service account token has been invalidated".into());
            }
        }
        Ok(())
    }
}

fn identity(claims: &Claims) -> Identity {
    let Bound { namespace, serviceaccount, pod, node, .. } = &claims.bound;
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

fn stored(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<StoredMetadata> {
    let entry = snapshot.get(&Key::new("", resource, namespace, name))?;
    serde_json::from_slice::<Stored>(&entry.bytes).ok().map(|stored| stored.metadata)
}

fn uid_of(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Result<String, Status> {
    stored(snapshot, resource, namespace, name)
        .map(|object| object.uid)
        .ok_or_else(|| Status::not_found(&About { group: "", resource, name }))
}

/// Completes the request with what it may leave out, and refuses what it says wrongly.
fn fill_in(body: &mut Value, namespace: &str, name: &str, uid: &str) -> Result<(), Status> {
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
                let metadata = Path::Root.field("metadata");
                let errors = field::Error::invalid(&metadata.field(field), &found.into(), detail).into();
                return Err(Status::invalid(GROUP, KIND, name, &errors));
            }
        }
    }
    check_account_uid(body, name, uid)?;
    body["metadata"]["uid"] = uid.into();
    let spec = &mut body["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([ISSUER]);
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
            Err(Status::conflict(&About { group: GROUP, resource: KIND, name }, &why))
        }
    }
}

fn lifetime(body: &Value) -> Result<i64, Status> {
    let given = &body["spec"]["expirationSeconds"];
    let detail = match given.as_i64() {
        Some(seconds) if seconds < LIFETIME_S_MIN => "may not specify a duration less than 10 minutes",
        Some(seconds) if seconds <= LIFETIME_S_MAX => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let spec = Path::Root.field("spec");
    let errors = field::Error::invalid(&spec.field("expirationSeconds"), given, detail).into();
    Err(Status::invalid(GROUP, KIND, "", &errors))
}

/// The claim for the object the token shall be bound to: its name in the claims (empty: none) and its reference.
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
        return Err(Status::conflict(&About { group: "", resource: kind, name }, &why));
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

    async fn issuer() -> (Issuer, SharedStore) {
        let store: SharedStore = Arc::new(Memory::new());
        put(&store, "serviceaccounts", "bot", Some(json!({"metadata": {"uid": "u1"}}))).await;
        put(&store, "secrets", "s", Some(json!({"metadata": {"uid": "u2"}}))).await;
        let key = SigningKey::from_pkcs8(&SigningKey::generate()).unwrap();
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
        (Issuer::new(key, store.clone(), clock, Entropy::seeded(1)), store)
    }

    fn token(issuer: &Issuer, spec: &Value) -> String {
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
    async fn a_token_dies_with_what_it_is_bound_to() {
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
