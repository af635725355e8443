//! Runs the At operator: `at --kubeconfig FILE`; see README.md.

use homeostat::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Error> {
    homeostat::run(homeostat_example_at::operator()).await
}
