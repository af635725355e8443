//! Provides a control plane in this process and a node with real processes, in real time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use homeostat::embedded::ControlPlane;
use homeostat_core::Clock;
use homeostat_core::container_log::{LogRefusal, LogRequest};
use homeostat_runtime::CancellationToken;
use homeostat_workloads::node::{Logs, Node, NodeOptions, RestartBackoff};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// The longest wait for anything; far longer than needed on two busy cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Short enough to see several restarts in a test.
const BACKOFF: RestartBackoff = RestartBackoff {
    base: Duration::from_millis(300),
    max: Duration::from_millis(600),
    forgiven_after: Duration::from_secs(600),
};

pub(crate) struct TestCluster {
    pub(crate) client: Client,
    pub(crate) logs: Logs,
    folder: TempDir,
    shared: TempDir,
    stop: CancellationToken,
    node: JoinHandle<()>,
    /// Stopped at the end of the test.
    _plane: ControlPlane,
}

impl TestCluster {
    pub(crate) async fn new() -> Self {
        Self::with(|options| options).await
    }

    pub(crate) async fn with(change: impl FnOnce(NodeOptions) -> NodeOptions) -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        Self::on(plane, folder_for_all(0o711), change).await
    }

    /// Starts it with a socket that processes can reach, and with authorization.
    pub(crate) async fn served(change: impl FnOnce(NodeOptions) -> NodeOptions) -> Self {
        let folder = folder_for_all(0o711);
        let builder =
            ControlPlane::builder().listen(([127, 0, 0, 1], 0).into(), folder.path().join("kubeconfig"));
        let plane = builder.start().await.unwrap();
        let address = plane.url().unwrap().strip_prefix("https://").unwrap().parse().unwrap();
        Self::on(plane, folder, |options| change(options.server(address))).await
    }

    async fn on(
        plane: ControlPlane,
        folder: TempDir,
        change: impl FnOnce(NodeOptions) -> NodeOptions,
    ) -> Self {
        let (client, shared) = (plane.client(), folder_for_all(0o777));
        let (logs, stop, node) = start(&client, folder.path(), change).await;
        Self { client, logs, folder, shared, stop, node, _plane: plane }
    }

    /// Stops the node as if it were killed, but not its supervisor; then starts another node.
    pub(crate) async fn replace_node(&mut self, change: impl FnOnce(NodeOptions) -> NodeOptions) {
        self.abort_node().await;
        (self.logs, self.stop, self.node) = start(&self.client, self.folder.path(), change).await;
    }

    pub(crate) async fn abort_node(&mut self) {
        self.node.abort();
        assert!((&mut self.node).await.unwrap_err().is_cancelled());
    }

    /// Stops the node cleanly.
    pub(crate) async fn stop_node(&mut self) {
        self.stop.cancel();
        (&mut self.node).await.unwrap();
    }

    pub(crate) async fn start_node(&mut self, change: impl FnOnce(NodeOptions) -> NodeOptions) {
        (self.logs, self.stop, self.node) = start(&self.client, self.folder.path(), change).await;
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("node")
    }

    /// Returns a folder of the machine that all users may write to.
    pub(crate) fn shared(&self) -> &Path {
        self.shared.path()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates any object in the default namespace from its JSON.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates a Pod with this spec.
    pub(crate) async fn pod(&self, name: &str, spec: Value) -> Pod {
        self.create(json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})).await
    }

    /// Creates a Pod with one container that runs a shell.
    pub(crate) async fn shell(&self, name: &str, script: &str, restart: &str) -> Pod {
        let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
        self.pod(name, json!({"restartPolicy": restart, "containers": [container]})).await
    }

    pub(crate) async fn get(&self, name: &str) -> Option<Pod> {
        self.api::<Pod>().get_opt(name).await.unwrap()
    }

    /// Waits until the Pod meets the condition.
    pub(crate) async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Pod) -> bool) -> Pod {
        eventually(
            what,
            || async { self.get(name).await.filter(|pod| is_so(pod)) },
            || async {
                serde_json::to_string_pretty(&self.get(name).await.and_then(|pod| pod.status)).unwrap()
            },
        )
        .await
    }

    /// Returns the whole output of a Pod once it has exited.
    pub(crate) async fn said_by(&self, name: &str, spec: Value) -> String {
        self.pod(name, spec).await;
        let is_over =
            |pod: &Pod| matches!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded" | "Failed"));
        let pod = self.until(name, "ended", is_over).await;
        self.said(&pod, |_| ()).await.unwrap()
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Pod {
        self.until(name, phase, |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some(phase)).await
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Pod {
        self.until(name, "ready", |pod| condition(pod, "Ready") == "True").await
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        eventually(
            "the Pod is gone",
            || async { self.get(name).await.is_none().then_some(()) },
            || async { format!("{:?}", self.get(name).await) },
        )
        .await;
    }

    pub(crate) async fn delete(&self, name: &str, grace_s: Option<u32>) {
        let params = DeleteParams { grace_period_seconds: grace_s, ..DeleteParams::default() };
        self.api::<Pod>().delete(name, &params).await.unwrap();
    }

    /// Waits for an event about the object whose text contains these words.
    pub(crate) async fn until_event(&self, name: &str, reason: &str, words: &str) {
        let list = || async { self.api::<Event>().list(&ListParams::default()).await.unwrap().items };
        let is_it = |event: &Event| {
            event.involved_object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
                && event.message.as_deref().unwrap_or_default().contains(words)
        };
        eventually(
            &format!("{reason}: {words}"),
            || async { list().await.iter().any(is_it).then_some(()) },
            || async {
                format!(
                    "{:?}",
                    list().await.iter().map(|event| (&event.reason, &event.message)).collect::<Vec<_>>()
                )
            },
        )
        .await;
    }

    /// Returns the messages of the events about the object.
    pub(crate) async fn events_of(&self, name: &str) -> Vec<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let of_it = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        of_it.filter_map(|event| Some(format!("{}: {}", event.reason?, event.message?))).collect()
    }

    /// Returns how often events with this reason were reported about the object.
    pub(crate) async fn count_of(&self, name: &str, reason: &str) -> i32 {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let is_it = |event: &&Event| {
            event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason)
        };
        events.iter().filter(is_it).map(|event| event.count.unwrap_or(1)).sum()
    }

    /// Waits until the Pod's events report this many starts.
    pub(crate) async fn until_started(&self, name: &str, count: i32) {
        let told = || self.count_of(name, "Started");
        let is_so = || async { (told().await == count).then_some(()) };
        eventually("starts are told", is_so, || async { told().await.to_string() }).await;
    }

    /// Returns the output of the Pod's container.
    pub(crate) async fn said(
        &self,
        pod: &Pod,
        change: impl FnOnce(&mut LogRequest),
    ) -> Result<String, LogRefusal> {
        let mut query = LogRequest {
            pod: pod.metadata.uid.clone().unwrap(),
            container: "main".to_owned(),
            ..LogRequest::default()
        };
        change(&mut query);
        let pieces = self.logs.read(query).await?.collect::<Vec<_>>().await;
        Ok(String::from_utf8(pieces.concat()).unwrap())
    }

    /// Waits until the log contains the words.
    pub(crate) async fn until_said(&self, pod: &Pod, words: &str) -> String {
        let read = || async { self.said(pod, |_| ()).await.unwrap_or_default() };
        eventually(words, || async { Some(read().await).filter(|text| text.contains(words)) }, read).await
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.node.abort();
    }
}

