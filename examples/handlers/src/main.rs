//! Runs the operator on the cluster of `--kubeconfig` or `KUBECONFIG`, or on its own control plane.

use homeostat::runtime::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    homeostat::run(homeostat_example_handlers::operator()).await
}
