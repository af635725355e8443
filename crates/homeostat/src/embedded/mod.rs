//! The embedded control plane consists of a store, an API server with its background tasks and, on request, a TLS
//! socket, the workload controllers and a node, assembled and owned by one value.
//!
//! **Invariant:** [`ControlPlane::stop`] awaits every task, in the order node, clients, background tasks, store, so
//! that every acknowledged write is on disk when it returns. Dropping it instead aborts the tasks, which the disk store
//! survives just as it survives a kill.

#[cfg(feature = "console")]
mod announced_operators;
#[cfg(feature = "console")]
mod console;
#[cfg(not(feature = "console"))]
#[path = "no_console.rs"]
mod console;
mod data_folder_backup;
mod error;
mod journals;
mod logs;
#[cfg(feature = "console")]
mod operator_console;
#[cfg(not(feature = "console"))]
#[path = "no_operator_console.rs"]
mod operator_console;
mod run;
mod stand_in;
mod streams;
mod unfinished_restore;
mod user;
mod workloads;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_apiserver::auth::{Authenticator, Identity};
use homeostat_apiserver::serve::{self, CredentialStorage, ListeningSocket, Server};
use homeostat_apiserver::{ApiServer, data_migrations, server};
use homeostat_core::{Clock, Entropy};
use homeostat_runtime::{Journal, Operator};
use homeostat_store::disk::files::Folder;
use homeostat_store::{Disk, Limits, Memory, SharedStore, disk};
use homeostat_workloads::controllers;
use homeostat_workloads::node::Node;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use console::{BoundConsole, ConsoleOperators};
pub use data_folder_backup::{BackupSummary, backup, restore};
pub use error::Error;
pub use homeostat_apiserver::admission::{AdmissionConfig, PluginNameError};
pub use homeostat_apiserver::audit::{AuditLog, AuditPolicy, RotationLimits};
pub use homeostat_apiserver::auth::StaticTokens;
pub use homeostat_apiserver::background::BackgroundTasks;
pub use homeostat_apiserver::serve::{ExternalCredentials, ServingFiles};
pub use homeostat_workloads::controllers::operator as workload_controllers;
pub use homeostat_workloads::node::{
    NodeOptions, RestartBackoff, end_leftover_processes, remove_folder, run_node_helper,
};
#[cfg(feature = "console")]
pub use operator_console::add_console;
pub use run::run;
pub use user::{NewUser, add_user};

/// The store's folder inside the data folder.
const STORE_FOLDER: &str = "store";
/// The folder for keys and certificates inside the data folder.
const PKI_FOLDER: &str = "pki";

/// The user of the workload controllers, named as in Kubernetes.
const CONTROLLERS_USER: &str = "system:kube-controller-manager";

/// The user of the node in this process.
const NODE_USER: &str = "system:homeostat:node";

/// The namespace of in-process clients.
const DEFAULT_NAMESPACE: &str = "default";

/// Configures a control plane.
#[derive(Clone, Debug)]
pub struct Builder {
    data_dir: Option<PathBuf>,
    listen: Option<(SocketAddr, PathBuf)>,
    has_workloads: bool,
    clock: Clock,
    entropy: Entropy,
    node: Option<NodeOptions>,
    console: Option<SocketAddr>,
    tokens: StaticTokens,
    admission: Option<AdmissionConfig>,
    audit: Option<Arc<AuditLog>>,
    stand_in: stand_in::StandInOptions,
}

/// A running control plane.
pub struct ControlPlane {
    api: ApiServer,
    store: SharedStore,
    url: Option<String>,
    kubeconfig: Option<PathBuf>,
    console_url: Option<String>,
    console: Option<ConsoleOperators>,
    /// The tasks in this process that use the API; they are stopped first.
    users: JoinSet<Result<(), Error>>,
    users_stop: CancellationToken,
    tasks: JoinSet<Result<(), Error>>,
    stop: CancellationToken,
}

