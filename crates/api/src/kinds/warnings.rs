//! Warnings about objects that are stored unchanged: list entries that hide each other, and features that
//! Kubernetes no longer supports or will remove.
//!
//! Pods are checked when they are created, Pod templates also when the spec around them changes, as in Kubernetes.

use std::collections::{HashMap, HashSet};

use homeostat_core::quantity::Quantity;
use serde_json::Value;

use crate::field::BoundedTexts;
use crate::names;
use crate::object::read;
use crate::resource::Resource;
use crate::resource::declaration::PodTemplate;

/// Old node labels, and their new names.
pub(super) const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
];
/// Annotations that no longer have any effect, and the field that replaces them.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
/// Volume types that are no longer mounted.
pub(super) const OLD_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// The maximum number of ports with which each later one is compared: more than any real Pod has, and few enough to
/// bound the work that a hostile Pod can cause.
const PORTS_COMPARED_MAX: usize = 200;
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings about an object of a built-in kind, either new or replacing `old`.
pub fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut told = BoundedTexts::new();
    let Some(declared) = resource.declaration().and_then(|kind| kind.pod_template) else {
        return told.into();
    };
    let PodTemplate { path, name_is_used_in: used_in, is_checked_on_update } = declared;
    if old.is_some() && !is_checked_on_update {
        return told.into();
    }
    let is_unchanged = |old: &Value| old["spec"] == object["spec"] && old["template"] == object["template"];
    if old.is_some_and(is_unchanged) {
        return told.into();
    }
    let error_texts = names::label(read::string_at(&object["metadata"], "name"));
    if old.is_none() && !used_in.is_empty() && !error_texts.is_empty() {
        let listed = error_texts.join(" ");
        told.push_with(|| {
            format!(
                "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
                 recommended: [{listed}]"
            )
        });
    }
    let template = path.split('.').filter(|part| !part.is_empty()).fold(object, |value, part| &value[part]);
    PodWarnings { template, path, told: &mut told }.look();
    told.into()
}

/// A Pod, or the template of one, and its path.
struct PodWarnings<'a> {
    template: &'a Value,
    path: &'a str,
    told: &'a mut BoundedTexts,
}

