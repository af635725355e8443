//! Probes a container once: with a command, an HTTP request, a TCP connection or a gRPC call.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::time::timeout;

use crate::node::container_http::{self, ContainerRequest};
use crate::node::grpc_health;
use crate::node::supervisor::protocol::{ContainerKey, ProcessSpec};
use crate::node::supervisor_client::SupervisorClient;

/// Probes one container.
pub(super) struct ProbeClient {
    pub(super) supervisor: Arc<SupervisorClient>,
    pub(super) id: ContainerKey,
    /// The settings of a command that runs alongside the container.
    pub(super) process: Option<ProcessSpec>,
    pub(super) container: Container,
    /// Its Pod's address.
    pub(super) address: String,
}

impl ProbeClient {
    /// Probes once. Returns a message if the probe fails.
    pub(super) async fn probe_once(&self, probe: &Probe, limit: Duration) -> Result<(), String> {
        if let Some(exec) = &probe.exec {
            return self.execute_probe(exec.command.clone().unwrap_or_default(), limit).await;
        }
        let asked = async {
            if let Some(action) = &probe.http_get {
                return ContainerRequest::new(action, &self.container, &self.address)?.send().await;
            }
            if let Some(action) = &probe.tcp_socket {
                let port = container_http::port_number(&action.port, &self.container)?;
                return container_http::connect(
                    container_http::host_or_own(action.host.as_deref(), &self.address),
                    port,
                )
                .await
                .map(drop);
            }
            if let Some(action) = &probe.grpc {
                let port =
                    u16::try_from(action.port).map_err(|_| format!("no such port: {}", action.port))?;
                return grpc_health::check_health(
                    &self.address,
                    port,
                    action.service.as_deref().unwrap_or_default(),
                )
                .await;
            }
            Err("a probe needs exec, httpGet, tcpSocket or grpc".to_owned())
        };
        timeout(limit, asked).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
    }

    /// Runs the command as the container would; its exit code is the result.
    pub(super) async fn execute_probe(&self, command: Vec<String>, limit: Duration) -> Result<(), String> {
        let Some(process) = &self.process else { return Err("its environment cannot be built".to_owned()) };
        let process = process.clone().with_command(command);
        let executed = self.supervisor.execute(self.id.clone(), process, limit).await;
        if executed.exit.is_success() { Ok(()) } else { Err(executed.output) }
    }
}