impl Builder {
    /// Stores everything in this folder; a write is durable before it is acknowledged. Without a folder, everything is
    /// in memory.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Serves over TLS at this address (port 0 means any free port) and writes a kubeconfig that only its owner can
    /// read.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr, kubeconfig: impl Into<PathBuf>) -> Self {
        self.listen = Some((address, kubeconfig.into()));
        self
    }

    /// Runs the controllers for Deployments, Jobs and other workloads, so that Pods are created (off by default). They
    /// do not run the Pods.
    #[must_use]
    pub fn workloads(mut self, has_workloads: bool) -> Self {
        self.has_workloads = has_workloads;
        self
    }

    /// Sets the admission plugins; the default is the same as in Kubernetes. Without an address to listen on, a Pod's
    /// token would be of no use, so ServiceAccount is left out.
    #[must_use]
    pub fn admission(mut self, plugins: AdmissionConfig) -> Self {
        self.admission = Some(plugins);
        self
    }

    /// Writes an audit log; none by default.
    #[must_use]
    pub fn audit(mut self, log: AuditLog) -> Self {
        self.audit = Some(Arc::new(log));
        self
    }

    /// Also accepts these tokens, each as its user. A file that they were loaded from is followed.
    #[must_use]
    pub fn tokens(mut self, tokens: StaticTokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Replaces the machine's time and randomness, for tests.
    #[must_use]
    pub fn time_and_chance(mut self, clock: Clock, entropy: Entropy) -> Self {
        (self.clock, self.entropy) = (clock, entropy);
        self
    }

    /// Also runs Pods, as processes on this machine: anyone who may create Pods can run commands here. Without a folder
    /// of its own, the node uses the data folder, or a temporary one that is removed with it.
    ///
    /// The node starts this program again as the supervisor of its processes, so `main` must begin with
    /// [`run_node_helper`].
    #[must_use]
    pub fn node(mut self, options: NodeOptions) -> Self {
        self.node = Some(options);
        self
    }

    /// Also serves the web console at this address of the machine (port 0 means any free port), over plain HTTP.
    /// [`ControlPlane::console_url`] returns its address and token. Requires the feature `console`.
    #[must_use]
    pub fn console(mut self, address: SocketAddr) -> Self {
        self.console = Some(address);
        self
    }

    /// Starts the control plane. Once this returns, it serves requests.
    ///
    /// # Errors
    /// Fails if the folder cannot be opened or the address cannot be used; the message says what to do.
    pub fn start(self) -> BoxFuture<'static, Result<ControlPlane, Error>> {
        // The future is boxed here, so that it is compiled in this crate and not in every program that starts a control
        // plane.
        Box::pin(self.assemble())
    }

    async fn assemble(self) -> Result<ControlPlane, Error> {
        // The port comes first, so that a start that fails for it leaves nothing behind. Then the store, which locks the
        // folder before anything else in it is written.
        let socket = self.listen.as_ref().map(|(address, _)| ListeningSocket::bind(*address)).transpose()?;
        let store = self.store()?;
        let server = self.server_on(socket)?;
        let mut builder = self.api_builder(&store, server.is_some());
        let authenticator = match &server {
            Some(server) => {
                let authenticator = self.authenticator(server, &store)?;
                builder = builder
                    .authenticator(Arc::clone(&authenticator))
                    .authority(server.authority())
                    .root_ca(server.root_ca())
                    .address(server.advertised());
                Some(authenticator)
            }
            None => None,
        };
        let (api, background) = builder.build().await?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let background_stop = stop.clone();
        tasks.spawn(async move {
            background.run(background_stop).await;
            Ok(())
        });
        let (users, users_stop) = (JoinSet::new(), CancellationToken::new());
        let mut plane = ControlPlane {
            api,
            store,
            url: None,
            kubeconfig: None,
            console_url: None,
            console: None,
            users,
            users_stop,
            tasks,
            stop,
        };
        if let Some(address) = self.console {
            let (api, clock) = (plane.api.clone(), self.clock);
            plane.start_console(
                BoundConsole::bind(address, api, authenticator.clone(), clock, &self.entropy).await?,
            );
        }
        if let Some(mut options) = self.node_options() {
            if let Some(server) = &server {
                options = options.server(server.reached_at());
            }
            plane.start_node(options, self.clock).await?;
        }
        if let (Some(server), Some(authenticator)) = (server, authenticator) {
            plane.url = Some(server.url());
            plane.kubeconfig =
                Some(server.kubeconfig().to_owned()).filter(|path| !path.as_os_str().is_empty());
            let socket = server.run(plane.api.clone(), authenticator, plane.stop.clone());
            plane.tasks.spawn(async move { Ok(socket.await?) });
        }
        if self.has_workloads {
            let operator = controllers::operator().time_and_chance(self.clock, self.entropy);
            plane.serve_journal(&operator);
            plane.show_on_console(&operator.journal());
            let (client, stop) = (plane.client_as(CONTROLLERS_USER), plane.users_stop.clone());
            plane.users.spawn(workloads::run(operator, client, Arc::clone(&plane.store), stop));
        }
        Ok(plane)
    }

    /// Returns the builder of the API server, without its socket settings.
    fn api_builder(&self, store: &SharedStore, has_socket: bool) -> server::Builder {
        let admission = self.admission.clone().unwrap_or_else(|| {
            if has_socket { AdmissionConfig::default() } else { AdmissionConfig::without_service_accounts() }
        });
        ApiServer::builder(Arc::clone(store))
            .clock(self.clock)
            .entropy(self.entropy.clone())
            .background(self.stand_in.background)
            .allow_everything(self.stand_in.allows_everything)
            .audit(self.audit.clone())
            .admission(admission)
    }

    fn authenticator(
        &self,
        server: &Server,
        store: &SharedStore,
    ) -> Result<Arc<Authenticator>, serve::Error> {
        let authenticator = server.authenticator(Arc::clone(store))?;
        Ok(Arc::new(if self.stand_in.refuses_anonymous {
            authenticator.without_anonymous()
        } else {
            authenticator
        }))
    }

    /// Returns the node's options, with a folder.
    fn node_options(&self) -> Option<NodeOptions> {
        /// The number of random letters in a temporary name, so that it cannot be guessed.
        const SUFFIX_LETTERS: usize = 10;
        let mut options = self.node.clone()?;
        // Pods must not read the server's data: it contains everyone's secrets.
        if let Some(folder) = &self.data_dir {
            options = options.hide(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()));
        }
        if let Some((_, kubeconfig)) = &self.listen {
            options = options.hide(std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.clone()));
        }
        Some(match (options.given_folder(), &self.data_dir) {
            (Some(_), _) => options,
            (None, Some(folder)) => options.folder(folder.join("node")),
            (None, None) => {
                let name = format!("homeostat-node-{}", self.entropy.suffix(SUFFIX_LETTERS));
                options.folder(std::env::temp_dir().join(name)).ephemeral()
            }
        })
    }

    fn store(&self) -> Result<SharedStore, Error> {
        Ok(match &self.data_dir {
            None => Arc::new(Memory::with(self.clock, Limits::default())),
            Some(folder) => {
                let config = disk::Config {
                    clock: self.clock,
                    contents: data_migrations::CONTENTS,
                    ..disk::Config::default()
                };
                let files = Folder::open(&folder.join(STORE_FOLDER))?;
                unfinished_restore::check_restored(folder)?;
                let files = if self.stand_in.is_unsynced { files.without_sync() } else { files };
                Arc::new(Disk::open_on(Arc::new(files), &config)?)
            }
        })
    }

    fn server_on(&self, socket: Option<ListeningSocket>) -> Result<Option<Server>, serve::Error> {
        let (Some(socket), Some((listen, kubeconfig))) = (socket, &self.listen) else { return Ok(None) };
        let storage = match (&self.stand_in.credentials, &self.data_dir) {
            (Some(given), _) => CredentialStorage::Given(given.clone()),
            (None, Some(folder)) => CredentialStorage::Folder(folder.join(PKI_FOLDER)),
            (None, None) => CredentialStorage::Memory,
        };
        let config = serve::Config {
            listen: *listen,
            storage,
            kubeconfig: kubeconfig.clone(),
            clock: self.clock,
            entropy: self.entropy.clone(),
        };
        Server::on(socket, config).map(|server| Some(server.with_tokens(self.tokens.clone())))
    }
}

