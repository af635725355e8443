//! Keeps the files in the directory that `FILES_ROOT` names (`./files` by default), on the cluster of `--kubeconfig`,
//! `KUBECONFIG` or the Pod's account, or on its own control plane.

use std::path::PathBuf;

use homeostat::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let root = std::env::var_os("FILES_ROOT").map_or_else(|| PathBuf::from("files"), PathBuf::from);
    // A command, such as `manifests`, keeps none.
    if std::env::args().len() == 1 {
        eprintln!("keeping files in {}", root.display());
    }
    homeostat::run(homeostat_example_files::operator(&root)).await
}