impl PodWarnings<'_> {
    fn look(mut self) {
        self.nodes();
        self.annotations();
        self.volumes();
        self.lists();
        self.containers();
        self.ports();
        let grace = &self.template["spec"]["terminationGracePeriodSeconds"];
        if grace.as_i64().is_some_and(|seconds| seconds < 0) {
            let why = "must be >= 0; negative values are invalid and will be treated as 1";
            self.tell("spec.terminationGracePeriodSeconds", why);
        }
        self.affinity();
    }

    fn tell(&mut self, place: &str, why: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = self.path;
        self.told.push_with(|| format!("{path}{dot}{place}: {why}"));
    }

    fn spec(&self, name: &str) -> Vec<Value> {
        read::list_at(&self.template["spec"], name).to_vec()
    }

    fn annotation(&self, name: &str) -> Option<&Value> {
        self.template["metadata"]["annotations"].get(name)
    }

    fn nodes(&mut self) {
        let selector = self.template["spec"]["nodeSelector"].as_object().cloned().unwrap_or_default();
        for key in selector.keys() {
            if let Some(why) = old_node_label(key) {
                self.tell(&format!("spec.nodeSelector[{key}]"), why);
            }
        }
        for (at, constraint) in self.spec("topologySpreadConstraints").iter().enumerate() {
            let place = format!("spec.topologySpreadConstraints[{at}]");
            let key = read::string_at(constraint, "topologyKey");
            if let Some(why) = old_node_label(key) {
                self.tell(&format!("{place}.topologyKey"), &format!("{key} is {why}"));
            }
            if constraint["labelSelector"].is_null() {
                self.tell(&format!("{place}.labelSelector"), NO_SELECTOR);
            }
        }
    }

    fn annotations(&mut self) {
        for (name, why) in OLD_ANNOTATIONS {
            if self.annotation(name).is_some() {
                self.tell(&format!("metadata.annotations[{name}]"), why);
            }
        }
        let has_profile = !self.template["spec"]["securityContext"]["seccompProfile"].is_null();
        if !has_profile && self.annotation(SECCOMP_POD).is_some() {
            self.seccomp(SECCOMP_POD);
        }
    }

    fn seccomp(&mut self, name: &str) {
        let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
        self.tell(&format!("metadata.annotations[{name}]"), why);
    }

    fn volumes(&mut self) {
        for (at, volume) in self.spec("volumes").iter().enumerate() {
            for (kind, why) in OLD_VOLUMES.iter().filter(|(kind, _)| !volume[*kind].is_null()) {
                self.tell(&format!("spec.volumes[{at}].{kind}"), why);
            }
        }
    }

    fn lists(&mut self) {
        for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
            let mut seen = HashSet::new();
            for (at, item) in self.spec(list).iter().enumerate() {
                let value = read::string_at(item, field).to_owned();
                let place = format!("spec.{list}[{at}].{field}");
                if !seen.insert(value.clone()) {
                    self.tell(&place, &format!("duplicate {field} {value:?}"));
                }
                if value.is_empty() && list == "imagePullSecrets" {
                    self.tell(&place, "invalid empty name \"\"");
                }
            }
        }
    }

    /// Returns every container with its path, in the order in which they start.
    fn all_containers(&self) -> Vec<(String, Value)> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let of = |list: &'static str| {
            let found = self.spec(list).into_iter().enumerate();
            found.map(move |(at, container)| (format!("spec.{list}[{at}]"), container))
        };
        lists.into_iter().flat_map(of).collect()
    }

    fn containers(&mut self) {
        for (place, container) in self.all_containers() {
            let name = read::string_at(&container, "name");
            let seccomp = format!("{SECCOMP_CONTAINER}{name}");
            let security = &container["securityContext"];
            if security["seccompProfile"].is_null() && self.annotation(&seccomp).is_some() {
                self.seccomp(&seccomp);
            }
            let app_armor = format!("{APP_ARMOR}{name}");
            if security["appArmorProfile"].is_null() && self.annotation(&app_armor).is_some() {
                let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                self.tell(&format!("metadata.annotations[{app_armor}]"), why);
            }
            self.fractions(&place, &container["resources"]);
            self.hidden_variables(&place, &container);
        }
    }

    fn fractions(&mut self, place: &str, resources: &Value) {
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                let value = resources[list][name].as_str().unwrap_or_default();
                if !value.is_empty() && value.parse::<Quantity>().is_ok_and(Quantity::is_fractional) {
                    let why = format!("fractional byte value {value:?} is invalid, must be an integer");
                    self.tell(&format!("{place}.resources.{list}[{name}]"), &why);
                }
            }
        }
    }

    /// Warns about variables that replace an earlier one; a variable may refer to the one it replaces.
    fn hidden_variables(&mut self, place: &str, container: &Value) {
        let mut seen = HashSet::new();
        for (at, variable) in read::list_at(container, "env").iter().enumerate() {
            let name = read::string_at(variable, "name");
            if seen.insert(name) {
                continue;
            }
            let reference = format!("$({name})");
            let value = read::string_at(variable, "value");
            let is_made_of_it = value.contains(&reference) && value != reference;
            if !variable["valueFrom"].is_null() || !is_made_of_it {
                let why =
                    format!("hides previous definition of {name:?}, which may be dropped when using apply");
                self.tell(&format!("{place}.env[{at}]"), &why);
            }
        }
    }

    fn ports(&mut self) {
        let mut ports: Vec<(String, Value)> = Vec::new();
        for (place, container) in self.all_containers() {
            for (at, port) in read::list_at(&container, "ports").iter().enumerate() {
                let place = format!("{place}.ports[{at}]");
                for (other_place, other) in ports.iter().take(PORTS_COMPARED_MAX) {
                    if self.told.is_full() {
                        return;
                    }
                    if let Some(how) = overlap(port, other) {
                        let other = self.absolute(other_place);
                        self.tell(&place, &format!("{how} port definition with {other}"));
                    }
                }
                ports.push((place, port.clone()));
            }
        }
        let mut names: HashMap<&str, &str> = HashMap::new();
        for (place, port) in &ports {
            let name = read::string_at(port, "name");
            match names.get(name) {
                None if name.is_empty() => {}
                None => drop(names.insert(name, place)),
                Some(other) => {
                    let other = self.absolute(other);
                    let why = format!(
                        "duplicate port name {name:?} with {other}, services and probes that select ports by name will \
                         use {other}"
                    );
                    self.tell(place, &why);
                }
            }
        }
    }

    fn absolute(&self, place: &str) -> String {
        if self.path.is_empty() { place.to_owned() } else { format!("{}.{place}", self.path) }
    }

    fn affinity(&mut self) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = self.template["spec"]["affinity"][kind].clone();
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            for (at, _) in without_selector(read::list_at(&affinity, required), |term| term) {
                self.tell(&format!("spec.affinity.{kind}.{required}[{at}].labelSelector"), NO_SELECTOR);
            }
            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            for (at, _) in
                without_selector(read::list_at(&affinity, preferred), |term| &term["podAffinityTerm"])
            {
                let place = format!("spec.affinity.{kind}.{preferred}[{at}].podAffinityTerm.labelSelector");
                self.tell(&place, NO_SELECTOR);
            }
        }
    }
}