impl ControlPlane {
    /// Returns a builder for a control plane in memory, without a socket.
    pub fn builder() -> Builder {
        Builder {
            data_dir: None,
            listen: None,
            has_workloads: false,
            clock: Clock::system(),
            entropy: Entropy::system(),
            node: None,
            console: None,
            tokens: StaticTokens::default(),
            admission: None,
            audit: None,
            stand_in: stand_in::StandInOptions::default(),
        }
    }

    async fn start_node(&mut self, options: NodeOptions, clock: Clock) -> Result<(), Error> {
        let nodes = options.names();
        let node = Node::connect(self.client_as(NODE_USER), options, clock).await?;
        self.api.serve_logs(Arc::new(logs::NodeLogs { nodes: nodes.clone(), logs: node.logs() }));
        self.api.serve_streams(Arc::new(streams::NodeStreams { nodes, streams: node.streams() }));
        let stop = self.users_stop.clone();
        self.users.spawn(async move { Ok(node.run(stop).await?) });
        Ok(())
    }

    /// Makes the journal of an operator in this process available to `why`. Call this before the operator runs.
    pub fn serve_journal(&self, operator: &Operator) {
        let journal =
            journals::LocalJournal { operator: operator.name().to_owned(), journal: operator.journal() };
        self.api.serve_journal(Arc::new(journal));
    }

