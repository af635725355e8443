//! Manages the tokens of the Pods' ServiceAccounts: they are requested from the server, cached while they are fresh,
//! renewed before they expire.
//!
//! **Invariant:** a token is bound to its Pod: it becomes invalid and leaves the cache together with the Pod. If the
//! server does not respond, the old token is used as long as it is valid.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};

use super::pod::service_account;

/// The lifetime that Kubernetes gives by default.
const LIFETIME_S: i64 = 3600;
/// When to replace a token: after this percentage of its lifetime, and at least once a day. This is the kubelet's rule.
const REFRESH_PERCENT: i32 = 80;
const REFRESH_MAX: SignedDuration = SignedDuration::from_hours(24);
/// How soon to retry after a refusal.
const RETRY: Duration = Duration::from_secs(10);

/// The requested token: its audience (by default, the server) and its lifetime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenSpec {
    audience: Option<String>,
    lifetime_s: i64,
}

impl TokenSpec {
    pub(crate) fn new(audience: Option<&str>, lifetime_s: Option<i64>) -> Self {
        let audience = audience.filter(|audience| !audience.is_empty()).map(ToOwned::to_owned);
        Self { audience, lifetime_s: lifetime_s.unwrap_or(LIFETIME_S) }
    }
}

/// A token and its times.
#[derive(Clone)]
struct CachedToken {
    text: String,
    refresh_at: Timestamp,
    expires_at: Timestamp,
}

/// The current tokens of one Pod, and when to ask again.
#[derive(Default)]
pub(crate) struct PodTokens {
    pub(crate) tokens: BTreeMap<TokenSpec, Result<String, String>>,
    pub(crate) again: Option<Duration>,
}

/// All tokens of a node, by Pod.
#[derive(Default)]
pub(crate) struct TokenCache(Mutex<HashMap<String, BTreeMap<TokenSpec, CachedToken>>>);

impl TokenCache {
    /// Returns every token that the Pod requests, and requests new ones as needed.
    pub(crate) async fn tokens_of_pod(&self, client: &Client, pod: &Pod, now: Timestamp) -> PodTokens {
        let mut pod_tokens = PodTokens::default();
        let requested = pod.spec.iter().flat_map(service_account::requested_tokens);
        for spec in requested.map(|(audience, lifetime_s)| TokenSpec::new(audience, lifetime_s)) {
            let (token, again) = self.token_for(client, pod, &spec, now).await;
            pod_tokens.tokens.insert(spec, token);
            pod_tokens.again = Some(pod_tokens.again.map_or(again, |earlier| earlier.min(again)));
        }
        pod_tokens
    }

