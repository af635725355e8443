//! Runs our side of the handler comparison in its own process, and prints which object was handled and when.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use homeostat_runtime::{CancellationToken, Controller, Handlers, Operator};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};

/// The child process's arguments.
#[derive(clap::Args)]
pub(crate) struct HandleArguments {
    #[arg(long)]
    kubeconfig: PathBuf,
}

pub(crate) async fn handle(options: &HandleArguments) -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let handlers = Handlers::<ConfigMap>::new().on_create("create", |map: Arc<ConfigMap>, _| async move {
        println!("{} {}", map.name_any(), now_ns());
        Ok(())
    });
    let control = Controller::new().labels("app=bench").handlers(handlers);
    let operator = Operator::new("handlers.bench.homeostat.dev").control(control);
    // The parent process ends it.
    operator.run_on(Client::try_from(config)?, CancellationToken::new()).await?;
    Ok(())
}

/// Returns the machine's time, which both processes can compare.
#[expect(clippy::disallowed_methods, reason = "two processes compare their clocks")]
pub(super) fn now_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos()
}