    fn start_console(&mut self, console: BoundConsole) {
        self.console_url = Some(console.url().to_owned());
        self.console = Some(console.operators());
        let stop = self.users_stop.clone();
        self.users.spawn(async move {
            console.run(stop).await;
            Ok(())
        });
    }

    /// Shows the activity of the operator with this journal on the console, if there is one. Call this before the
    /// operator runs.
    pub fn show_on_console(&self, journal: &Journal) {
        if let Some(console) = &self.console {
            console.show(journal.clone());
        }
    }

    /// Returns the address of the web console, including its token; `None` without a console. Anyone who has it can
    /// read everything here except the values of Secrets, until this process exits.
    pub fn console_url(&self) -> Option<&str> {
        self.console_url.as_deref()
    }

    /// Returns a client that calls the API in this process, as the administrator.
    pub fn client(&self) -> Client {
        Client::new(self.api.clone(), DEFAULT_NAMESPACE)
    }

    /// Returns a client with all permissions for a part of this process, under its own name, so that `why`, webhooks
    /// and managed fields distinguish its writes from the administrator's.
    fn client_as(&self, name: &str) -> Client {
        let identity = Identity { name: name.to_owned(), ..Identity::admin() };
        Client::new(self.api.acting_as(identity), DEFAULT_NAMESPACE)
    }

    /// Returns the API itself, a tower service.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Returns the URL at which it is served; `None` without a socket.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Returns the path of the kubeconfig it wrote; `None` without a socket.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Waits until a part of it stops on its own, which happens only if it fails.
    ///
    /// # Errors
    /// Returns the failure.
    pub fn failed(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.first_failure())
    }

    async fn first_failure(&mut self) -> Result<(), Error> {
        let ended = tokio::select! {
            Some(ended) = self.tasks.join_next() => ended,
            Some(ended) = self.users.join_next() => ended,
            else => return Ok(()),
        };
        ended.unwrap_or_else(|panic| Err(Error::Panicked(panic.to_string())))
    }

    /// Stops the node's processes and open watches, finishes pending requests, and closes the store.
    ///
    /// # Errors
    /// Returns the first failure; the remaining parts are stopped anyway.
    pub fn stop(self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.end())
    }

    async fn end(mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        self.users_stop.cancel();
        while let Some(user) = self.users.join_next().await {
            let ended = user.map_err(|panic| Error::Panicked(panic.to_string()));
            outcome = outcome.and(ended.flatten());
        }
        self.stop.cancel();
        while let Some(task) = self.tasks.join_next().await {
            let ended = task.map_err(|panic| Error::Panicked(panic.to_string()));
            outcome = outcome.and(ended.and_then(std::convert::identity));
        }
        self.store.close().await;
        outcome
    }
}
