//! Builds the desired children from the spec and nothing else: the same spec gives the same children.

use std::path::{Path, PathBuf};

use homeostat::prelude::*;
use serde_json::{Value, json};

use crate::database::Database;
use crate::settings::Settings;

/// The image on nodes with images; a node of processes runs the host's own PostgreSQL.
const IMAGE: &str = "postgres:17";

/// The label that leads from a Pod to its Database.
pub(crate) const LABEL: &str = "database.example.com/name";

/// The name of the container that creates the data folder.
pub(crate) const PREPARE: &str = "prepare";

/// What the children are built from.
pub(crate) struct Plan<'a> {
    pub(crate) database: &'a Database,
    pub(crate) settings: &'a Settings,
    pub(crate) port: u16,
    /// Changes with the content of the Secret, so that the Pod is replaced and gets the new password.
    pub(crate) secret_version: String,
}

pub(crate) fn secret_name(database: &Database) -> String {
    format!("{}-credentials", database.name_any())
}

pub(crate) fn pod_name(database: &Database) -> String {
    format!("{}-0", database.name_any())
}

/// Returns the folder of this database's data. Names and namespaces are DNS labels, so they cannot lead elsewhere.
pub(crate) fn data_folder(database: &Database, root: &Path) -> PathBuf {
    root.join(database.namespace().unwrap_or_default()).join(database.name_any())
}

pub(crate) fn labels(database: &Database) -> Value {
    json!({LABEL: database.name_any(), "app.kubernetes.io/managed-by": "database"})
}

/// Returns a Secret with a new random password.
pub(crate) fn secret(database: &Database, password: &str) -> Result<Secret> {
    Ok(from_json(&json!({
        "metadata": {"name": secret_name(database), "labels": labels(database)},
        "stringData": {
            "username": database.spec.username,
            "database": database.spec.database_name,
            "password": password,
        },
    }))?)
}

pub(crate) fn service(plan: &Plan<'_>) -> Result<Service> {
    Ok(from_json(&json!({
        "metadata": {"name": plan.database.name_any(), "labels": labels(plan.database)},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {LABEL: plan.database.name_any()},
            "ports": [{"name": "postgres", "port": plan.port, "targetPort": plan.port, "protocol": "TCP"}],
        },
    }))?)
}

pub(crate) fn stateful_set(plan: &Plan<'_>) -> Result<StatefulSet> {
    let name = plan.database.name_any();
    Ok(from_json(&json!({
        "metadata": {"name": name, "labels": labels(plan.database)},
        "spec": {
            "serviceName": name,
            "replicas": 1,
            // With OrderedReady, a Pod that never becomes ready would never be replaced, not even after the spec was
            // corrected.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {LABEL: name}},
            "template": {
                "metadata": {
                    "labels": labels(plan.database),
                    "annotations": {"database.example.com/secret-version": plan.secret_version},
                },
                "spec": pod(plan),
            },
        },
    }))?)
}

fn pod(plan: &Plan<'_>) -> Value {
    let mut serve = container(plan, "postgres", include_str!("scripts/serve.sh"));
    // The word after a script is its own name; the rest are its arguments.
    serve["args"] = json!(arguments(plan));
    serve["ports"] = json!([{"name": "postgres", "containerPort": plan.port, "protocol": "TCP"}]);
    serve["readinessProbe"] = json!({
        "exec": {"command": script(include_str!("scripts/ready.sh"))},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
    });
    json!({
        "initContainers": [container(plan, PREPARE, include_str!("scripts/prepare.sh"))],
        "containers": [serve],
        "volumes": [volume(plan.settings)],
    })
}

/// Returns PostgreSQL's arguments: ours, then those of the spec.
fn arguments(plan: &Plan<'_>) -> Vec<String> {
    let spec = &plan.database.spec;
    let own = [format!("port={}", plan.port), format!("max_connections={}", spec.max_connections)];
    let others = spec.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    // Kubernetes would replace `$(NAME)` and `$$` in them.
    let literal = |setting: String| setting.replace('$', "$$");
    own.into_iter().chain(others.map(literal)).flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

fn container(plan: &Plan<'_>, name: &str, text: &str) -> Value {
    let (database, settings) = (plan.database, plan.settings);
    let of_secret = |key: &str| json!({"secretKeyRef": {"name": secret_name(database), "key": key}});
    json!({
        "name": name,
        "image": IMAGE,
        "command": script(text),
        "env": [
            {"name": "DATA", "value": data_folder(database, &settings.folder)},
            {"name": "NAME", "value": database.spec.database_name},
            {"name": "ROLE", "value": database.spec.username},
            {"name": "PASSWORD", "valueFrom": of_secret("password")},
            {"name": "PORT", "value": plan.port.to_string()},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "volumeMounts": [mount(settings)],
    })
}

/// Returns the Pod that erases the data when the Database is deleted.
pub(crate) fn eraser(database: &Database, settings: &Settings) -> Result<Pod> {
    Ok(from_json(&json!({
        "metadata": {"name": eraser_name(database), "labels": labels(database)},
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [{
                "name": "erase",
                "image": IMAGE,
                "command": script(include_str!("scripts/erase.sh")),
                "env": [{"name": "DATA", "value": data_folder(database, &settings.folder)}],
                "volumeMounts": [mount(settings)],
            }],
            "volumes": [volume(settings)],
        },
    }))?)
}

pub(crate) fn eraser_name(database: &Database) -> String {
    format!("{}-erase", database.name_any())
}

fn script(text: &str) -> Value {
    json!(["sh", "-euc", format!("{}{text}", include_str!("scripts/path.sh")), "database"])
}

/// Returns the folder of all databases, at the same path inside and outside, so that a process that is not a container
/// finds it.
fn volume(settings: &Settings) -> Value {
    json!({"name": "databases", "hostPath": {"path": settings.folder, "type": "DirectoryOrCreate"}})
}

fn mount(settings: &Settings) -> Value {
    json!({"name": "databases", "mountPath": settings.folder})
}
