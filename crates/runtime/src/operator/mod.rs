//! Builds an operator, which is a set of controllers that run together. `run` defines the order in which they start and
//! stop.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_core::journal::Source;
use homeostat_core::{Clock, Entropy};
use kube::{Client, CustomResourceExt};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

mod cluster_connection;
mod definitions;
mod launch;
mod manifests;
mod rbac_manifests;
mod run;
mod tasks;

use cluster_connection::{ConnectedCluster, connect};
use launch::{Arguments, ClusterChoice, CommandLine, LaunchCommand, help};
use manifests::{HOME_NAMESPACE, ManifestInput, as_yaml, manifests};

use crate::admin::{Admin, AdminPages, AdminPagesContext, MakeAdminPages, client_without_credentials};
use crate::controller::BuiltController;
use crate::election::{Election, TERM};
use crate::error::{BoxError, Error};
use crate::fault;
use crate::handlers::{ActivityKind, OperatorContext, OperatorHandlers};
use crate::journal::Journal;
use crate::kind::definition::{Definition, definition_of};
use crate::plan_command::PlanOptions;
use crate::planned_calls::PlannedCalls;
use crate::rights::required_rules::{Rule, describe_reconciled_kinds};
use crate::shared::user_values::UserValues;
use crate::watch::Scope;
use crate::why::WhyClient;

/// Provides the client if no cluster is configured.
pub type Connect = Box<dyn FnOnce() -> BoxFuture<'static, Result<Client, BoxError>> + Send>;

/// Implements the `plan` command: computes what a change would do to the client's cluster, and prints it.
pub type Planner =
    Box<dyn FnOnce(Operator, Client, PlanOptions) -> BoxFuture<'static, Result<(), Error>> + Send>;

/// The message that a program which cannot plan prints for `plan`.
const NO_PLANNER: &str = "this program cannot plan: that needs a control plane in memory. Build it with the feature \
                          `embedded` of the crate `homeostat` (on by default), and call `homeostat::run(operator)` in main";

/// The kubeconfig of a control plane that was started in this folder.
const LOCAL_KUBECONFIG: &str = ".homeostat/kubeconfig";

/// Connects to the cluster given by this kubeconfig, by `KUBECONFIG` or by the Pod, or to the control plane of this
/// folder, to run `why`.
///
/// # Errors
/// Fails if there is none, or if the file is broken.
pub async fn connect_why_client(kubeconfig: Option<&str>) -> Result<WhyClient, Error> {
    let connected = connect_for_reading(kubeconfig).await?;
    Ok(WhyClient::new(connected.client, connected.token))
}

/// Connects to the same cluster as [`connect_why_client`], to run `plan`.
///
/// # Errors
/// Fails if there is none, or if the file is broken.
pub async fn connect_client(kubeconfig: Option<&str>) -> Result<Client, Error> {
    Ok(connect_for_reading(kubeconfig).await?.client)
}

async fn connect_for_reading(kubeconfig: Option<&str>) -> Result<ConnectedCluster, Error> {
    let cluster = kubeconfig.map_or(ClusterChoice::Any, |file| ClusterChoice::Of(file.to_owned()));
    if let Some(connected) = connect(&cluster).await? {
        return Ok(connected);
    }
    let is_there = std::path::Path::new(LOCAL_KUBECONFIG).exists();
    let local = if is_there { connect(&ClusterChoice::Of(LOCAL_KUBECONFIG.to_owned())).await? } else { None };
    local.ok_or_else(|| {
        Error::NoCluster(format!(
            "give --kubeconfig FILE, set KUBECONFIG, or go to a folder with {LOCAL_KUBECONFIG}"
        ))
    })
}

/// How long running reconciles may take after a stop: less than the 30 s after which Kubernetes kills a Pod.
const GRACE: Duration = Duration::from_secs(25);

/// A set of controllers that run together.
#[must_use = "an operator does nothing until it runs"]
pub struct Operator {
    pub(crate) name: Source,
    pub(crate) scope: Scope,
    pub(crate) controls: Vec<BuiltController>,
    pub(crate) definitions: Vec<Arc<Definition>>,
    pub(crate) states: UserValues,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) journal: Journal,
    pub(crate) grace: Duration,
    pub(crate) admin: Option<Admin>,
    pub(crate) admin_pages: Option<MakeAdminPages>,
    /// A client without credentials, for viewers of these pages.
    pub(crate) viewer_client: Option<Client>,
    pub(crate) election: Election,
    pub(crate) term: Duration,
    pub(crate) activities: OperatorHandlers,
    /// Whether to ask the server at startup if the operator has the permissions that it declares.
    pub(crate) reviews_rights: bool,
    /// In a plan, records external writes instead of sending them.
    pub(crate) planned_calls: Option<PlannedCalls>,
    planner: Option<Planner>,
    arguments: Arguments,
}

