//! A node that runs Pods as processes of this machine.
//!
//! Controllers on our runtime, which know a `kube::Client` and nothing else: `schedule` binds Pods to the node, `pod` runs
//! them, `sweep` ends what has no Pod any more, `storage` gives folders to claims of volumes. The processes belong to the `keeper`, a process of its own, so that
//! they, their logs and their exit codes outlive a server that is killed; `link` is the connection to it. `register` keeps
//! the Node object, [`logs`] reads what containers said, `farewell` says what became of the Pods when the node stops.
//!
//! **Invariant:** a process runs only for a Pod that is bound to this node; who may not create Pods cannot run commands.

mod error;
mod farewell;
mod grpc;
mod http;
mod keeper;
mod link;
pub mod logs;
mod namespaces;
mod options;
mod pod;
mod probe;
mod quantity;
mod register;
mod remove;
mod schedule;
mod storage;
mod sweep;
mod tokens;

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use homeostat_core::Clock;
use homeostat_runtime::{CancellationToken, Operator, Target};
use kube::Client;
use tokio::sync::mpsc;

pub use error::Error;
pub use keeper::{act_if_asked, end_leftovers};
pub use logs::Logs;
pub use options::{NodeOptions, RestartBackoff};
pub use remove::remove_folder;

use farewell::Farewell;
use keeper::layout::Layout;
use link::{Link, Recipe, Wire};
use probe::Prober;
use register::Registration;
use tokens::Tokens;

/// Triggers on their way to the queue, which drops doubles: a burst waits in the keeper's socket.
const TRIGGERS_MAX: usize = 1024;
/// What processes get when the node stops well: a person waits at the terminal.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Field manager and source of events.
const NAME: &str = "node.homeostat.dev";

/// What the node's controllers share.
struct Ground {
    options: NodeOptions,
    layout: Layout,
    link: Arc<Link>,
    prober: Prober,
    tokens: Tokens,
    has_namespaces: bool,
}

/// A node, connected to its keeper and ready to run.
#[must_use = "a node does nothing until it runs"]
pub struct Node {
    client: Client,
    options: NodeOptions,
    layout: Layout,
    link: Arc<Link>,
    wire: Wire,
    triggers: mpsc::Receiver<Target>,
    prober: Prober,
    registration: Registration,
}

impl Node {
    /// Connects to the keeper of the node's folder, or starts one, and makes the Node object. Processes of an earlier node
    /// are found again.
    ///
    /// # Errors
    /// When the folder cannot be used or no keeper can be started.
    pub async fn connect(client: Client, options: NodeOptions, clock: Clock) -> Result<Self, Error> {
        let folder = options.folder.clone().unwrap_or_else(|| Path::new(".homeostat").join("node"));
        let layout = prepare(&folder).map_err(|source| Error::Folder { folder, source })?;
        let program = match &options.keeper {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|error| Error::Keeper(error.to_string()))?,
        };
        let recipe = Recipe {
            program,
            layout: layout.clone(),
            outlives_server: options.outlives_server,
            is_ephemeral: options.is_ephemeral,
        };
        let (sender, triggers) = mpsc::channel(TRIGGERS_MAX);
        let (link, wire) = Link::connect(recipe, sender.clone()).await?;
        let prober = Prober::new(Arc::clone(&link), sender);
        let registration = Registration { client: client.clone(), name: options.name.clone(), clock };
        registration.begin().await;
        storage::offer(&client).await;
        Ok(Self { client, options, layout, link, wire, triggers, prober, registration })
    }

    /// What its containers said.
    pub fn logs(&self) -> Logs {
        Logs { layout: self.layout.clone(), link: Arc::clone(&self.link) }
    }

    /// Runs until `stop`, then ends every process. Dropped, it leaves the processes to their keeper, which waits for the
    /// next node as long as the options say.
    ///
    /// # Errors
    /// When the controllers cannot run.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut wire = self.wire;
        let has_namespaces = self.options.uses_namespaces
            && tokio::select! {
                is_possible = namespaces::are_possible(&self.link, &self.layout) => is_possible,
                () = wire.run() => false,
            };
        let farewell = Farewell {
            client: self.client.clone(),
            node: self.options.name.clone(),
            layout: self.layout.clone(),
            backoff: self.options.backoff,
            clock: self.registration.clock,
        };
        let ground = Ground {
            has_namespaces,
            options: self.options,
            layout: self.layout,
            link: self.link,
            prober: self.prober,
            tokens: Tokens::default(),
        };
        let operator = Operator::new(NAME)
            .control(schedule::control(&ground.options.name))
            .control(pod::control(stream_of(self.triggers)))
            .control(sweep::control(&ground.options.name));
        let operator = storage::controls().into_iter().fold(operator, Operator::control).state(ground);
        let ended = tokio::select! {
            ended = operator.run_on(self.client, stop) => ended,
            () = wire.run() => Ok(()),
            () = self.registration.run() => Ok(()),
        };
        wire.end(STOP_GRACE).await;
        farewell.say().await;
        // The very last word: whoever reads it counts on nothing running here.
        self.registration.leave().await;
        Ok(ended?)
    }
}

/// Makes the folder, for its owner only.
fn prepare(folder: &Path) -> std::io::Result<Layout> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let layout = Layout::new(fs::canonicalize(folder)?);
    fs::create_dir_all(layout.pods())?;
    Ok(layout)
}

fn stream_of(receiver: mpsc::Receiver<Target>) -> impl Stream<Item = Target> + Send + 'static {
    stream::unfold(
        receiver,
        |mut receiver| async move { receiver.recv().await.map(|target| (target, receiver)) },
    )
}