async fn start(
    client: &Client,
    folder: &Path,
    change: impl FnOnce(NodeOptions) -> NodeOptions,
) -> (Logs, CancellationToken, JoinHandle<()>) {
    let options = NodeOptions::new()
        .folder(folder.join("node"))
        .supervisor(env!("CARGO_BIN_EXE_homeostat-node-supervisor"))
        .outlives_server(Duration::from_millis(500))
        .backoff(BACKOFF);
    let node = Node::connect(client.clone(), change(options), Clock::system()).await.unwrap();
    let (logs, stop) = (node.logs(), CancellationToken::new());
    let stopped = stop.clone();
    (logs, stop, tokio::spawn(async move { node.run(stopped).await.unwrap() }))
}

/// Makes a folder accessible to others, or writable. Without mount namespaces, Pods use its path.
pub(crate) fn folder_for_all(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    folder
}

/// Returns whether this is root. If not, reports that the test is skipped, and why.
pub(crate) fn is_root(why: &str) -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        homeostat::testing::report_skip(why);
    }
    is_root
}

/// Repeats the request until it succeeds. The pause only saves processor time.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>, G: Future<Output = String>>(
    what: &str,
    mut probe: impl FnMut() -> F,
    explain: impl FnOnce() -> G,
) -> T {
    let wait = async {
        loop {
            if let Some(answer) = probe().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if let Ok(answer) = tokio::time::timeout(PATIENCE, wait).await {
        return answer;
    }
    panic!("{what}: not within {PATIENCE:?}; there is {}", explain().await)
}

pub(crate) fn condition(pod: &Pod, kind: &str) -> String {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|one| one.type_ == kind).map(|one| one.status.clone()).unwrap_or_default()
}

/// Returns the status of the first main container.
pub(crate) fn main_status(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

/// Returns why the first main container is waiting.
pub(crate) fn waiting(pod: &Pod) -> Option<&str> {
    main_status(pod)?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

/// Returns the process of the first main container.
pub(crate) fn pid(pod: &Pod) -> i32 {
    let id = main_status(pod).unwrap().container_id.clone().unwrap();
    id.strip_prefix("process://").unwrap().parse().unwrap()
}

/// Returns the processes whose command line contains this word.
pub(crate) fn with_word(word: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_word = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|argument| argument == word)
    };
    pids.filter(has_word).filter(|pid| is_alive(*pid)).collect()
}

/// Waits until this many processes have the word.
pub(crate) async fn until_count(word: &str, count: usize) -> Vec<i32> {
    eventually(
        &format!("{count} processes with {word}"),
        || async { Some(with_word(word)).filter(|found| found.len() == count) },
        || async { format!("{:?}", with_word(word)) },
    )
    .await
}

/// Returns a field of a process's kernel status.
pub(crate) fn field(pid: i32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

/// Returns the parent of a process.
pub(crate) fn parent(pid: i32) -> i32 {
    field(pid, "PPid").parse().unwrap()
}

pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Returns whether there is such a process that is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) async fn until_dead(pid: i32) {
    eventually(
        "the process is gone",
        || async { (!is_alive(pid)).then_some(()) },
        || async { pid.to_string() },
    )
    .await;
}