impl Operator {
    /// Creates an operator with this name, which should be a domain you own (`webpage.demo.dev`): it becomes the field
    /// manager, the prefix of finalizers, the name of the Lease and the source of events.
    pub fn new(name: impl AsRef<str>) -> Self {
        let clock = Clock::system();
        Self {
            name: name.as_ref().into(),
            scope: Scope::default(),
            controls: Vec::new(),
            definitions: Vec::new(),
            states: UserValues::default(),
            clock,
            entropy: Entropy::system(),
            journal: Journal::new(clock),
            grace: GRACE,
            admin: None,
            admin_pages: None,
            viewer_client: None,
            election: Election::None,
            term: TERM,
            activities: OperatorHandlers::default(),
            reviews_rights: true,
            planned_calls: None,
            planner: None,
            arguments: Arguments::OfProcess,
        }
    }

    /// Adds a controller.
    pub fn control(mut self, control: impl Into<BuiltController>) -> Self {
        let control = control.into();
        for definition in control.0.definitions() {
            if !self.definitions.contains(definition) {
                self.definitions.push(definition.clone());
            }
        }
        self.controls.push(control);
        self
    }

    /// Installs the definition of this custom kind: it is applied at startup, if the operator is allowed to, and is
    /// part of the manifests.
    pub fn crd<K: CustomResourceExt + 'static>(mut self) -> Self {
        self.definitions.push(definition_of::<K>());
        self
    }

    /// Works only in this namespace (in all namespaces by default).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.scope.namespace = Some(namespace.into());
        self
    }

    /// Gives the reconcilers a value, which [`Context::state`](crate::Context::state) returns by its type.
    pub fn state<S: Send + Sync + 'static>(mut self, state: S) -> Self {
        self.states.insert(state);
        self
    }

    /// Calls `startup` before the controllers start, and again until it succeeds; a [`terminal`](crate::terminal) fault
    /// stops the operator.
    pub fn on_startup<F, Fut>(mut self, id: impl Into<String>, startup: F) -> Self
    where
        F: Fn(OperatorContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = fault::Result<()>> + Send + 'static,
    {
        self.activities.add(ActivityKind::Startup, id.into(), startup);
        self
    }

    /// Calls `shutdown` once, after the controllers have ended, within the grace period.
    pub fn on_shutdown<F, Fut>(mut self, id: impl Into<String>, shutdown: F) -> Self
    where
        F: Fn(OperatorContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = fault::Result<()>> + Send + 'static,
    {
        self.activities.add(ActivityKind::Shutdown, id.into(), shutdown);
        self
    }

    /// Calls `probe` on each request for `/healthz`, which shows its result and succeeds if all probes do.
    pub fn probe<F, Fut, R>(mut self, id: impl Into<String>, probe: F) -> Self
    where
        F: Fn(OperatorContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = fault::Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        self.activities.add(ActivityKind::Probe, id.into(), probe);
        self
    }

    /// Serves `/metrics`, `/healthz`, `/readyz` and the journal for `why` on this address. The Deployment in the
    /// manifests probes them; if this address is a loopback address, the Deployment starts the operator with `--serve`
    /// on all addresses.
    pub fn serve(self, address: SocketAddr) -> Self {
        Self { admin: Some(Admin::At(address)), ..self }
    }

    /// Like [`serve`](Self::serve), on a listener that is already bound; use it for port 0, whose actual number only
    /// the listener knows.
    pub fn serve_on(self, listener: TcpListener) -> Self {
        Self { admin: Some(Admin::On(listener)), ..self }
    }

    /// Adds pages to the admin server. They are served at the same address, and only for a cluster that was given by
    /// `--kubeconfig`, by the environment or by [`viewers_of`](Self::viewers_of).
    pub fn admin_pages(
        mut self,
        make: impl FnOnce(AdminPagesContext) -> Arc<dyn AdminPages> + Send + 'static,
    ) -> Self {
        self.admin_pages = Some(Box::new(make));
        self
    }

    /// Sets the cluster whose tokens the viewers of [`admin_pages`](Self::admin_pages) use, for an operator that runs
    /// with a given client. Credentials in `config` are not used.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn viewers_of(mut self, config: kube::Config) -> Result<Self, Error> {
        self.viewer_client = Some(client_without_credentials(config)?);
        Ok(self)
    }

    /// Lets only one of several replicas act: the holder of a Lease named after the operator.
    pub fn leader_election(self) -> Self {
        Self { election: Election::Leader, ..self }
    }

    /// Divides the work among several replicas: the objects are divided into this many shards, each held by a Lease.
    /// Replicas that are configured with different numbers, as during a rollout, keep the current number until all of
    /// them agree on the same other one.
    pub fn sharded(self, shards: u32) -> Self {
        Self { election: Election::Shards(shards.max(1)), ..self }
    }

    /// Sets how long a lease is valid without being renewed (15 s by default). When a replica dies, no replica acts on
    /// its objects for that long. A replica that cannot renew its lease stops after two thirds of that time and cancels
    /// its running reconciles.
    pub fn lease_term(self, term: Duration) -> Self {
        Self { term, ..self }
    }

    /// Sets how long running reconciles may take after the operator is stopped, or when their shard moves to another
    /// replica (25 s by default). After that they are cancelled at their next await.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Uses another source of time and randomness; for tests and the simulator.
    pub fn time_and_chance(self, clock: Clock, entropy: Entropy) -> Self {
        Self { clock, entropy, journal: Journal::new(clock), ..self }
    }

    /// Serves no admin pages, whatever was configured before; for the simulator, which has no sockets.
    pub fn without_admin(self) -> Self {
        Self { admin: None, ..self }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Skips the permission check at startup; for the simulator, where the result is not used.
    pub fn without_rights_review(self) -> Self {
        Self { reviews_rights: false, ..self }
    }

    /// Uses this function for the `plan` command. `homeostat::run` sets it if the crate `homeostat` is built with its
    /// feature `embedded`.
    pub fn planner(self, planner: Planner) -> Self {
        Self { planner: Some(planner), ..self }
    }

    /// Runs as part of a plan: worlds' external writes are recorded instead of sent, and there is no election, because
    /// the leases of a plan are its own.
    pub fn planned(self, calls: PlannedCalls) -> Self {
        Self { planned_calls: Some(calls), election: Election::None, ..self }
    }

    /// Returns the group and plural name of every resource that it reads or writes, sorted and without duplicates,
    /// except those of its events and leases.
    pub fn used_resources(&self) -> Vec<(String, String)> {
        let plain = |rule: Rule| {
            let plural = rule.resource.split('/').next().unwrap_or_default().to_owned();
            (rule.group, plural)
        };
        let all: BTreeSet<_> = self.rules().into_iter().map(plain).collect();
        all.into_iter().collect()
    }

    /// Returns the only namespace that it works in; `None` if it works in all namespaces.
    pub fn only_namespace(&self) -> Option<&str> {
        self.scope.namespace.as_deref()
    }

    /// Returns the definitions of custom kinds that it installs.
    pub fn definitions(&self) -> Vec<serde_json::Value> {
        self.definitions.iter().map(|definition| serde_json::Value::clone(definition)).collect()
    }

    /// Keeps no journal, so that `why` and metrics have no data; this is for measuring what the journal costs.
    #[doc(hidden)]
    pub fn without_journal(self) -> Self {
        Self { journal: Journal::disabled(self.clock), ..self }
    }

    /// Returns the operator's journal. Call it before the operator runs.
    pub fn journal(&self) -> Journal {
        self.journal.clone()
    }

    /// Reads only the arguments after `--`, for a program with its own command line. The Deployment in the manifests
    /// repeats the arguments before it.
    pub fn after_dashes(self) -> Self {
        Self { arguments: Arguments::AfterDashes, ..self }
    }

    /// Reads these arguments instead of those of the process, for a program that has parsed its command line itself. If
    /// it is empty, [`run`](Self::run) just runs.
    pub fn arguments(self, arguments: impl IntoIterator<Item: Into<String>>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { arguments: Arguments::Given(arguments), ..self }
    }

    /// Executes the command line: runs until SIGTERM or ctrl-c against the cluster given by `--kubeconfig`,
    /// `KUBECONFIG` or the Pod's account; or prints manifests, help or the version, and returns.
    ///
    /// It never exits the process: when it returns, the rest of `main` runs.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`] for an unknown argument; a `main` that returns it prints it and exits with 1.
    /// Otherwise fails with the error that kept the operator from running.
    pub fn run(self) -> BoxFuture<'static, Result<(), Error>> {
        let nowhere =
            || Error::NoCluster("give --kubeconfig FILE, set KUBECONFIG, or run in a Pod".to_owned());
        self.run_or(Box::new(move || Box::pin(async move { Err(nowhere().into()) })))
    }

    /// Like [`run`](Self::run), but if no cluster is configured, `otherwise` provides the client.
    pub fn run_or(self, otherwise: Connect) -> BoxFuture<'static, Result<(), Error>> {
        // The future is boxed here, so that it is compiled here and not in every program that runs an operator.
        Box::pin(self.launch(otherwise))
    }

    async fn launch(mut self, otherwise: Connect) -> Result<(), Error> {
        let line = CommandLine::read(std::mem::replace(&mut self.arguments, Arguments::OfProcess));
        match line.parse()? {
            LaunchCommand::Help => {
                print!("{}", help(self.name.as_str(), &line.own));
                Ok(())
            }
            LaunchCommand::Version => {
                println!("{}, built with homeostat {}", self.name, env!("CARGO_PKG_VERSION"));
                Ok(())
            }
            LaunchCommand::Manifests { image, namespace } => {
                let image = image.unwrap_or_else(|| format!("{}:latest", self.name));
                let namespace = namespace.unwrap_or_else(|| HOME_NAMESPACE.to_owned());
                print!("{}", self.manifests_as_yaml(&namespace, &image, &line.own));
                Ok(())
            }
            LaunchCommand::Why { cluster, options } => {
                let kubeconfig =
                    if let ClusterChoice::Of(file) = &cluster { Some(file.as_str()) } else { None };
                connect_why_client(kubeconfig).await?.print(&options).await
            }
            LaunchCommand::Plan { cluster, options } => {
                self.verify()?;
                let Some(planner) = self.planner.take() else {
                    return Err(Error::Usage(NO_PLANNER.to_owned()));
                };
                let kubeconfig =
                    if let ClusterChoice::Of(file) = &cluster { Some(file.as_str()) } else { None };
                let client = connect_client(kubeconfig).await?;
                planner(self, client, options).await
            }
            LaunchCommand::Run { cluster, serve } => {
                self.verify()?;
                let mut operator = match serve {
                    Some(address) => self.serve(address),
                    None => self,
                };
                let (client, place) = if let Some(connected) = connect(&cluster).await? {
                    operator.viewer_client = Some(connected.viewer_client);
                    (connected.client, connected.words)
                } else {
                    let client = otherwise().await.map_err(|error| Error::NoCluster(error.to_string()))?;
                    (client, "a control plane of its own".to_owned())
                };
                eprintln!(
                    "{} reconciles {} on {place}",
                    operator.name,
                    describe_reconciled_kinds(&operator.rules())
                );
                let stop = CancellationToken::new();
                let signals = run::stop_on_signal(stop.clone())?;
                let result = operator.run_on(client, stop).await;
                drop(signals);
                result
            }
        }
    }

    /// Runs against the server that `client` connects to until `stop`. Dropping the future cancels running reconciles
    /// at their next await; `stop` lets them finish.
    pub fn run_on(self, client: Client, stop: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        // The future is boxed here, so that it is compiled here and not in every program that runs an operator.
        Box::pin(run::run(self, client, stop))
    }

    /// Returns the manifests with which `kubectl apply` runs this operator as `image`: its definitions, a role with no
    /// more permissions than it uses, and a Deployment.
    pub fn manifests(&self, image: &str) -> String {
        self.manifests_in(HOME_NAMESPACE, image)
    }

    /// Like [`manifests`](Self::manifests), with the Deployment and its account in this namespace, which is created
    /// unless it is `default`.
    pub fn manifests_in(&self, home: &str, image: &str) -> String {
        self.manifests_as_yaml(home, image, &[])
    }

    fn manifests_as_yaml(&self, home: &str, image: &str, own_arguments: &[String]) -> String {
        as_yaml(&manifests(&ManifestInput {
            name: self.name.as_str(),
            home,
            namespace: self.scope.namespace.as_deref(),
            image,
            own_arguments,
            definitions: &self.definitions,
            rules: &self.rules(),
            election: self.election,
            admin: self.admin.as_ref().and_then(Admin::address),
        }))
    }

    /// Refuses an operator whose controllers are declared incorrectly. This needs no server, so it comes first.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        for control in &self.controls {
            let name = control.0.name();
            // Names are part of finalizers and records: two controllers with the same name would undo each other's.
            if !names.insert(name) {
                return Err(Error::Invalid(format!(
                    "two controllers are named {name}: rename one of them with Controller::named"
                )));
            }
            let refuse = |problem| Error::Invalid(format!("the controller {name} cannot start: {problem}"));
            control
                .0
                .verify()
                .and_then(|()| self.states.declare(control.0.needed_states()))
                .map_err(refuse)?;
        }
        Ok(())
    }

    /// Returns the rules of the controllers, without writes to the status of kinds that are known to have none.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let rules = self.controls.iter().flat_map(|control| control.0.rules());
        rules.filter(|rule| !definitions::lacks_status(&self.definitions, rule)).cloned().collect()
    }
}