fn without_selector(terms: &[Value], inner: fn(&Value) -> &Value) -> impl Iterator<Item = (usize, &Value)> {
    terms.iter().enumerate().filter(move |(_, term)| inner(term)["labelSelector"].is_null())
}

fn old_node_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

fn protocol(port: &Value) -> &str {
    match read::string_at(port, "protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

/// Returns how two ports of a Pod conflict.
fn overlap(port: &Value, other: &Value) -> Option<&'static str> {
    let number = |port: &Value, name: &str| port[name].as_i64().unwrap_or_default();
    let (protocol, other_protocol) = (protocol(port), protocol(other));
    let is_same =
        number(port, "containerPort") == number(other, "containerPort") && protocol == other_protocol;
    let (host_port, other_host_port) = (number(port, "hostPort"), number(other, "hostPort"));
    let (ip, other_ip) = (read::string_at(port, "hostIP"), read::string_at(other, "hostIP"));
    match () {
        () if !is_same => None,
        () if ip == other_ip && host_port == other_host_port => Some("duplicate"),
        () if host_port == 0 || other_host_port == 0 => Some("overlapping"),
        () if host_port == other_host_port && ip.is_empty() != other_ip.is_empty() => {
            Some("dangerously ambiguous")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(kind: &str) -> Resource {
        crate::kinds::built_in_rows().into_iter().find(|row| &*row.kind == kind).expect("served")
    }

    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        let mut pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let Value::Object(fields) = spec else { panic!("a spec is an object") };
        pod["spec"].as_object_mut().expect("an object").extend(fields);
        assert_eq!(warnings(&served("Pod"), &pod, None), expected);
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"template": pod}});
        let expected = expected.iter().map(|one| format!("spec.template.{one}")).collect::<Vec<_>>();
        let told = warnings(&served("Deployment"), &deployment, None);
        let told = told.iter().map(|one| one.replace("with spec.template.", "with ")).collect::<Vec<_>>();
        assert_eq!(told, expected);
        assert_eq!(warnings(&served("Deployment"), &deployment, Some(&deployment)), [""; 0]);
    }

    #[test]
    fn entries_of_lists_that_hide_each_other() {
        let hides = "hides previous definition of \"A\", which may be dropped when using apply";
        let env =
            |last: Value| json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, last]}]});
        check(env(json!({"name": "A", "value": "2"})), &[&format!("spec.containers[0].env[1]: {hides}")]);
        check(env(json!({"name": "A", "value": "$(A)"})), &[&format!("spec.containers[0].env[1]: {hides}")]);
        check(env(json!({"name": "A", "value": "$(A)2"})), &[]);
        let ports =
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]});
        check(
            ports,
            &["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
        );
        let aliases = json!({"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]});
        check(aliases, &["spec.hostAliases[1].ip: duplicate ip \"1.1.1.1\""]);
        check(json!({"imagePullSecrets": [{}]}), &["spec.imagePullSecrets[0].name: invalid empty name \"\""]);
    }

    #[test]
    fn what_is_old_or_does_nothing() {
        check(
            json!({"nodeSelector": {"beta.kubernetes.io/arch": "x"}}),
            &[
                "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            ],
        );
        check(
            json!({"volumes": [{"name": "v", "rbd": {}}]}),
            &["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"],
        );
        let memory = json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "100m"}}}]});
        let fraction = "fractional byte value \"100m\" is invalid, must be an integer";
        check(memory, &[&format!("spec.containers[0].resources.requests[memory]: {fraction}")]);
        let term = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]});
        let place =
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector";
        check(json!({"affinity": {"podAffinity": term}}), &[&format!("{place}: {NO_SELECTOR}")]);
    }

    #[test]
    fn a_name_that_is_no_host_name() {
        let pod = json!({"metadata": {"name": "a.b"}, "spec": {}});
        let told = warnings(&served("Pod"), &pod, None);
        assert!(told[0].starts_with("metadata.name: this is used in the Pod's hostname, "), "{told:?}");
    }
}
