//! The objects that a Pod needs: ConfigMaps, Secrets, claims, its account. No I/O.

use std::collections::BTreeSet;

use serde_json::Value;

/// An object that a Pod needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NeededObject {
    pub(super) resource: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: String,
}

/// Returns the objects that a Pod cannot start without.
pub(super) fn needed_by_pod(pod: &Value) -> BTreeSet<NeededObject> {
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
    needed
}

const CONFIG_MAP: (&str, &str) = ("configmaps", "ConfigMap");
const SECRET: (&str, &str) = ("secrets", "Secret");
const CLAIM: (&str, &str) = ("persistentvolumeclaims", "PersistentVolumeClaim");
const ACCOUNT: (&str, &str) = ("serviceaccounts", "ServiceAccount");

fn add(
    needed: &mut BTreeSet<NeededObject>,
    (resource, kind): (&'static str, &'static str),
    source: &Value,
    field: &str,
) {
    if source["optional"] == true {
        return;
    }
    if let Some(name) = source[field].as_str().filter(|name| !name.is_empty()) {
        needed.insert(NeededObject { resource, kind, name: name.to_owned() });
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
        let needed: Vec<String> = needed_by_pod(&pod)
            .into_iter()
            .map(|needed| format!("{} {}", needed.kind, needed.name))
            .collect();
        assert_eq!(
            needed,
            ["ConfigMap files", "PersistentVolumeClaim disk", "Secret login", "ServiceAccount account"]
        );
    }
}
