//! Tests that a slow webhook occupies no slot: requests that wait for it make room for others.

use std::sync::Arc;
use std::time::Duration;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::limits::USER_WRITES_MAX;
use homeostat_apiserver::serve::{Config, CredentialStorage, Server};
use homeostat_apiserver::server::Builder;
use homeostat_core::{Clock, Entropy};
use homeostat_store::{Memory, SharedStore};
use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::webhook_server::{Behaviour, WebhookServer};

/// Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// Starts a server over TLS, and returns an administrator's client.
async fn start() -> (Client, DropGuard, tempfile::TempDir) {
    let (config, stop, folder) = start_served(|builder| builder).await;
    (Client::try_from(config).unwrap(), stop, folder)
}

/// Starts a server over TLS that is built in this way, and returns the configuration of the administrator's client.
pub(crate) async fn start_served(
    extend: impl FnOnce(Builder) -> Builder,
) -> (kube::Config, DropGuard, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        storage: CredentialStorage::Memory,
        kubeconfig: kubeconfig.clone(),
        clock: Clock::system(),
        entropy: Entropy::system(),
    };
    let server = Server::bind(config).unwrap();
    let store: SharedStore = Arc::new(Memory::new());
    let authenticator = Arc::new(server.authenticator(Arc::clone(&store)).unwrap());
    let builder = ApiServer::builder(store).authenticator(Arc::clone(&authenticator));
    let (api, background) = extend(builder).build().await.unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(background.run(stop.clone()));
    tokio::spawn(server.run(api, authenticator, stop.clone()));
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (config, stop.drop_guard(), folder)
}

pub(crate) async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let request = Request::post(path).header("content-type", "application/json");
    client.request(request.body(body.to_string().into_bytes()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_for_a_webhook_leave_their_slots_to_others() {
    let (client, _stop, _folder) = start().await;
    let webhook = WebhookServer::start(|_| Behaviour::Hang).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let configuration = webhook.configuration("slow", &json!({"timeoutSeconds": 30}));
    post(&client, path, &configuration).await.unwrap();
    // As many as one user may have, so that none is left for the next request.
    let waiting = (0..USER_WRITES_MAX).map(|at| {
        let client = client.clone();
        let object = json!({"metadata": {"name": format!("c{at}")}});
        tokio::spawn(async move { post(&client, "/api/v1/namespaces/default/configmaps", &object).await })
    });
    let waiting = waiting.collect::<Vec<_>>();
    let all_wait = async {
        while webhook.questions().len() < USER_WRITES_MAX {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_wait).await.expect("every request reaches the webhook");
    let secret = json!({"metadata": {"name": "s"}});
    post(&client, "/api/v1/namespaces/default/secrets", &secret).await.expect("others are served meanwhile");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}
