//! Which cluster: `--kubeconfig`, then `KUBECONFIG`, then the account of the Pod we run in. A file in the home
//! directory is not taken silently: an operator that acts on the cluster somebody last looked at is an accident.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::error::Error;
use crate::launch::Cluster;

/// Names the folder of a Pod's account where it cannot be at the path all clients know: a Homeostat node without mount
/// namespaces sets it.
const ACCOUNT_FOLDER: &str = "HOMEOSTAT_SERVICE_ACCOUNT";

/// The client of the configured cluster; none when nothing is configured.
pub(crate) async fn connect(cluster: &Cluster) -> Result<Option<Client>, Error> {
    let refuse = |error: String| Error::NoCluster(error);
    let file = match cluster {
        Cluster::Of(file) => Some(file.clone()),
        Cluster::Any => std::env::var("KUBECONFIG").ok().filter(|file| !file.is_empty()),
        Cluster::Own => account_folder().map(|folder| format!("{folder}/kubeconfig")),
    };
    let is_in_pod = *cluster == Cluster::Own || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let config = match file {
        Some(file) => {
            let parsed = Kubeconfig::read_from(&file).map_err(|error| refuse(format!("{file}: {error}")))?;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(parsed, &options).await;
            config.map_err(|error| refuse(format!("{file}: {error}")))?
        }
        None if is_in_pod => {
            Config::incluster().map_err(|error| refuse(format!("the account of this Pod: {error}")))?
        }
        None => return Ok(None),
    };
    Client::try_from(config).map(Some).map_err(|error| refuse(error.to_string()))
}

fn account_folder() -> Option<String> {
    std::env::var(ACCOUNT_FOLDER).ok().filter(|folder| !folder.is_empty())
}
