//! Writes the final status of Pods when a node is stopped in an orderly way.
//!
//! By then the controllers have stopped and the supervisor is gone, so its last records are final. An ephemeral node's
//! folder is removed with those records, and the API server stops as well.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use homeostat_core::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::NAME;
use super::options::RestartBackoff;
use super::pod::last_status;
use super::supervisor::node_layout::NodeLayout;
use super::supervisor::records;
use super::supervisor_client::PodRuns;

/// How long this may take: a user is waiting at the terminal.
const LIMIT: Duration = Duration::from_secs(5);
/// How many Pods are written concurrently.
const CONCURRENCY: usize = 16;

/// Everything needed to write the final status of Pods.
pub(super) struct FinalStatusWriter {
    pub(super) client: Client,
    pub(super) nodes: Vec<String>,
    pub(super) layout: NodeLayout,
    pub(super) backoff: RestartBackoff,
    pub(super) clock: Clock,
}

impl FinalStatusWriter {
    /// Writes the status of every Pod that ran here. Statuses that cannot be written are left to the next node.
    pub(super) async fn write_all(&self) {
        let mut runs: HashMap<String, PodRuns> = HashMap::new();
        for one in records(&self.layout) {
            runs.entry(one.id.pod.clone()).or_default().insert(one.id.container.clone(), one);
        }
        if runs.is_empty() {
            return;
        }
        match timeout(LIMIT, self.write(&runs)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot write the final status of the Pods"),
            Err(_) => tracing::warn!("writing the final status of the Pods took too long"),
        }
    }

    async fn write(&self, runs: &HashMap<String, PodRuns>) -> Result<(), kube::Error> {
        let all: Api<Pod> = Api::all(self.client.clone());
        let mut pods = Vec::new();
        for node in &self.nodes {
            let ours = ListParams::default().fields(&format!("spec.nodeName={node}"));
            pods.extend(all.list(&ours).await?.items);
        }
        let known = pods.iter().filter_map(|pod| Some((pod, runs.get(pod.metadata.uid.as_deref()?)?)));
        stream::iter(known).for_each_concurrent(CONCURRENCY, |(pod, runs)| self.write_one(pod, runs)).await;
        Ok(())
    }

    async fn write_one(&self, pod: &Pod, runs: &PodRuns) {
        let Some(status) = last_status(pod, runs, self.clock.now(), self.backoff) else { return };
        let (name, namespace) = (pod.metadata.name.as_deref(), pod.metadata.namespace.as_deref());
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace.unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
        let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
        if let Err(error) = pods.patch_status(name.unwrap_or_default(), &params, &patch).await {
            tracing::debug!(%error, pod = name, "cannot write the final status of a Pod");
        }
    }
}
