//! Reads the objects that a plan needs from the cluster: the kinds that the operator uses, those in the change, those
//! that admission consults, and the owners of all of them.
//!
//! **Invariant:** this module only lists objects. An owner that may not be read is replaced by a stand-in, because the
//! in-memory garbage collection would otherwise delete its dependents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_apiserver::preload::{Preload, StoredKind};
use homeostat_runtime::Operator;
use homeostat_store::Memory;
use kube::Client;
use serde_json::{Value, json};

use super::change::Change;
use super::error::PlanError;

/// The page size, the same as kubectl's.
const PAGE: usize = 500;

/// Kinds that influence what the server does with writes. They are read if that is allowed.
const CONSULTED: [(&str, &str); 12] = [
    ("", "namespaces"),
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("networking.k8s.io", "ingressclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
];

/// Kinds that are never read: records of what happened, and webhook configurations, because a plan does not call
/// webhooks.
const SKIPPED: [(&str, &str); 5] = [
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
];

/// Kinds that an operator may use but a plan can do without.
const OPTIONAL: [(&str, &str); 1] = [("", "nodes")];

/// The scope of a read.
pub(super) struct ReadScope {
    resources: BTreeSet<(String, String)>,
    /// `apiVersion` and kind.
    change_kinds: BTreeSet<(String, String)>,
    change_namespaces: BTreeSet<String>,
    only_namespace: Option<String>,
    definitions: Vec<Value>,
    /// Whether to read all kinds: a deletion may reach dependents of any kind.
    reads_everything: bool,
}

impl ReadScope {
    pub(super) fn new(operator: &Operator, change: &Change) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kinds = change.objects.iter().map(|object| (text(&object["apiVersion"]), text(&object["kind"])));
        let namespaces = change.objects.iter().map(|object| text(&object["metadata"]["namespace"]));
        Self {
            resources: operator.used_resources().into_iter().collect(),
            change_kinds: kinds.collect(),
            change_namespaces: namespaces.collect(),
            only_namespace: operator.only_namespace().map(ToOwned::to_owned),
            definitions: operator.definitions(),
            reads_everything: change.is_delete,
        }
    }
}

/// The objects that were read.
pub(super) struct ClusterState {
    pub(super) definitions: Vec<Value>,
    pub(super) objects: Vec<Value>,
    pub(super) read: ReadSummary,
}

/// A summary of what was read and what was not.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadSummary {
    /// The resources that were read, as kubectl names them.
    pub(super) resources: BTreeSet<String>,
    /// Those that could not be read, and why.
    pub(super) unreadable: BTreeMap<String, String>,
}

/// Reads the cluster.
pub(super) async fn read(client: &Client, wanted: &ReadScope) -> Result<ClusterState, PlanError> {
    let mut reader = ClusterReader { client, wanted, read: ReadSummary::default(), objects: Vec::new() };
    let definitions = reader.definitions().await?;
    let refuse = |error: homeostat_store::Error| PlanError::ControlPlane(error.to_string());
    let kinds = Preload::new(Arc::new(Memory::new()), &definitions).await.map_err(refuse)?;
    reader.needed_kinds(&kinds).await?;
    reader.owners(&kinds).await?;
    reader.stand_in_for_namespaces();
    Ok(ClusterState { definitions, objects: reader.objects, read: reader.read })
}

struct ClusterReader<'a> {
    client: &'a Client,
    wanted: &'a ReadScope,
    read: ReadSummary,
    objects: Vec<Value>,
}

/// The reason a list failed.
enum ListFailure {
    /// The caller does not have permission.
    Forbidden(String),
    /// The cluster does not serve the kind.
    NotServed,
    /// Anything else.
    Other(String),
}

