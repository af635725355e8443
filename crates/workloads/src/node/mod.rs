//! Implements a node that runs Pods as processes on this machine.
//!
//! It consists of controllers on the runtime, which see only a `kube::Client`: `scheduler` binds Pods to the node,
//! `pod` runs them, `pod_cleanup` stops processes whose Pod is gone, and `storage` gives PersistentVolumeClaims
//! folders. The processes belong to the `supervisor`, which is a separate process, so that they, their logs and their
//! exit codes outlive a server that is killed. `supervisor_client` connects the node to it. `node_registration`
//! maintains the Node object, [`logs`] reads the output of containers, [`streams`] connects to them, and `final_status`
//! writes the last status of Pods when the node stops.
//!
//! **Invariant:** a process runs only for a Pod that is bound to this node. A client that may not create Pods cannot
//! run commands.

mod container_http;
mod error;
mod final_status;
mod grpc_health;
mod id_blocks;
mod linux_namespaces;
pub mod logs;
mod node_registration;
mod options;
mod pod;
mod pod_addresses;
mod pod_cleanup;
mod pod_listeners;
mod probe;
mod remove_folder;
mod scheduler;
mod service_account_tokens;
mod storage;
pub mod streams;
mod supervisor;
mod supervisor_client;
mod user_accounts;

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, Stream};
use homeostat_core::Clock;
use homeostat_runtime::{CancellationToken, ObjectName, Operator};
use kube::Client;
use tokio::sync::mpsc;

pub use error::Error;
pub use logs::Logs;
pub use options::{NodeOptions, RestartBackoff};
pub use remove_folder::remove_folder;
pub use streams::Streams;
pub use supervisor::{end_leftover_processes, run_node_helper};

use final_status::FinalStatusWriter;
use id_blocks::IdBlocks;
use linux_namespaces::AvailableNamespaces;
use node_registration::NodeRegistrations;
use pod::IdentityPolicy;
use pod_addresses::PodAddresses;
use probe::Prober;
use service_account_tokens::TokenCache;
use supervisor::node_layout::NodeLayout;
use supervisor_client::{SupervisorClient, SupervisorCommand, SupervisorConnection};
use user_accounts::UserAccount;

/// How many triggers may be in flight to the queue, which drops duplicates; a larger burst waits in the supervisor's
/// socket.
const TRIGGERS_MAX: usize = 1024;
/// How long processes have to exit when the node is stopped: a user is waiting at the terminal.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The field manager, and the source of events.
const NAME: &str = "node.homeostat.dev";

/// The state that the node's controllers share.
struct NodeShared {
    options: NodeOptions,
    layout: NodeLayout,
    supervisor: Arc<SupervisorClient>,
    prober: Prober,
    tokens: TokenCache,
    addresses: PodAddresses,
    /// Whether each container has its own mount namespace.
    has_namespaces: bool,
    /// Which users containers can run as.
    identity_policy: IdentityPolicy,
    /// Blocks of IDs for Pods; `None` if all Pods run as one user.
    blocks: Option<IdBlocks>,
}

impl NodeShared {
    /// Returns the paths that no container sees in its mount namespace.
    fn hidden(&self) -> Vec<PathBuf> {
        let named =
            self.options.hidden.iter().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        let mut hidden: Vec<PathBuf> = named.chain([self.layout.root().to_owned()]).collect();
        hidden.sort();
        // Anything inside a hidden folder is hidden with it and could no longer be found.
        hidden.dedup_by(|path, folder| path.starts_with(folder));
        hidden
    }
}

/// A node, connected to its supervisor and ready to run.
#[must_use = "a node does nothing until it runs"]
pub struct Node {
    client: Client,
    options: NodeOptions,
    layout: NodeLayout,
    supervisor: Arc<SupervisorClient>,
    connection: SupervisorConnection,
    triggers: mpsc::Receiver<ObjectName>,
    prober: Prober,
    registrations: NodeRegistrations,
    clock: Clock,
    account: Option<UserAccount>,
}

