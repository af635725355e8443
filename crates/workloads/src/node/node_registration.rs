//! Maintains the Node object and its heartbeat.
//!
//! The lease in `kube-node-lease` is renewed while the node runs. When the node is stopped in an orderly way, its Ready
//! condition says so; when it is killed, the lease expires.

use std::time::Duration;

use homeostat_core::Clock;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::sleep;

/// How often it reports, the same as the kubelet.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a lease is valid, in seconds.
const LEASE_S: i32 = 40;
/// How many Pods a node accepts. Each is one or more processes; the kubelet's limit of 110 comes from its address
/// range.
const PODS: u32 = 5000;
/// The field manager.
const MANAGER: &str = "homeostat-node";

/// The content of a Node's condition `Ready`.
struct ReadyCondition {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

const READY: ReadyCondition = ReadyCondition {
    status: "True",
    reason: "NodeReady",
    message: "the node runs Pods as processes of this machine",
};
const STOPPED: ReadyCondition =
    ReadyCondition { status: "False", reason: "NodeStopped", message: "the node was stopped" };

/// Returns the machine's memory, as reported by the kernel.
pub(super) fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    kib.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// All Nodes that this machine is registered as.
pub(super) struct NodeRegistrations(Vec<NodeRegistration>);

impl NodeRegistrations {
    pub(super) fn new(client: &Client, names: Vec<String>, clock: Clock) -> Self {
        Self(names.into_iter().map(|name| NodeRegistration { client: client.clone(), name, clock }).collect())
    }

    /// Creates the Nodes. If that fails, the next heartbeat tries again.
    pub(super) async fn register(&self) {
        for one in &self.0 {
            one.register().await;
        }
    }

    /// Keeps the Nodes alive for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            sleep(HEARTBEAT).await;
            self.register().await;
        }
    }

    /// Reports that nothing runs here anymore.
    pub(super) async fn mark_stopped(&self) {
        for one in &self.0 {
            one.mark_stopped().await;
        }
    }
}

/// The heartbeat of one Node.
struct NodeRegistration {
    client: Client,
    name: String,
    clock: Clock,
}

impl NodeRegistration {
    /// Creates the Node, and reports that it is alive.
    async fn register(&self) {
        if let Err(error) = self.beat().await {
            tracing::warn!(%error, node = self.name, "cannot renew the Node and its lease");
        }
    }

    async fn beat(&self) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let known = nodes.get_opt(&self.name).await?;
        if known.is_none() {
            let created = nodes.create(&PostParams::default(), &node(&self.name)).await;
            created.map(drop).or_else(ignore_existing)?;
        }
        if !known.as_ref().is_some_and(is_ready) {
            self.report(&READY).await?;
        }
        self.renew().await
    }

    /// Reports that nothing runs here anymore.
    async fn mark_stopped(&self) {
        if let Err(error) = self.report(&STOPPED).await {
            tracing::debug!(%error, "cannot mark the Node as stopped");
        }
    }

    async fn report(&self, condition: &ReadyCondition) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let now = self.clock.now();
        let status = Patch::Merge(json!({"status": status(&self.name, now, condition)}));
        nodes
            .patch_status(
                &self.name,
                &PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() },
                &status,
            )
            .await?;
        Ok(())
    }

    async fn renew(&self) -> Result<(), kube::Error> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let now = MicroTime(self.clock.now());
        let patch = Patch::Merge(json!({"spec": {"renewTime": now}}));
        match leases.patch(&self.name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let lease = Lease {
                    metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                    spec: Some(LeaseSpec {
                        holder_identity: Some(self.name.clone()),
                        lease_duration_seconds: Some(LEASE_S),
                        renew_time: Some(now),
                        ..LeaseSpec::default()
                    }),
                };
                leases.create(&PostParams::default(), &lease).await.map(drop)
            }
            patched => patched.map(drop),
        }
    }
}

fn ignore_existing(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 409 => Ok(()),
        error => Err(error),
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn node(name: &str) -> Node {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", std::env::consts::OS),
        ("kubernetes.io/arch", architecture()),
        ("homeostat.dev/processes", "true"),
    ];
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}

/// Returns Go's name for the processor architecture, which labels use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(name: &str, now: Timestamp, condition: &ReadyCondition) -> Value {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).to_string();
    let resources =
        json!({"cpu": cpus, "memory": format!("{}Ki", memory_bytes() / 1024), "pods": PODS.to_string()});
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let version = format!("homeostat-{}", env!("CARGO_PKG_VERSION"));
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "capacity": resources,
        "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "conditions": [{"type": "Ready", "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        "nodeInfo": {
            "machineID": read("/etc/machine-id"), "systemUUID": "", "bootID": read("/proc/sys/kernel/random/boot_id"),
            "kernelVersion": read("/proc/sys/kernel/osrelease"), "osImage": "this machine",
            "containerRuntimeVersion": "process://1", "kubeletVersion": version, "kubeProxyVersion": "",
            "operatingSystem": std::env::consts::OS, "architecture": architecture()},
    })
}
