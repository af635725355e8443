//! Handles a Pod's ServiceAccount: the account its processes use with the server, and where they find their
//! credentials.
//!
//! In Kubernetes, an admission plugin adds a volume with a token, the server's CA and the namespace to every Pod. Here
//! the node treats the Pod as if that had happened; the stored Pod stays as it was written. If the system offers no
//! mount namespaces, the volume cannot be at the path that all clients know. In that case there is a kubeconfig next to
//! the token, and variables name it.
//!
//! A node that does not know its server's address does none of this.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use homeostat_runtime::{ObjectName, from_json};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ServiceAccount, Volume, VolumeMount};
use serde_json::json;

use super::environment::Environment;
use super::service_variables::{ServiceLinkPort, variables_of_service};
use crate::node::NodeShared;

/// The volume's name: it has a dot, which the name of a Pod's own volume cannot have.
pub(crate) const VOLUME: &str = "serviceaccount.kubernetes.io";
/// The path at which clients look for it.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The variable that names the folder if it cannot be at that path; our operators' `--in-cluster` reads it.
const FOLDER_VARIABLE: &str = "HOMEOSTAT_SERVICE_ACCOUNT";
/// The ConfigMap in every namespace that contains the server's certificate authority.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
/// The name prefix of the volume that ServiceAccount admission adds.
const ADMITTED: &str = "kube-api-access-";
/// The lifetime that Kubernetes' admission plugin asks for.
const LIFETIME_S: i64 = 3607;

/// Returns the name of the Pod's account.
pub(crate) fn account_name(pod: &Pod) -> &str {
    let named = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    named.filter(|name| !name.is_empty()).unwrap_or("default")
}

/// Returns the account as a watch target of the Pod's reconciler.
pub(crate) fn account_target(pod: &Pod) -> Vec<ObjectName> {
    vec![ObjectName::from(account_name(pod))]
}

/// Returns whether the Pod wants its account's token. The Pod's own setting comes first, then the account's.
pub(crate) fn wants_token(pod: &Pod, account: Option<&ServiceAccount>) -> bool {
    let own = pod.spec.as_ref().and_then(|spec| spec.automount_service_account_token);
    let of_account = account.and_then(|account| account.automount_service_account_token);
    own.or(of_account).unwrap_or(true)
}

/// Returns the Pod with its account mounted in every container that has nothing at that path.
pub(crate) fn with_account_mounted(pod: &Pod) -> Arc<Pod> {
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        containers.for_each(mount);
        spec.volumes.get_or_insert_default().push(volume());
    }
    Arc::new(pod)
}

fn mount(container: &mut Container) {
    let mounts = container.volume_mounts.get_or_insert_default();
    // The volume that ServiceAccount admission mounted is also the account; the node's own volume contains more.
    let is_admitted =
        |mount: &&mut VolumeMount| mount.mount_path == FOLDER && mount.name.starts_with(ADMITTED);
    if let Some(mount) = mounts.iter_mut().find(is_admitted) {
        VOLUME.clone_into(&mut mount.name);
    }
    if mounts.iter().all(|mount| mount.mount_path != FOLDER) {
        mounts.push(VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: FOLDER.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
}

fn volume() -> Volume {
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": LIFETIME_S}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    from_json(&json!({"name": VOLUME, "projected": {"sources": sources}}))
        .expect("a volume written here is valid")
}

/// Returns whether the container sees its account.
fn is_mounted(container: &Container) -> bool {
    container.volume_mounts.iter().flatten().any(|mount| mount.name == VOLUME)
}

/// Returns every projected token that the Pod requests: audience and lifetime.
pub(crate) fn requested_tokens(spec: &PodSpec) -> impl Iterator<Item = (Option<&str>, Option<i64>)> {
    let projected = spec.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    let tokens = sources.filter_map(|source| source.service_account_token.as_ref());
    tokens.map(|token| (token.audience.as_deref(), token.expiration_seconds))
}

/// Returns the variables that tell a container where its server is, and where its account is if not at the known path.
/// The Pod's own variables come later and win.
pub(crate) fn variables(shared: &NodeShared, container: &Container, volumes: &Path) -> Environment {
    let Some(server) = shared.options.server else { return Environment::new() };
    let port = ServiceLinkPort { number: server.port().into(), name: "https", protocol: "TCP" };
    let mut variables = variables_of_service("kubernetes", &server.ip().to_string(), &[port]);
    if !shared.has_namespaces && is_mounted(container) {
        let folder = volumes.join(VOLUME);
        variables.insert("KUBECONFIG".to_owned(), folder.join("kubeconfig").display().to_string());
        variables.insert(FOLDER_VARIABLE.to_owned(), folder.display().to_string());
    }
    variables
}

/// Returns the kubeconfig next to the token, for containers that cannot have the token where clients look for it.
pub(crate) fn kubeconfig(shared: &NodeShared, pod: &Pod, volume: &Volume) -> Option<String> {
    let server = shared.options.server.filter(|_| !shared.has_namespaces && volume.name == VOLUME)?;
    Some(kubeconfig_of(server, pod.metadata.namespace.as_deref().unwrap_or_default()))
}

/// Returns a kubeconfig as JSON, which is also YAML; clients look for the files next to it.
fn kubeconfig_of(server: SocketAddr, namespace: &str) -> String {
    let context = json!({"cluster": "homeostat", "user": "account", "namespace": namespace});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "account",
        "clusters": [{"name": "homeostat",
            "cluster": {"server": format!("https://{server}"), "certificate-authority": "ca.crt"}}],
        "users": [{"name": "account", "user": {"tokenFile": "token"}}],
        "contexts": [{"name": "account", "context": context}],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(automount: Option<bool>) -> Pod {
        let mounts = json!([{"name": "own", "mountPath": FOLDER}]);
        serde_json::from_value(json!({"metadata": {}, "spec": {
            "automountServiceAccountToken": automount,
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main"}, {"name": "has-its-own", "volumeMounts": mounts}],
        }}))
        .unwrap()
    }

    #[test]
    fn the_pod_decides_before_its_account() {
        let check = |of_pod: Option<bool>, of_account: Option<bool>, expected: bool| {
            let account =
                ServiceAccount { automount_service_account_token: of_account, ..ServiceAccount::default() };
            assert_eq!(wants_token(&pod(of_pod), Some(&account)), expected, "{of_pod:?} {of_account:?}");
        };
        check(None, None, true);
        check(None, Some(false), false);
        check(Some(true), Some(false), true);
        check(Some(false), Some(true), false);
    }

    #[test]
    fn what_admission_mounted_is_the_account() {
        let mut pod = pod(None);
        let mounts = json!([{"name": "kube-api-access-abcde", "mountPath": FOLDER}]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].volume_mounts = serde_json::from_value(mounts).unwrap();
        let pod = with_account_mounted(&pod);
        let container = &pod.spec.as_ref().unwrap().containers[0];
        assert!(is_mounted(container) && container.volume_mounts.as_ref().unwrap().len() == 1);
    }

    #[test]
    fn a_mount_of_its_own_is_left_alone() {
        let pod = with_account_mounted(&pod(None));
        let spec = pod.spec.as_ref().unwrap();
        let sees: Vec<bool> =
            spec.init_containers.iter().flatten().chain(&spec.containers).map(is_mounted).collect();
        assert_eq!(sees, [true, true, false]);
        assert_eq!(requested_tokens(spec).collect::<Vec<_>>(), [(None, Some(LIFETIME_S))]);
    }
}
