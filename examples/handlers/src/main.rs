//! Runs the operator on the cluster of `--kubeconfig` or `KUBECONFIG`, or on a control plane of its own.

use homeostat::runtime::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    homeostat::run(homeostat_example_handlers::operator()).await
}
