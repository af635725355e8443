//! Runs an operator on a cluster if there is one, and otherwise on its own control plane.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use homeostat_runtime::{Error, Operator};
use kube::Client;

use super::{ControlPlane, console, operator_console};

/// The folder in which an operator without a cluster keeps its objects: the same folder that `homeostat up` uses.
const FOLDER: &str = ".homeostat";

/// Runs the operator until SIGTERM or ctrl-c: on the cluster given by `--kubeconfig`, `KUBECONFIG` or the Pod's account
/// if there is one, otherwise on an embedded, durable control plane in `.homeostat`. In the latter case it prints the
/// path of the kubeconfig on stderr and, with the feature `console`, the address of the web console. On a cluster, the
/// console is served with the admin pages (`--serve`). It logs to stderr (`HOMEOSTAT_LOG=debug` or `RUST_LOG=debug`
/// logs more), unless the program has set its own `tracing` subscriber.
///
/// The command `plan` exits the process with code 2 if something would change; all other commands return.
///
/// # Errors
/// Returns why the operator or its control plane failed.
pub fn run(operator: Operator) -> BoxFuture<'static, Result<(), Error>> {
    // The future is boxed here, so that it is compiled in this crate and not in every operator.
    Box::pin(run_somewhere(operator))
}

async fn run_somewhere(operator: Operator) -> Result<(), Error> {
    crate::log_setup::start();
    let slot = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&slot);
    let journal = operator.journal();
    let outcome = operator_console::add_console(operator)
        .planner(Box::new(crate::plan::plan_operator))
        .run_or(Box::new(|| {
            Box::pin(async move {
                let (plane, client) = start().await?;
                plane.show_on_console(&journal);
                *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(plane);
                Ok(client)
            })
        }))
        .await;
    let plane = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    match plane {
        Some(plane) => outcome.and(plane.stop().await.map_err(|error| Error::NoCluster(error.to_string()))),
        None => outcome,
    }
}

async fn start() -> Result<(ControlPlane, Client), super::Error> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let kubeconfig = Path::new(FOLDER).join("kubeconfig");
    let mut builder = ControlPlane::builder().data_dir(FOLDER).listen(address, &kubeconfig).workloads(true);
    if console::IS_BUILT {
        builder = builder.console(address);
    }
    let plane = builder.start().await?;
    let url = plane.url().unwrap_or_default();
    eprintln!("no cluster is configured: running on an embedded control plane");
    let console = plane.console_url().map(|url| format!(" console={url}")).unwrap_or_default();
    eprintln!("ready {url} kubeconfig={}{console}", kubeconfig.display());
    let client = plane.client();
    Ok((plane, client))
}
