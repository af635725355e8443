//! The API server of one run: in memory, with the workload controllers, over TLS on a free port. The operator has its
//! own user, whose requests pass through the wire where faults are injected.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use homeostat::embedded::workload_controllers;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::{AUTHENTICATED, Identity, MASTERS};
use homeostat_apiserver::serve::{self, CredentialStorage, Server, kubeconfig};
use homeostat_core::{Clock, Entropy, Revision};
use homeostat_store::{Limits, Memory, SharedStore, Store as _};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::wire::{WireLog, WireService};

/// The operator's user. It may do everything: which permissions an operator needs is a separate question.
pub(super) const OPERATOR_USER: &str = "simulated-operator";
/// The length of the operator's token, which is valid for one run, on loopback only.
const TOKEN_LETTERS: usize = 32;
/// How long the parts of a server may take to end; those still running are dropped.
const STOP_TIME: Duration = Duration::from_secs(2);
/// The namespace of the scenario's client.
const DEFAULT_NAMESPACE: &str = "default";

/// A running API server.
pub(super) struct SimServer {
    pub(super) store: Arc<Memory>,
    pub(super) client: Client,
    /// The operator's kubeconfig.
    pub(super) kubeconfig: PathBuf,
    /// The revision at which the initial objects of a new cluster are complete.
    pub(super) born: Revision,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl SimServer {
    /// Starts a server, with files in `folder`.
    pub(super) async fn start(folder: &Path, seed: u64, wire: Arc<WireLog>) -> Result<Self, String> {
        let clock = Clock::system();
        let store = Arc::new(Memory::with(clock, Limits::default()));
        let shared: SharedStore = Arc::clone(&store) as SharedStore;
        let server = Server::bind(serve::Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            storage: CredentialStorage::Memory,
            kubeconfig: folder.join("admin.kubeconfig"),
            clock,
            entropy: Entropy::system(),
        })
        .map_err(|error| format!("the server cannot be started: {error}"))?;
        let kubeconfig = folder.join("operator.kubeconfig");
        let token = Entropy::system().suffix(TOKEN_LETTERS);
        kubeconfig::write(&kubeconfig, &server.url(), &server.credentials().ca_pem, &token)
            .map_err(|error| format!("the operator's kubeconfig cannot be written: {error}"))?;
        let operator = Identity {
            name: OPERATOR_USER.to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Identity::default()
        };
        let authenticator = server
            .authenticator(Arc::clone(&shared))
            .map_err(|error| format!("the server cannot be started: {error}"))?;
        let authenticator = Arc::new(authenticator.with_token(&token, operator));
        let (api, background) = ApiServer::builder(shared)
            .clock(clock)
            .entropy(Entropy::seeded(seed))
            .authenticator(Arc::clone(&authenticator))
            .root_ca(&*server.credentials().ca_pem)
            .address(server.advertised())
            .build()
            .await
            .map_err(|error| format!("the server cannot be started: {error}"))?;
        let client = Client::new(api.clone(), DEFAULT_NAMESPACE);
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(background.run(stop.clone()));
        let socket = server.run(WireService::new(api, &store, wire), authenticator, stop.clone());
        tasks.spawn(async {
            if let Err(error) = socket.await {
                tracing::error!("the simulated server ended: {error}");
            }
        });
        let controllers = workload_controllers().run_on(client.clone(), stop.clone());
        tasks.spawn(async {
            if let Err(error) = controllers.await {
                tracing::error!("the workload controllers of the simulated server ended: {error}");
            }
        });
        let born = store.snapshot().revision();
        Ok(Self { store, client, kubeconfig, born, tasks, stop })
    }

    /// Stops the server. Nothing is persisted, so it does not wait for slow tasks.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_TIME, ended).await;
        self.store.close().await;
    }
}
