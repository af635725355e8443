//! Finds the cluster: `--kubeconfig`, then `KUBECONFIG`, then the service account of the Pod we run in. The file in the
//! home directory is not used silently: an operator must not act by accident on the cluster that its user last looked
//! at.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::launch::ClusterChoice;
use crate::admin::client_without_credentials;
use crate::error::Error;

/// The environment variable that names the folder of a Pod's service account if it is not at the usual path: a
/// Homeostat node without mount namespaces sets it.
const ACCOUNT_FOLDER: &str = "HOMEOSTAT_SERVICE_ACCOUNT";

/// A connected cluster, and a description of the connection for people.
pub(crate) struct ConnectedCluster {
    pub(crate) client: Client,
    /// The server and the user.
    pub(crate) words: String,
    /// The token that identifies us, if any.
    pub(crate) token: Option<String>,
    /// A client for people who present their own token.
    pub(crate) viewer_client: Client,
}

/// Connects to the configured cluster; returns `None` if none is configured.
pub(crate) async fn connect(cluster: &ClusterChoice) -> Result<Option<ConnectedCluster>, Error> {
    let refuse = |error: String| Error::NoCluster(error);
    let file = match cluster {
        ClusterChoice::Of(file) => Some(file.clone()),
        ClusterChoice::Any => std::env::var("KUBECONFIG").ok().filter(|file| !file.is_empty()),
        ClusterChoice::Own => account_folder().map(|folder| format!("{folder}/kubeconfig")),
    };
    let is_in_pod = *cluster == ClusterChoice::Own || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let (config, identity) = match file {
        Some(file) => {
            let parsed = match cluster {
                ClusterChoice::Any => read_list(&file).map_err(refuse)?,
                _ => Kubeconfig::read_from(&file).map_err(|error| refuse(format!("{file}: {error}")))?,
            };
            let identity = user_of(&parsed).map(|user| format!("{user} of {file}")).unwrap_or(file.clone());
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(parsed, &options).await;
            (config.map_err(|error| refuse(format!("{file}: {error}")))?, identity)
        }
        None if is_in_pod => {
            let identity = "the account of this Pod".to_owned();
            (Config::incluster().map_err(|error| refuse(format!("{identity}: {error}")))?, identity)
        }
        None => return Ok(None),
    };
    let words = format!("{} as {identity}", config.cluster_url.to_string().trim_end_matches('/'));
    let token = token_of(&config);
    let viewer_client = client_without_credentials(config.clone())?;
    let client = Client::try_from(config).map_err(|error| refuse(error.to_string()))?;
    Ok(Some(ConnectedCluster { client, words, token, viewer_client }))
}

/// Reads the files that `KUBECONFIG` lists and joins them, as kubectl does: the first file that sets a value wins, and
/// missing files are skipped unless there is no other.
fn read_list(list: &str) -> Result<Kubeconfig, String> {
    let files: Vec<_> = std::env::split_paths(list).filter(|file| !file.as_os_str().is_empty()).collect();
    let existing: Vec<_> = files.iter().filter(|file| file.exists()).collect();
    let mut joined: Option<Kubeconfig> = None;
    for file in if existing.is_empty() { files.iter().collect() } else { existing } {
        let explain = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let next = Kubeconfig::read_from(file).map_err(|error| explain(&error))?;
        joined = Some(match joined {
            Some(before) => before.merge(next).map_err(|error| explain(&error))?,
            None => next,
        });
    }
    joined.ok_or_else(|| "KUBECONFIG names no file".to_owned())
}

/// Returns the token in a configuration, or in the file that it names.
fn token_of(config: &Config) -> Option<String> {
    // The token's type can only be read by serializing it.
    let shown = serde_json::to_value(&config.auth_info).ok()?;
    let token = shown["token"].as_str().map(str::to_owned);
    let token = token.or_else(|| std::fs::read_to_string(config.auth_info.token_file.as_ref()?).ok());
    token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// Returns the user that the current context of a kubeconfig names.
fn user_of(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let named = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    named.context.as_ref()?.user.clone()
}

fn account_folder() -> Option<String> {
    std::env::var(ACCOUNT_FOLDER).ok().filter(|folder| !folder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_files_is_joined_and_the_first_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let context = |name: &str| {
            format!(
                "contexts: [{{name: {name}, context: {{cluster: c, user: {name}-user}}}}]\ncurrent-context: {name}\n"
            )
        };
        let (one, two) = (file("one", &context("one")), file("two", &context("two")));
        let missing = folder.path().join("missing");
        let list = |paths: &[&std::path::Path]| std::env::join_paths(paths).unwrap().into_string().unwrap();
        let joined = read_list(&list(&[&missing, &one, &two])).unwrap();
        assert_eq!(user_of(&joined).as_deref(), Some("one-user"));
        assert_eq!(joined.contexts.len(), 2);
        assert!(read_list(&list(&[&missing])).unwrap_err().contains("missing"));
        assert_eq!(read_list(":").unwrap_err(), "KUBECONFIG names no file");
    }
}
