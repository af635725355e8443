//! Finds the objects that another object refers to and does not work without: the ConfigMaps, Secrets, claims and
//! account of a Pod, the class of a claim, the target of an autoscaler, the Services of an Ingress, the role of a
//! binding. This module performs no I/O.

use std::collections::BTreeSet;

use homeostat_core::Key;
use serde_json::Value;

/// An object that another object needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NeededObject {
    /// The group and version: `v1`, `apps/v1`.
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// Returns the objects that an object refers to and needs.
pub(super) fn needed_by(key: &Key, object: &Value) -> BTreeSet<NeededObject> {
    let spec = &object["spec"];
    let mut needed = BTreeSet::new();
    match (key.group(), key.resource()) {
        ("", "pods") => return needed_by_pod(object),
        ("", "persistentvolumeclaims") => add(&mut needed, STORAGE_CLASS, spec, "storageClassName"),
        ("autoscaling", "horizontalpodautoscalers") => {
            add_named(&mut needed, &spec["scaleTargetRef"], "apiVersion");
        }
        ("networking.k8s.io", "ingresses") => {
            add(&mut needed, INGRESS_CLASS, spec, "ingressClassName");
            let rules = items(&spec["rules"]).flat_map(|rule| items(&rule["http"]["paths"]));
            for backend in rules.map(|path| &path["backend"]).chain([&spec["defaultBackend"]]) {
                add(&mut needed, SERVICE, &backend["service"], "name");
            }
            for tls in items(&spec["tls"]) {
                add(&mut needed, SECRET, tls, "secretName");
            }
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            let mut role = object["roleRef"].clone();
            role["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
            add_named(&mut needed, &role, "apiVersion");
        }
        _ => {}
    }
    needed
}

/// Adds the object that a reference with a kind and a name refers to.
fn add_named(needed: &mut BTreeSet<NeededObject>, reference: &Value, version: &str) {
    let text = |name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    let object = NeededObject { api_version: text(version), kind: text("kind"), name: text("name") };
    if !object.kind.is_empty() && !object.name.is_empty() {
        needed.insert(object);
    }
}

/// Returns the objects that a Pod cannot start without.
fn needed_by_pod(pod: &Value) -> BTreeSet<NeededObject> {
    let spec = &pod["spec"];
    let mut needed = BTreeSet::new();
    for volume in items(&spec["volumes"]) {
        add(&mut needed, CONFIG_MAP, &volume["configMap"], "name");
        add(&mut needed, SECRET, &volume["secret"], "secretName");
        add(&mut needed, CLAIM, &volume["persistentVolumeClaim"], "claimName");
        for source in items(&volume["projected"]["sources"]) {
            add(&mut needed, CONFIG_MAP, &source["configMap"], "name");
            add(&mut needed, SECRET, &source["secret"], "name");
        }
    }
    for container in items(&spec["initContainers"]).chain(items(&spec["containers"])) {
        for source in items(&container["envFrom"]) {
            add(&mut needed, CONFIG_MAP, &source["configMapRef"], "name");
            add(&mut needed, SECRET, &source["secretRef"], "name");
        }
        for variable in items(&container["env"]) {
            add(&mut needed, CONFIG_MAP, &variable["valueFrom"]["configMapKeyRef"], "name");
            add(&mut needed, SECRET, &variable["valueFrom"]["secretKeyRef"], "name");
        }
    }
    add(&mut needed, ACCOUNT, spec, "serviceAccountName");
    add(&mut needed, NODE, spec, "nodeName");
    needed
}

const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");
const SECRET: (&str, &str) = ("v1", "Secret");
const CLAIM: (&str, &str) = ("v1", "PersistentVolumeClaim");
const ACCOUNT: (&str, &str) = ("v1", "ServiceAccount");
const NODE: (&str, &str) = ("v1", "Node");
const SERVICE: (&str, &str) = ("v1", "Service");
const STORAGE_CLASS: (&str, &str) = ("storage.k8s.io/v1", "StorageClass");
const INGRESS_CLASS: (&str, &str) = ("networking.k8s.io/v1", "IngressClass");

fn add(
    needed: &mut BTreeSet<NeededObject>,
    (api_version, kind): (&'static str, &'static str),
    source: &Value,
    field: &str,
) {
    if source["optional"] == true {
        return;
    }
    if let Some(name) = source[field].as_str().filter(|name| !name.is_empty()) {
        needed.insert(NeededObject {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        });
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_pod_needs() {
        let pod = json!({"spec": {
            "serviceAccountName": "account",
            "volumes": [
                {"configMap": {"name": "files"}},
                {"secret": {"secretName": "unneeded", "optional": true}},
                {"persistentVolumeClaim": {"claimName": "disk"}},
            ],
            "containers": [{
                "envFrom": [{"secretRef": {"name": "login"}}],
                "env": [{"valueFrom": {"configMapKeyRef": {"name": "files", "key": "a"}}}, {"name": "plain"}],
            }],
        }});
        check(
            ("", "pods"),
            &pod,
            &["ConfigMap files", "PersistentVolumeClaim disk", "Secret login", "ServiceAccount account"],
        );
    }

    #[test]
    fn what_other_kinds_need() {
        let ingress = json!({"spec": {
            "ingressClassName": "nginx",
            "rules": [{"http": {"paths": [{"backend": {"service": {"name": "web"}}}]}}],
        }});
        check(("networking.k8s.io", "ingresses"), &ingress, &["IngressClass nginx", "Service web"]);
        let autoscaler = json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        check(("autoscaling", "horizontalpodautoscalers"), &autoscaler, &["Deployment web"]);
        let binding = json!({"roleRef": {"kind": "Role", "name": "reader"}});
        check(("rbac.authorization.k8s.io", "rolebindings"), &binding, &["Role reader"]);
        check(("", "configmaps"), &json!({}), &[]);
    }

    #[track_caller]
    fn check((group, resource): (&str, &str), object: &Value, expected: &[&str]) {
        let needed = needed_by(&Key::new(group, resource, "a", "x"), object);
        let mut needed: Vec<String> =
            needed.into_iter().map(|needed| format!("{} {}", needed.kind, needed.name)).collect();
        needed.sort();
        assert_eq!(needed, expected);
    }
}