impl Node {
    /// Connects to the supervisor of the node's folder, or starts one, and creates the Node object. It finds an earlier
    /// node's processes again.
    ///
    /// # Errors
    /// Fails if the folder cannot be used, no supervisor can be started, or Pods cannot run as the named user.
    pub fn connect(
        client: Client,
        options: NodeOptions,
        clock: Clock,
    ) -> BoxFuture<'static, Result<Self, Error>> {
        // The future is boxed here, so that it is compiled in this crate and not in every program that has a node.
        Box::pin(Self::connect_node(client, options, clock))
    }

    async fn connect_node(client: Client, options: NodeOptions, clock: Clock) -> Result<Self, Error> {
        let account = options.account.as_deref().map(find_account).transpose()?;
        let folder = options.folder.clone().unwrap_or_else(|| Path::new(".homeostat").join("node"));
        let layout = make_folder(&folder).map_err(|source| Error::Folder { folder, source })?;
        let program = match &options.supervisor {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|error| Error::Supervisor(error.to_string()))?,
        };
        let supervisor_command = SupervisorCommand {
            program,
            layout: layout.clone(),
            outlives_server: options.outlives_server,
            is_ephemeral: options.is_ephemeral,
        };
        let (sender, triggers) = mpsc::channel(TRIGGERS_MAX);
        let (supervisor, connection) = SupervisorClient::connect(supervisor_command, sender.clone()).await?;
        let prober = Prober::new(Arc::clone(&supervisor), sender);
        let registrations = NodeRegistrations::new(&client, options.names(), clock);
        registrations.register().await;
        storage::create_class(&client).await;
        Ok(Self {
            client,
            options,
            layout,
            supervisor,
            connection,
            triggers,
            prober,
            registrations,
            clock,
            account,
        })
    }

    /// Returns a reader for its containers' logs.
    pub fn logs(&self) -> Logs {
        Logs { layout: self.layout.clone(), supervisor: Arc::clone(&self.supervisor) }
    }

    /// Returns the streams that connect to its containers.
    pub fn streams(&self) -> Streams {
        Streams { layout: self.layout.clone(), supervisor: Arc::clone(&self.supervisor) }
    }

    /// Runs until `stop`, then stops every process. If it is dropped, the processes stay with their supervisor, which
    /// waits for the next node for as long as the options say.
    ///
    /// # Errors
    /// Fails if the controllers fail.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.run_until(stop))
    }

    async fn run_until(self, stop: CancellationToken) -> Result<(), Error> {
        let mut connection = self.connection;
        let namespaces = tokio::select! {
            found = linux_namespaces::detect(&self.supervisor, &self.layout), if self.options.uses_namespaces => found,
            () = connection.run(), if self.options.uses_namespaces => AvailableNamespaces::default(),
            else => AvailableNamespaces::default(),
        };
        let is_root = rustix::process::geteuid().is_root();
        set_modes(&self.layout, is_root && !namespaces.has_mounts)
            .map_err(|source| Error::Folder { folder: self.layout.root().to_owned(), source })?;
        let final_status = FinalStatusWriter {
            client: self.client.clone(),
            nodes: self.options.names(),
            layout: self.layout.clone(),
            backoff: self.options.backoff,
            clock: self.clock,
        };
        let shared = NodeShared {
            has_namespaces: namespaces.has_mounts,
            identity_policy: IdentityPolicy::new(self.account, namespaces.has_users),
            blocks: is_root.then(|| IdBlocks::open(&self.layout)),
            options: self.options,
            layout: self.layout,
            supervisor: self.supervisor,
            prober: self.prober,
            tokens: TokenCache::default(),
            addresses: PodAddresses::default(),
        };
        let operator = Operator::new(NAME)
            .control(scheduler::control(shared.options.names()))
            .control(pod::control(stream_of(self.triggers)))
            .control(pod_cleanup::control(&shared.options));
        let operator = storage::controls().into_iter().fold(operator, Operator::control).state(shared);
        let ended = tokio::select! {
            ended = operator.run_on(self.client, stop) => ended,
            () = connection.run() => Ok(()),
            () = self.registrations.run() => Ok(()),
        };
        connection.stop_supervisor(STOP_GRACE).await;
        final_status.write_all().await;
        // This is written last, because its readers rely on nothing running here anymore.
        self.registrations.mark_stopped().await;
        Ok(ended?)
    }
}

/// Creates the folder, accessible only to its owner.
fn make_folder(folder: &Path) -> std::io::Result<NodeLayout> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let layout = NodeLayout::new(fs::canonicalize(folder)?);
    fs::create_dir_all(layout.pods())?;
    Ok(layout)
}

/// Lets other users traverse the node's folders only if their containers have no other way to reach their own folders.
fn set_modes(layout: &NodeLayout, is_passable: bool) -> std::io::Result<()> {
    let mode = if is_passable { 0o711 } else { 0o700 };
    fs::create_dir_all(layout.claims())?;
    for folder in [layout.root().to_owned(), layout.pods(), layout.claims()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Finds the account that Pods should run as, if this process can use it.
fn find_account(name: &str) -> Result<UserAccount, Error> {
    let refused = |why: String| Error::Account { name: name.to_owned(), why };
    let own = UserAccount::of_this_process();
    if own.user == 0 || own.name != name && own.user.to_string() != name {
        let found = UserAccount::find(name).map_err(|error| refused(error.to_string()))?;
        if own.user != 0 && found.user != own.user {
            return Err(refused(format!(
                "only root can run Pods as another user, and the server runs as {0}: name {0}, or leave the option out",
                own.name
            )));
        }
        return Ok(found);
    }
    Ok(own)
}

fn stream_of(receiver: mpsc::Receiver<ObjectName>) -> impl Stream<Item = ObjectName> + Send + 'static {
    stream::unfold(
        receiver,
        |mut receiver| async move { receiver.recv().await.map(|target| (target, receiver)) },
    )
}
