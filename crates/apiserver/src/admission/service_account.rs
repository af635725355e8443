//! ServiceAccount: gives every Pod an account, and with it a token and the secrets to pull images.
//!
//! Kubernetes waits a while for a controller to create the account `default`. Here the plugin creates it immediately
//! if the namespace does not have it yet, exactly as the background task would.

use futures::future::BoxFuture;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::core::service_account::SERVICE_ACCOUNT;
use homeostat_api::object::fill::is_zero;
use homeostat_api::status::Status;
use serde_json::{Value, json};

use super::plugin::{Mutate, Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};
use crate::default_account::create_default_account;

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Waiting(mutate_boxed),
    validate: Validate::Now(validate),
    ..Plugin::new("ServiceAccount", |resource| is_kind(resource, &POD))
};

/// The account of Pods that do not name one.
const DEFAULT: &str = "default";
/// The folder in which containers find their token.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The name prefix of the volume that holds the token.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// The lifetime of a token: an hour plus seven seconds, by which Kubernetes recognizes this plugin's volumes.
const TOKEN_S: u32 = 3607;
/// The number of random letters in the name of the volume.
const SUFFIX_LETTERS: usize = 5;
/// Marks a mirror Pod: a copy of a Pod that its node runs independently.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation that restricts an account's Pods to the secrets that the account names.
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

fn mutate_boxed<'a>(
    request: &'a AdmissionRequest<'a>,
    pod: &'a mut Value,
) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(mutate(request, pod))
}

async fn mutate(request: &AdmissionRequest<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is_of(&POD) || request.operation != Operation::Create {
        return Ok(());
    }
    if is_mirror(pod) {
        return validate(request, pod);
    }
    if is_zero(pod["spec"].get("serviceAccountName")) {
        pod["spec"]["serviceAccountName"] = DEFAULT.into();
    }
    // The deprecated field always has the same value.
    pod["spec"]["serviceAccount"] = pod["spec"]["serviceAccountName"].clone();
    let name = account_name(pod);
    if name == DEFAULT && request.load(&SERVICE_ACCOUNT, request.namespace, DEFAULT).is_none() {
        create_default_account(request.backend, request.namespace).await?;
    }
    let account = load_account(request, pod)?;
    if should_mount(&account, pod) {
        let suffix = request.backend.entropy.suffix(SUFFIX_LETTERS);
        mount_token(pod, &format!("{VOLUME_PREFIX}{suffix}"));
    }
    if is_zero(pod["spec"].get("imagePullSecrets")) && !is_zero(account.get("imagePullSecrets")) {
        pod["spec"]["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    Ok(())
}

fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR].is_null()
}

fn account_name(pod: &Value) -> String {
    pod["spec"]["serviceAccountName"].as_str().unwrap_or_default().to_owned()
}

fn load_account(request: &AdmissionRequest<'_>, pod: &Value) -> Result<Value, Status> {
    let (namespace, name) = (request.namespace, account_name(pod));
    request.load(&SERVICE_ACCOUNT, namespace, &name).ok_or_else(|| {
        let missing = format!("serviceaccount {name:?} not found");
        request.forbidden(pod, &format!("error looking up service account {namespace}/{name}: {missing}"))
    })
}

fn should_mount(account: &Value, pod: &Value) -> bool {
    let says = |value: &Value| value["automountServiceAccountToken"].as_bool();
    says(&pod["spec"]).or_else(|| says(account)).unwrap_or(true)
}

/// Mounts the token into every container that mounts nothing else at its path.
fn mount_token(pod: &mut Value, generated: &str) {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.filter_map(|volume| volume["name"].as_str());
    let existing = names.find(|name| name.starts_with(VOLUME_PREFIX)).map(ToOwned::to_owned);
    let name = existing.clone().unwrap_or_else(|| generated.to_owned());
    let mount = json!({"name": name, "readOnly": true, "mountPath": TOKEN_FOLDER});
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            match &mut container["volumeMounts"] {
                Value::Array(mounts) if mounts.iter().any(|one| one["mountPath"] == TOKEN_FOLDER) => continue,
                Value::Array(mounts) => mounts.push(mount.clone()),
                other => *other = json!([mount]),
            }
            is_needed = true;
        }
    }
    if existing.is_none() && is_needed {
        let volume = token_volume(&name);
        match &mut pod["spec"]["volumes"] {
            Value::Array(volumes) => volumes.push(volume),
            other => *other = json!([volume]),
        }
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_S}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

fn validate(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), Status> {
    let is_ephemeral = request.operation == Operation::Update && request.subresource == "ephemeralcontainers";
    let is_new = request.operation == Operation::Create && request.subresource.is_empty();
    if !is_new && !is_ephemeral {
        return Ok(());
    }
    if is_new && is_mirror(pod) {
        return check_mirror(pod).map_err(|why| request.forbidden(pod, why));
    }
    if account_name(pod).is_empty() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let why = format!("no service account specified for pod {}/{name}", request.namespace);
        return Err(request.forbidden(pod, &why));
    }
    let account = load_account(request, pod)?;
    let enforced = account["metadata"]["annotations"][ENFORCE_SECRETS].as_str().unwrap_or_default();
    if !matches!(enforced, "1" | "t" | "T" | "true" | "TRUE" | "True") {
        return Ok(());
    }
    let lists: &[(&str, &str)] = if is_ephemeral {
        &[("ephemeralContainers", "ephemeral container")]
    } else {
        &[("initContainers", "init container"), ("containers", "container")]
    };
    let checked = if is_ephemeral { Ok(()) } else { check_secret_volumes(&account, pod) };
    let checked = checked.and_then(|()| check_secret_references(&account, pod, lists));
    let checked =
        checked.and_then(|()| if is_ephemeral { Ok(()) } else { check_pull_secrets(&account, pod) });
    checked.map_err(|why| request.forbidden(pod, &why))
}

fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    let spec = &pod["spec"];
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    let volumes = || spec["volumes"].as_array().into_iter().flatten();
    let sources = || volumes().flat_map(|one| one["projected"]["sources"].as_array().into_iter().flatten());
    let has_secrets = volumes().any(|volume| !volume["secret"].is_null())
        || sources().any(|source| !source["secret"].is_null())
        || !is_zero(spec.get("imagePullSecrets"))
        || container_secrets(spec, &["containers", "initContainers", "ephemeralContainers"]).next().is_some();
    if has_secrets {
        return Err("a mirror pod may not reference secrets");
    }
    if sources().any(|source| !source["serviceAccountToken"].is_null()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// Returns the secrets that the environment variables of containers refer to: list, container, variable (none for
/// whole sets), secret.
fn container_secrets<'a>(
    spec: &'a Value,
    lists: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, &'a str, Option<&'a str>, &'a str)> {
    let in_list = |list: &'a str| spec[list].as_array().into_iter().flatten().map(move |one| (list, one));
    lists.iter().flat_map(move |list| in_list(list)).flat_map(|(list, container)| {
        let name = container["name"].as_str().unwrap_or_default();
        let variables = container["env"].as_array().into_iter().flatten().filter_map(move |one| {
            let secret = one["valueFrom"]["secretKeyRef"]["name"].as_str()?;
            Some((list, name, one["name"].as_str(), secret))
        });
        let sets = container["envFrom"].as_array().into_iter().flatten();
        let sets = sets.filter_map(move |one| Some((list, name, None, one["secretRef"]["name"].as_str()?)));
        variables.chain(sets)
    })
}

fn names_secret(account: &Value, list: &str, name: &str) -> bool {
    account[list].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name))
}

fn check_secret_volumes(account: &Value, pod: &Value) -> Result<(), String> {
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        if let Some(secret) = volume["secret"]["secretName"].as_str()
            && !names_secret(account, "secrets", secret)
        {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because {}",
                unreferenced(account, "secret")
            ));
        }
    }
    Ok(())
}

fn unreferenced(account: &Value, what: &str) -> String {
    let name = account["metadata"]["name"].as_str().unwrap_or_default();
    format!("service account {name} does not reference that {what}")
}

fn check_secret_references(account: &Value, pod: &Value, lists: &[(&str, &str)]) -> Result<(), String> {
    for (list, shown) in lists {
        for (_, container, variable, secret) in container_secrets(&pod["spec"], &[list]) {
            if names_secret(account, "secrets", secret) {
                continue;
            }
            let by = variable.map_or("envFrom".to_owned(), |name| format!("envVar {name}"));
            return Err(format!(
                "{shown} {container} with {by} referencing secret.secretName=\"{secret}\" is not allowed because {}",
                unreferenced(account, "secret")
            ));
        }
    }
    Ok(())
}

fn check_pull_secrets(account: &Value, pod: &Value) -> Result<(), String> {
    for (at, secret) in pod["spec"]["imagePullSecrets"].as_array().into_iter().flatten().enumerate() {
        let name = secret["name"].as_str().unwrap_or_default();
        if !names_secret(account, "imagePullSecrets", name) {
            let why = unreferenced(account, "imagePullSecret");
            return Err(format!("imagePullSecrets[{at}].name=\"{name}\" is not allowed because {why}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_mounted_where_nothing_else_is() {
        let own = json!([{"name": "own", "mountPath": TOKEN_FOLDER}]);
        let mut pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "volumeMounts": own}]}});
        mount_token(&mut pod, "kube-api-access-abcde");
        let containers = &pod["spec"]["containers"];
        assert_eq!(containers[0]["volumeMounts"][0]["name"], "kube-api-access-abcde");
        assert_eq!(containers[1]["volumeMounts"], own);
        assert_eq!(pod["spec"]["volumes"][0]["name"], "kube-api-access-abcde");
        let mut pod = json!({"spec": {"containers": [{"name": "b", "volumeMounts": own}]}});
        mount_token(&mut pod, "kube-api-access-abcde");
        assert!(pod["spec"]["volumes"].is_null());
    }

    #[test]
    fn the_pod_decides_before_its_account() {
        let check = |pod: Value, account: Value, expected: bool| {
            let named = |value: Value| json!({"automountServiceAccountToken": value});
            assert_eq!(should_mount(&named(account), &json!({"spec": named(pod)})), expected);
        };
        check(Value::Null, Value::Null, true);
        check(Value::Null, json!(false), false);
        check(json!(true), json!(false), true);
        check(json!(false), json!(true), false);
    }

    #[test]
    fn secrets_that_the_account_does_not_name_are_refused_on_demand() {
        let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "known"}]});
        let variable = |secret: &str| json!([{"name": "V", "valueFrom": {"secretKeyRef": {"name": secret}}}]);
        let pod = |secret: &str| json!({"spec": {"containers": [{"name": "c", "env": variable(secret)}]}});
        let lists = [("containers", "container")];
        assert_eq!(check_secret_references(&account, &pod("known"), &lists), Ok(()));
        assert_eq!(
            check_secret_references(&account, &pod("other"), &lists),
            Err("container c with envVar V referencing secret.secretName=\"other\" is not allowed because service \
                 account a does not reference that secret".to_owned())
        );
    }
}
