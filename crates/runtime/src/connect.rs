//! Which cluster: `--kubeconfig`, then `KUBECONFIG`, then the account of the Pod we run in. A file in the home
//! directory is not taken silently: an operator that acts on the cluster somebody last looked at is an accident.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::error::Error;

/// The client of the configured cluster; none when nothing is configured.
pub(crate) async fn connect(kubeconfig: Option<&str>) -> Result<Option<Client>, Error> {
    let refuse = |error: String| Error::NoCluster(error);
    let file = kubeconfig
        .map(str::to_owned)
        .or_else(|| std::env::var("KUBECONFIG").ok().filter(|file| !file.is_empty()));
    let config = match file {
        Some(file) => {
            let parsed = Kubeconfig::read_from(&file).map_err(|error| refuse(format!("{file}: {error}")))?;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(parsed, &options).await;
            config.map_err(|error| refuse(format!("{file}: {error}")))?
        }
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            Config::incluster().map_err(|error| refuse(format!("the account of this Pod: {error}")))?
        }
        None => return Ok(None),
    };
    Client::try_from(config).map(Some).map_err(|error| refuse(error.to_string()))
}