impl ClusterReader<'_> {
    /// Reads the definitions of custom kinds; without permission, uses those that the operator would install.
    async fn definitions(&mut self) -> Result<Vec<Value>, PlanError> {
        let kind = StoredKind {
            group: "apiextensions.k8s.io".to_owned(),
            version: "v1".to_owned(),
            plural: "customresourcedefinitions".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            is_namespaced: false,
        };
        match self.list(&kind, None).await {
            Ok(definitions) => {
                self.read.resources.insert(kind.resource());
                Ok(definitions)
            }
            Err(ListFailure::Forbidden(message)) => {
                self.read.unreadable.insert(kind.resource(), message);
                Ok(self.wanted.definitions.iter().cloned().map(as_established).collect())
            }
            Err(ListFailure::NotServed) => Ok(Vec::new()),
            Err(ListFailure::Other(message)) => {
                Err(PlanError::Unreadable { resource: kind.resource(), message })
            }
        }
    }

    async fn needed_kinds(&mut self, preload: &Preload) -> Result<(), PlanError> {
        let wanted = self.wanted;
        let of_change: Vec<StoredKind> =
            wanted.change_kinds.iter().filter_map(|(version, kind)| preload.kind(version, kind)).collect();
        for kind in preload.kinds() {
            let id = (kind.group.as_str(), kind.plural.as_str());
            if SKIPPED.contains(&id) || kind.plural == "customresourcedefinitions" {
                continue;
            }
            let is_of_change = of_change.iter().any(|other| (&*other.group, &*other.plural) == id);
            let is_used = wanted.resources.contains(&(kind.group.clone(), kind.plural.clone()));
            let is_needed = is_of_change || is_used && !OPTIONAL.contains(&id);
            if is_needed {
                self.read_needed(&kind).await?;
            } else if is_used || CONSULTED.contains(&id) || wanted.reads_everything {
                self.read_optional(&kind).await?;
            }
        }
        Ok(())
    }

    /// Reads a kind without which a plan would be wrong.
    async fn read_needed(&mut self, kind: &StoredKind) -> Result<(), PlanError> {
        let unreadable = |message| PlanError::Unreadable { resource: kind.resource(), message };
        match self.list(kind, self.wanted.only_namespace.as_deref()).await {
            Ok(objects) => self.keep(kind, objects),
            Err(ListFailure::NotServed) => {}
            Err(ListFailure::Other(message)) => return Err(unreadable(message)),
            Err(ListFailure::Forbidden(message)) if !kind.is_namespaced => return Err(unreadable(message)),
            // Some users may read only their own namespaces.
            Err(ListFailure::Forbidden(message)) => {
                for namespace in &self.wanted.change_namespaces {
                    match self.list(kind, Some(namespace)).await {
                        Ok(objects) => self.keep(kind, objects),
                        Err(_) => return Err(unreadable(message)),
                    }
                }
                let names: Vec<&str> = self.wanted.change_namespaces.iter().map(String::as_str).collect();
                let limit = format!("only the namespace {} was read: {message}", names.join(", "));
                self.read.unreadable.insert(kind.resource(), limit);
            }
        }
        Ok(())
    }

    /// Reads a kind if that is allowed.
    async fn read_optional(&mut self, kind: &StoredKind) -> Result<(), PlanError> {
        match self.list(kind, self.wanted.only_namespace.as_deref()).await {
            Ok(objects) => self.keep(kind, objects),
            Err(ListFailure::NotServed) => {}
            Err(ListFailure::Forbidden(message)) => {
                self.read.unreadable.insert(kind.resource(), message);
            }
            Err(ListFailure::Other(message)) => {
                return Err(PlanError::Unreadable { resource: kind.resource(), message });
            }
        }
        Ok(())
    }

    fn keep(&mut self, kind: &StoredKind, objects: Vec<Value>) {
        self.read.resources.insert(kind.resource());
        self.objects.extend(objects);
    }

    /// Reads the kinds of owners that were not read, their owners, and so on.
    async fn owners(&mut self, preload: &Preload) -> Result<(), PlanError> {
        let mut tried = BTreeSet::new();
        loop {
            let mut missing = self.owner_kinds(preload);
            missing
                .retain(|resource, _| !self.read.resources.contains(resource) && !tried.contains(resource));
            let Some((resource, kind)) = missing.pop_first() else { break };
            tried.insert(resource);
            self.read_optional(&kind).await?;
        }
        let stand_ins = self.stand_in_owners(preload);
        self.objects.extend(stand_ins);
        Ok(())
    }

    fn owner_kinds(&self, preload: &Preload) -> BTreeMap<String, StoredKind> {
        let owners = self.objects.iter().flat_map(owner_references);
        let kinds: BTreeSet<(&str, &str)> =
            owners.map(|owner| (text(owner, "apiVersion"), text(owner, "kind"))).collect();
        let known = kinds.into_iter().filter_map(|(version, kind)| preload.kind(version, kind));
        known.map(|kind| (kind.resource(), kind)).collect()
    }

    /// Returns objects with the names and uids of owners whose kinds the caller may not read.
    fn stand_in_owners(&self, preload: &Preload) -> Vec<Value> {
        let mut stand_ins = BTreeMap::new();
        for object in &self.objects {
            for owner in owner_references(object) {
                let (version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
                let Some(stored) = preload.kind(version, kind) else { continue };
                if self.read.resources.contains(&stored.resource()) {
                    continue;
                }
                let mut stand_in = json!({"apiVersion": version, "kind": kind,
                    "metadata": {"name": owner["name"], "uid": owner["uid"]}});
                if stored.is_namespaced {
                    stand_in["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
                }
                stand_ins.insert(text(owner, "uid").to_owned(), stand_in);
            }
        }
        stand_ins.into_values().collect()
    }

    /// Assumes that the namespaces in use exist, if there is no permission to list namespaces.
    fn stand_in_for_namespaces(&mut self) {
        if self.read.resources.contains("namespaces") {
            return;
        }
        let used = self.objects.iter().map(|object| text(&object["metadata"], "namespace").to_owned());
        let names: BTreeSet<String> = used.chain(self.wanted.change_namespaces.iter().cloned()).collect();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            self.objects.push(json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "uid": format!("namespace-{name}"),
                             "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}));
        }
    }

    /// Lists all objects of a kind, page by page.
    async fn list(&self, kind: &StoredKind, namespace: Option<&str>) -> Result<Vec<Value>, ListFailure> {
        let (mut objects, mut token) = (Vec::new(), String::new());
        loop {
            let path = kind.path(namespace);
            let uri = if token.is_empty() {
                format!("{path}?limit={PAGE}")
            } else {
                format!("{path}?limit={PAGE}&continue={}", escaped(&token))
            };
            let request = http::Request::get(uri).body(Vec::new());
            let request = request.map_err(|error| ListFailure::Other(error.to_string()))?;
            let mut page: Value = self.client.request(request).await.map_err(list_failure)?;
            if let Value::Array(items) = page["items"].take() {
                objects.extend(items.into_iter().map(|item| typed(kind, item)));
            }
            text(&page["metadata"], "continue").clone_into(&mut token);
            if token.is_empty() {
                return Ok(objects);
            }
        }
    }
}

fn list_failure(error: kube::Error) -> ListFailure {
    match error {
        kube::Error::Api(status) if status.code == 403 => ListFailure::Forbidden(status.message.clone()),
        kube::Error::Api(status) if status.code == 404 => ListFailure::NotServed,
        kube::Error::Api(status) => ListFailure::Other(status.message.clone()),
        other => ListFailure::Other(other.to_string()),
    }
}

/// Returns an item of a list with its kind, which lists leave out.
fn typed(kind: &StoredKind, mut item: Value) -> Value {
    item["apiVersion"] = kind.api_version().into();
    item["kind"] = kind.kind.clone().into();
    item
}

/// Escapes a continue token for a query.
fn escaped(token: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    token
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Returns a definition in the state it has once its kind is served.
fn as_established(mut definition: Value) -> Value {
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": "Accepted", "message": ""});
    let stored = definition["spec"]["versions"].as_array().into_iter().flatten();
    let stored: Vec<Value> =
        stored.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect();
    definition["status"] = json!({
        "conditions": [condition("NamesAccepted"), condition("Established")],
        "acceptedNames": definition["spec"]["names"],
        "storedVersions": stored,
    });
    definition["metadata"]["uid"] = format!("definition-{}", text(&definition["metadata"], "name")).into();
    definition
}

fn owner_references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
