//! Everything that the demo runs: an in-memory control plane with workloads and a node, the cloud of shapes, and the
//! examples' operators.

use std::error::Error;
use std::fs::{Permissions, set_permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;

use homeostat::Operator;
use homeostat::embedded::{ControlPlane, NodeOptions};
use homeostat::kube::api::ListParams;
use homeostat::kube::{Api, Client, Resource};
use homeostat_core::Entropy;
use homeostat_example_at::At;
use homeostat_example_database::{Database, Settings};
use homeostat_example_shapes::server::{self, Running};
use homeostat_example_shapes::{Options, Shape};
use rustix::process::getuid;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cloud_client::CloudClient;
use super::observer;
use super::timeline::{LineKind, Timeline};
use crate::temporary_folder::TemporaryFolder;

/// The mode of a folder that others may traverse: if this user is root, PostgreSQL runs as a different user and must
/// reach its data.
const PASSABLE: u32 = 0o711;

/// How long the cloud may take to show a new shape. The cloud is in this process; a shape deleted sooner after its
/// creation counts as not shown yet.
const SETTLE_SECONDS: u64 = 1;

/// Everything that the demo runs.
pub(super) struct DemoEnvironment {
    plane: ControlPlane,
    cloud: Running,
    operators: JoinSet<Result<(), homeostat::runtime::Error>>,
    stop: CancellationToken,
    _folders: [TemporaryFolder; 2],
}

impl DemoEnvironment {
    pub(super) async fn build(timeline: &Timeline) -> Result<Self, Box<dyn Error>> {
        let entropy = Entropy::system();
        let home = TemporaryFolder::create(&entropy).await?;
        let databases = TemporaryFolder::create(&entropy).await?;
        set_permissions(databases.path(), Permissions::from_mode(PASSABLE))?;
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let plane = ControlPlane::builder()
            .listen(anywhere, home.path().join("kubeconfig"))
            .workloads(true)
            .console(anywhere)
            // Only the demo creates Pods here, and its databases outlive them in a folder of this user.
            .node(NodeOptions::new().folder(home.node()).run_as(getuid().as_raw().to_string()).ephemeral())
            .start()
            .await?;
        timeline.line(LineKind::Healed, "control plane", plane.url().unwrap_or_default());
        timeline.line(LineKind::Healed, "console", plane.console_url().unwrap_or_default());
        let cloud = server::start(anywhere).await?;
        timeline.line(LineKind::Healed, "cloud of shapes", &cloud.url());
        let settings = Settings::in_folder(databases.path());
        let (operators, stop) = (JoinSet::new(), CancellationToken::new());
        let mut environment = Self { plane, cloud, operators, stop, _folders: [home, databases] };
        environment.run(homeostat_example_at::operator());
        environment.run(homeostat_example_database::operator(settings));
        let options = Options { settle: SETTLE_SECONDS, ..Options::default() };
        environment.run(homeostat_example_shapes::operator(&environment.cloud.url(), &options));
        environment.wait_until_served::<At>().await;
        environment.wait_until_served::<Database>().await;
        environment.wait_until_served::<Shape>().await;
        timeline.line(LineKind::Healed, "operators", "at, database and shapes are running");
        environment.run(observer::operator(timeline));
        Ok(environment)
    }

    fn run(&mut self, operator: Operator) {
        self.plane.show_on_console(&operator.journal());
        self.operators.spawn(operator.run_on(self.plane.client(), self.stop.clone()));
    }

    /// Waits until objects of this kind are served: its operator installs the definition.
    async fn wait_until_served<K>(&self)
    where
        K: Resource<DynamicType = ()>,
    {
        let path = K::url_path(&(), None);
        let request = || homeostat::kube::core::Request::new(path.clone()).list(&ListParams::default());
        while let Ok(request) = request() {
            if self.client().request::<Value>(request).await.is_ok() {
                return;
            }
            tokio::time::sleep(super::demo_run::PAUSE).await;
        }
    }

    pub(super) fn client(&self) -> Client {
        self.plane.client()
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = homeostat::k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), "default")
    }

    pub(super) fn cloud(&self) -> CloudClient {
        CloudClient::new(&self.cloud.url())
    }

    /// Prints what the user can try now.
    pub(super) fn print_suggestions(&self, timeline: &Timeline) {
        let kubeconfig = self.plane.kubeconfig().map(|file| file.display().to_string()).unwrap_or_default();
        let lines = [
            format!("  export KUBECONFIG={kubeconfig}"),
            format!("  open {}", self.plane.console_url().unwrap_or_default()),
            "  kubectl get ats,databases,shapes,deployments,pods".to_owned(),
            "  kubectl describe database orders".to_owned(),
            "  kubectl delete pod --all".to_owned(),
            format!("  the shapes are at {}", self.cloud.url()),
        ];
        timeline.lines_under_heading("your turn: try these commands; ctrl-c ends the demo", &lines);
    }

    /// Stops the operators, the processes and the server, and removes the folders.
    pub(super) async fn stop(mut self) -> Result<(), Box<dyn Error>> {
        self.stop.cancel();
        let mut outcome: Result<(), Box<dyn Error>> = Ok(());
        while let Some(ended) = self.operators.join_next().await {
            outcome = outcome.and(ended.map_err(Into::into).and_then(|ended| ended.map_err(Into::into)));
        }
        let ended = self.plane.stop().await;
        outcome.and(ended.map_err(Into::into))
    }
}