    async fn token_for(
        &self,
        client: &Client,
        pod: &Pod,
        spec: &TokenSpec,
        now: Timestamp,
    ) -> (Result<String, String>, Duration) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let held = self.lock().get(uid).and_then(|held| held.get(spec)).cloned();
        if let Some(held) = held.as_ref().filter(|held| now < held.refresh_at) {
            return (Ok(held.text.clone()), time_until(held.refresh_at, now));
        }
        match request_token(client, pod, spec, now).await {
            Ok(fresh) => {
                self.lock().entry(uid.to_owned()).or_default().insert(spec.clone(), fresh.clone());
                (Ok(fresh.text), time_until(fresh.refresh_at, now))
            }
            Err(error) => {
                let still_good = held.filter(|held| now < held.expires_at).map(|held| held.text);
                (still_good.ok_or_else(|| describe_refusal(pod, &error)), RETRY)
            }
        }
    }

    /// Forgets the tokens of all other Pods.
    pub(crate) fn retain_pods(&self, pods: &HashSet<&str>) {
        self.lock().retain(|uid, _| pods.contains(uid.as_str()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<TokenSpec, CachedToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn time_until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

fn describe_refusal(pod: &Pod, error: &kube::Error) -> String {
    let why = match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    };
    let name = service_account::account_name(pod);
    let cure = match error {
        kube::Error::Api(status) if status.code == 404 && why.contains("serviceaccounts") => {
            format!("; create it: kubectl create serviceaccount {name}")
        }
        _ => String::new(),
    };
    format!("cannot get a token for the ServiceAccount {name}: {why}{cure}")
}

async fn request_token(
    client: &Client,
    pod: &Pod,
    spec: &TokenSpec,
    now: Timestamp,
) -> Result<CachedToken, kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: spec.audience.clone().map(|audience| vec![audience]),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
            expiration_seconds: Some(spec.lifetime_s),
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(service_account::account_name(pod), &PostParams::default(), &request)
        .await?;
    let status = answer.status.unwrap_or_default();
    let asked_for = || now.saturating_add(SignedDuration::from_secs(spec.lifetime_s)).unwrap_or(now);
    let expires_at = status.expiration_timestamp.map_or_else(asked_for, |time| time.0);
    let text = status.token.unwrap_or_default();
    Ok(CachedToken { text, refresh_at: refresh_at(now, expires_at), expires_at })
}

/// Returns when a token issued now should be replaced.
fn refresh_at(now: Timestamp, expires_at: Timestamp) -> Timestamp {
    let life = expires_at.duration_since(now).max(SignedDuration::ZERO);
    let share = (life / 100).saturating_mul(REFRESH_PERCENT);
    now.saturating_add(share.min(REFRESH_MAX)).unwrap_or(expires_at)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use homeostat_apiserver::ApiServer;
    use homeostat_apiserver::auth::jwt::SigningKey;
    use homeostat_apiserver::auth::{Authenticator, TokenIssuer};
    use homeostat_core::{Clock, Entropy};
    use homeostat_store::{Memory, SharedStore};
    use serde_json::json;

    use super::*;

    async fn client(clock: Clock) -> Client {
        let store: SharedStore = Arc::new(Memory::new());
        let key = SigningKey::from_pkcs8(&SigningKey::generate()).unwrap();
        let issuer = TokenIssuer::new(key, Arc::clone(&store), clock, Entropy::seeded(1));
        let authenticator = Arc::new(Authenticator::new(clock).with_issuer(issuer));
        let builder = ApiServer::builder(store).clock(clock).authenticator(authenticator);
        let (server, _background) = builder.build().await.unwrap();
        let client = Client::new(server, "default");
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        client
    }

    async fn pod(client: &Client) -> Pod {
        let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 1000}});
        let pod = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
            "serviceAccountName": "robot", "containers": [{"name": "main", "image": "none"}],
            "volumes": [{"name": "own", "projected": {"sources": [token]}}]}}))
        .unwrap();
        Api::namespaced(client.clone(), "default").create(&PostParams::default(), &pod).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_replaced_when_four_fifths_of_its_life_are_over() {
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
        let client = client(clock).await;
        let (pod, tokens) = (pod(&client).await, TokenCache::default());
        let pod_tokens = async || tokens.tokens_of_pod(&client, &pod, clock.now()).await;
        let text = |pod_tokens: &PodTokens| pod_tokens.tokens.values().next().unwrap().clone().unwrap();
        let first = pod_tokens().await;
        assert_eq!(first.again, Some(Duration::from_secs(800)));
        tokio::time::advance(Duration::from_secs(799)).await;
        let held = pod_tokens().await;
        assert_eq!((text(&held), held.again), (text(&first), Some(Duration::from_secs(1))));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_ne!(text(&pod_tokens().await), text(&first));
        tokens.retain_pods(&HashSet::new());
        assert!(tokens.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_token_is_good_until_it_expires() {
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
        let client = client(clock).await;
        let (pod, tokens) = (pod(&client).await, TokenCache::default());
        assert!(tokens.tokens_of_pod(&client, &pod, clock.now()).await.tokens.values().all(Result::is_ok));
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        accounts.delete("robot", &kube::api::DeleteParams::default()).await.unwrap();
        tokio::time::advance(Duration::from_secs(900)).await;
        let pod_tokens = tokens.tokens_of_pod(&client, &pod, clock.now()).await;
        assert!(pod_tokens.tokens.values().all(Result::is_ok) && pod_tokens.again == Some(RETRY));
        tokio::time::advance(Duration::from_secs(100)).await;
        let pod_tokens = tokens.tokens_of_pod(&client, &pod, clock.now()).await;
        let refused = pod_tokens.tokens.into_values().next().unwrap().unwrap_err();
        let words = "serviceaccounts \"robot\" not found; create it: kubectl create serviceaccount robot";
        assert!(refused.contains(words), "{refused}");
    }
}
