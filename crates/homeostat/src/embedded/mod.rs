//! The embedded control plane: store, API server, keeper and, if asked for, a TLS socket and the workload controllers,
//! assembled and owned by one value.
//!
//! **Invariant:** every task is awaited by [`ControlPlane::stop`], in the order clients, keeper, store, so that what
//! was acknowledged is on disk when it returns. Dropping it instead ends the tasks at once; the disk store survives
//! that as it survives a kill.

mod error;
mod run;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::bootstrap::Keep;
use homeostat_apiserver::serve::{self, Server};
use homeostat_core::{Clock, Entropy};
use homeostat_store::{Disk, Limits, Memory, SharedStore, disk};
use homeostat_workloads::controllers;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use run::run;

/// The namespace in-process clients start in.
const DEFAULT_NAMESPACE: &str = "default";

/// How a control plane is put together.
#[derive(Clone, Debug)]
pub struct Builder {
    data_dir: Option<PathBuf>,
    listen: Option<(SocketAddr, PathBuf)>,
    has_workloads: bool,
    clock: Clock,
    entropy: Entropy,
}

/// A running control plane.
pub struct ControlPlane {
    api: ApiServer,
    store: SharedStore,
    url: Option<String>,
    kubeconfig: Option<PathBuf>,
    tasks: JoinSet<Result<(), Error>>,
    stop: CancellationToken,
}

impl Builder {
    /// Keeps everything in this folder: durable before acknowledged. Without it, everything is in memory.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Serves over TLS at this address (port 0: any free one) and writes a kubeconfig, readable by its owner only.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr, kubeconfig: impl Into<PathBuf>) -> Self {
        self.listen = Some((address, kubeconfig.into()));
        self
    }

    /// Runs the controllers of Deployments, Jobs and their like, so that Pods are made (no unless told). Whether
    /// anything runs the Pods is another matter.
    #[must_use]
    pub fn workloads(mut self, has_workloads: bool) -> Self {
        self.has_workloads = has_workloads;
        self
    }

    /// Time and chance other than the machine's, for tests.
    #[must_use]
    pub fn time_and_chance(mut self, clock: Clock, entropy: Entropy) -> Self {
        (self.clock, self.entropy) = (clock, entropy);
        self
    }

    /// Starts it. When this returns, requests are answered.
    ///
    /// # Errors
    /// When the folder cannot be opened or the address cannot be had; the message says what to do.
    pub async fn start(self) -> Result<ControlPlane, Error> {
        // The store first: it locks the folder, before anything in it is written.
        let store = self.store()?;
        let server = self.bind()?;
        let mut builder =
            ApiServer::builder(Arc::clone(&store)).clock(self.clock).entropy(self.entropy.clone());
        let authenticator = match &server {
            Some(server) => {
                let authenticator = Arc::new(server.authenticator(Arc::clone(&store))?);
                builder = builder
                    .authenticator(Arc::clone(&authenticator))
                    .root_ca(&*server.credentials().ca_pem)
                    .address(server.local_addr());
                Some(authenticator)
            }
            None => None,
        };
        let (api, keeper) = builder.build().await?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let keeper_stop = stop.clone();
        tasks.spawn(async move {
            keeper.run(keeper_stop).await;
            Ok(())
        });
        let mut plane = ControlPlane { api, store, url: None, kubeconfig: None, tasks, stop };
        if let (Some(server), Some(authenticator)) = (server, authenticator) {
            plane.url = Some(server.url());
            plane.kubeconfig = Some(server.kubeconfig().to_owned());
            let served = server.run(plane.api.clone(), authenticator, plane.stop.clone());
            plane.tasks.spawn(async move { Ok(served.await?) });
        }
        if self.has_workloads {
            let operator = controllers::operator().time_and_chance(self.clock, self.entropy);
            let (client, stop) = (plane.client(), plane.stop.clone());
            plane.tasks.spawn(async move { Ok(operator.run_on(client, stop).await?) });
        }
        Ok(plane)
    }

    fn store(&self) -> Result<SharedStore, homeostat_store::Error> {
        Ok(match &self.data_dir {
            None => Arc::new(Memory::with(self.clock, Limits::default())),
            Some(folder) => {
                let config = disk::Config { clock: self.clock, ..disk::Config::default() };
                Arc::new(Disk::open(folder.join("store"), &config)?)
            }
        })
    }

    fn bind(&self) -> Result<Option<Server>, serve::Error> {
        let Some((listen, kubeconfig)) = &self.listen else { return Ok(None) };
        let keep = self.data_dir.as_ref().map_or(Keep::Memory, |folder| Keep::Folder(folder.join("pki")));
        let config = serve::Config {
            listen: *listen,
            keep,
            kubeconfig: kubeconfig.clone(),
            clock: self.clock,
            entropy: self.entropy.clone(),
        };
        Server::bind(config).map(Some)
    }
}

impl ControlPlane {
    /// A control plane in memory, without a socket, until told otherwise.
    pub fn builder() -> Builder {
        Builder {
            data_dir: None,
            listen: None,
            has_workloads: false,
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }

    /// A client that calls the API in this process, as its administrator.
    pub fn client(&self) -> Client {
        Client::new(self.api.clone(), DEFAULT_NAMESPACE)
    }

    /// The API itself, a tower service.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Where it is served; `None` without a socket.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The kubeconfig it wrote; `None` without a socket.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Waits until a part of it ends by itself, which only a failure makes it do.
    ///
    /// # Errors
    /// What failed.
    pub async fn failed(&mut self) -> Result<(), Error> {
        match self.tasks.join_next().await {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => Err(Error::Panicked(panic.to_string())),
            None => Ok(()),
        }
    }

    /// Ends open watches, finishes what is in flight, closes the store.
    ///
    /// # Errors
    /// What failed on the way; the rest is stopped all the same.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        let mut outcome = Ok(());
        while let Some(task) = self.tasks.join_next().await {
            let ended = task.map_err(|panic| Error::Panicked(panic.to_string()));
            outcome = outcome.and(ended.and_then(std::convert::identity));
        }
        self.store.close().await;
        outcome
    }
}
