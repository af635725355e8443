//! Runs the Database operator: `database --kubeconfig FILE`; see README.md.

use homeostat::prelude::*;
use homeostat_example_database::{Settings, operator};

#[tokio::main]
async fn main() -> Result<(), Error> {
    homeostat::run(operator(Settings::from_environment())).await
}
