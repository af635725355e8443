//! The clusters on which the example operators are tested: `homeostat up --node`, or a real kube-apiserver if
//! `HOMEOSTAT_TEST_KUBECONFIG` names a kubeconfig of its administrator.
//!
//! A kube-apiserver alone runs no Pods and collects no garbage. Our own controllers and node run on it, as they would
//! on any server, and stand-ins remove the taint of the Node once it is ready and delete objects that have lost their
//! owner.
//!
//! **Invariant:** one test at a time uses a kube-apiserver (a lock on a file next to the kubeconfig, which the
//! runtime's tests use as well), and it leaves no Node behind. The server must be on loopback and have no Nodes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_core::Clock;
use homeostat_workloads::controllers;
use homeostat_workloads::node::{Node, NodeOptions};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::server::{Server, eventually};

const VARIABLE: &str = "HOMEOSTAT_TEST_KUBECONFIG";

/// How often the stand-in searches for objects without an owner; a real garbage collector takes longer.
const COLLECT_EVERY: Duration = Duration::from_millis(500);

/// A server on which Pods run.
pub(crate) enum Cluster {
    Ours(Server),
    Real(Real),
}

impl AsRef<Path> for Cluster {
    fn as_ref(&self) -> &Path {
        match self {
            Self::Ours(server) => server.as_ref(),
            Self::Real(real) => &real.kubeconfig,
        }
    }
}

impl Cluster {
    /// Starts it with its files in the folder. Pods run as this user of the machine, if one is given.
    pub(crate) async fn start(folder: &Path, user: Option<&str>) -> Self {
        if let Some(kubeconfig) = std::env::var_os(VARIABLE) {
            return Self::Real(Real::start(kubeconfig.into(), folder, user).await);
        }
        let mut arguments = vec!["--ephemeral", "--node"];
        arguments.extend(user.into_iter().flat_map(|user| ["--node-as", user]));
        Self::Ours(Server::start(folder, &arguments).await)
    }

    /// Returns whether the test runs on a real kube-apiserver, where the rest must be skipped for this reason; reports
    /// the skip on standard error, which is not captured.
    pub(crate) fn lacks(&self, reason: &str) -> bool {
        let is_real = matches!(self, Self::Real(_));
        if is_real {
            use std::io::Write as _;
            let thread = std::thread::current();
            let _ = writeln!(
                std::io::stderr(),
                "not on kube-apiserver: {}: {reason}",
                thread.name().unwrap_or("a walk")
            );
        }
        is_real
    }

    pub(crate) async fn stop(self) {
        match self {
            Self::Ours(server) => server.stop().await,
            Self::Real(real) => real.stop().await,
        }
    }
}

/// A kube-apiserver with our controllers and our node.
pub(crate) struct Real {
    kubeconfig: PathBuf,
    client: Client,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    _lock: File,
}

impl Real {
    async fn start(kubeconfig: PathBuf, folder: &Path, user: Option<&str>) -> Self {
        let lock = File::options().create(true).append(true).open(kubeconfig.with_extension("lock")).unwrap();
        let lock = tokio::task::spawn_blocking(|| lock.lock().map(|()| lock)).await.unwrap().unwrap();
        let client = connect(&kubeconfig).await;
        let nodes: Api<NodeObject> = Api::all(client.clone());
        let known = nodes.list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(known, 0, "{VARIABLE} names a cluster with nodes, not a kube-apiserver to test on");
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let run = controllers::operator().run_on(client.clone(), stop.clone());
        tasks.spawn(async move { run.await.unwrap() });
        let options = NodeOptions::new().folder(folder.join("node")).ephemeral();
        let options = options.supervisor(env!("CARGO_BIN_EXE_homeostat")).hide(&kubeconfig);
        let options = user.into_iter().fold(options, NodeOptions::run_as);
        let node = Node::connect(client.clone(), options, Clock::system()).await.unwrap();
        let run = node.run(stop.clone());
        tasks.spawn(async move { run.await.unwrap() });
        tasks.spawn(collect_garbage(client.clone(), stop.clone()));
        clear_taints(&nodes).await;
        Self { kubeconfig, client, stop, tasks, _lock: lock }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete_collection(&at_once, &ListParams::default()).await.unwrap();
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        nodes.delete("local", &DeleteParams::default()).await.unwrap();
        eventually("the node is gone", || async {
            nodes.get_opt("local").await.unwrap().is_none().then_some(())
        })
        .await;
    }
}

/// Removes the taint of a new Node once it is ready, as Kubernetes' controller manager does.
async fn clear_taints(nodes: &Api<NodeObject>) {
    eventually("the node is ready", || async {
        let conditions = nodes.get_opt("local").await.unwrap()?.status?.conditions?;
        conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True").then_some(())
    })
    .await;
    let without_taints = Patch::Merge(serde_json::json!({"spec": {"taints": null}}));
    nodes.patch("local", &PatchParams::default(), &without_taints).await.unwrap();
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("HOMEOSTAT_TEST_KUBECONFIG names a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let host = config.cluster_url.host().unwrap_or_default();
    assert!(["127.0.0.1", "localhost", "[::1]"].contains(&host), "{host} is not this machine");
    Client::try_from(config).unwrap()
}

/// The kinds of objects that the example operators own: group, version, kind.
const OWNED: [(&str, &str, &str); 6] = [
    ("", "v1", "Pod"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("", "v1", "PersistentVolumeClaim"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "ControllerRevision"),
];

/// Deletes objects whose owners are gone, until it is stopped, as Kubernetes' controller manager does.
async fn collect_garbage(client: Client, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(COLLECT_EVERY)).await.is_some() {
        for (group, version, kind) in OWNED {
            let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
            for object in api.list(&ListParams::default()).await.unwrap() {
                let owners = object.metadata.owner_references.unwrap_or_default();
                let is_dying = object.metadata.deletion_timestamp.is_some();
                if owners.is_empty() || is_dying || lives_any(&client, &owners).await {
                    continue;
                }
                // Another client may have been faster.
                let _ = api.delete(&object.metadata.name.unwrap(), &DeleteParams::background()).await;
            }
        }
    }
}

type Owner = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Returns whether one of the owners exists.
async fn lives_any(client: &Client, owners: &[Owner]) -> bool {
    for owner in owners {
        let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &owner.kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        if api
            .get_opt(&owner.name)
            .await
            .unwrap()
            .is_some_and(|found| found.metadata.uid.as_ref() == Some(&owner.uid))
        {
            return true;
        }
    }
    false
}
