//! What was collected about an object, and the queries that the rules run on it.

use homeostat_core::Key;
use homeostat_core::journal::Record;
use homeostat_core::write_history::{OperatorJournal, WriteRecord};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Everything that an explanation is made of.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The time of the collection.
    pub now: Timestamp,
    /// The object to explain.
    pub subject: Key,
    /// The object itself (if it exists), its owners and the objects it owns. A Service counts as the owner of its Pods.
    pub objects: Vec<SeenObject>,
    /// Objects that these depend on: the claims of Pods, and the nodes of Pods that do not run.
    pub related: Vec<SeenObject>,
    /// Whether the caller may read the object.
    pub is_readable: bool,
    /// Whether the cluster is known to have no nodes.
    pub has_no_nodes: bool,
    /// Events about these objects.
    pub events: Vec<Value>,
    /// What operators did about these objects.
    pub journals: Vec<OperatorJournal>,
    /// What the server recorded about writes to these objects.
    pub writes: Vec<WriteRecord>,
    /// Leases of operators.
    pub leases: Vec<Value>,
    /// References to objects that do not exist.
    pub missing: Vec<MissingReference>,
    /// The field managers of the definition of the object's kind: usually the operator that serves it.
    pub definition_managers: Vec<String>,
    /// What could not be seen, and why.
    pub gaps: Vec<String>,
}

/// An object as the server has it.
#[derive(Clone, Debug)]
pub struct SeenObject {
    /// Its key.
    pub key: Key,
    /// Its kind, as people write it.
    pub kind: String,
    /// The object.
    pub value: Value,
    /// How far below the subject it is: 0 for the subject, 1 for what it owns, -1 for its owner.
    pub depth: i32,
}

/// A reference to an object that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingReference {
    /// Who refers to it.
    pub from: Key,
    /// The kind of the missing object.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl Evidence {
    /// Creates empty evidence about an object.
    pub fn new(now: Timestamp, subject: Key) -> Self {
        Self {
            now,
            subject,
            objects: Vec::new(),
            related: Vec::new(),
            is_readable: true,
            has_no_nodes: false,
            events: Vec::new(),
            journals: Vec::new(),
            writes: Vec::new(),
            leases: Vec::new(),
            missing: Vec::new(),
            definition_managers: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Returns the object to explain, if it exists.
    pub fn subject(&self) -> Option<&SeenObject> {
        self.find(&self.subject)
    }

    /// Returns an object by its key.
    pub(crate) fn find(&self, key: &Key) -> Option<&SeenObject> {
        self.objects.iter().find(|object| object.key == *key)
    }

    /// Returns an object that others depend on.
    pub(crate) fn find_related(&self, resource: &str, namespace: &str, name: &str) -> Option<&SeenObject> {
        let key = Key::new("", resource, namespace, name);
        self.related.iter().find(|object| object.key == key)
    }

    /// Returns the last warning about an object.
    pub(crate) fn last_warning(&self, object: &SeenObject) -> Option<&Value> {
        let warns = |event: &&Value| {
            event["type"] == "Warning" && event["involvedObject"]["uid"].as_str() == Some(object.uid())
        };
        self.events.iter().filter(warns).max_by_key(|event| event_time(event))
    }

    /// Returns the object and everything below it.
    pub(crate) fn below(&self) -> impl Iterator<Item = &SeenObject> {
        self.objects.iter().filter(|object| object.depth >= 0)
    }

    /// Returns all records of all operators with the operator's name, oldest first within each.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.journals
            .iter()
            .flat_map(|journal| journal.records.iter().map(move |record| (journal.operator.as_str(), record)))
    }

    /// Returns the name of an object for use in a sentence.
    pub(crate) fn name_of(&self, key: &Key) -> String {
        let kind = self.find(key).map_or_else(|| singular(key.resource()), |object| object.kind.clone());
        format!("{kind} {}", key.name())
    }
}

impl SeenObject {
    /// Returns the conditions of its status.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Value> {
        self.value["status"]["conditions"].as_array().into_iter().flatten()
    }

    /// Returns the uid.
    pub(crate) fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Returns when its deletion began.
    pub(crate) fn deleted_at(&self) -> Option<Timestamp> {
        // The timestamp is when the grace period ends.
        let grace = self.value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        let deadline = self.deletion_deadline()?;
        Some(deadline.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(deadline))
    }

    /// Returns when it should be gone, unless something else holds it.
    pub(crate) fn deletion_deadline(&self) -> Option<Timestamp> {
        self.value["metadata"]["deletionTimestamp"].as_str()?.parse().ok()
    }

    /// Returns when it was created.
    pub(crate) fn created_at(&self) -> Option<Timestamp> {
        self.value["metadata"]["creationTimestamp"].as_str()?.parse().ok()
    }

    /// Returns whether it is of this built-in kind.
    pub(crate) fn is_a(&self, group: &str, resource: &str) -> bool {
        self.key.group() == group && self.key.resource() == resource
    }

    /// Returns its field managers, as far as the server records them.
    pub(crate) fn managers(&self) -> impl Iterator<Item = &str> {
        let managed = self.value["metadata"]["managedFields"].as_array().into_iter().flatten();
        managed.filter_map(|entry| entry["manager"].as_str())
    }
}

/// Returns when an event was last seen.
pub(crate) fn event_time(event: &Value) -> Option<Timestamp> {
    let times = ["lastTimestamp", "eventTime", "firstTimestamp"];
    let last = event["series"]["lastObservedTime"].as_str();
    last.or_else(|| times.iter().find_map(|name| event[name].as_str()))?.parse().ok()
}

/// Returns the singular of a resource, for objects that were not seen.
fn singular(resource: &str) -> String {
    let stem = match resource {
        name if name.ends_with("ies") => format!("{}y", &name[..name.len() - 3]),
        name if name.ends_with("sses") || name.ends_with("xes") => name[..name.len() - 2].to_owned(),
        name => name.strip_suffix('s').unwrap_or(name).to_owned(),
    };
    match stem.as_str() {
        "configmap" => "ConfigMap".to_owned(),
        "replicaset" => "ReplicaSet".to_owned(),
        "statefulset" => "StatefulSet".to_owned(),
        "daemonset" => "DaemonSet".to_owned(),
        "serviceaccount" => "ServiceAccount".to_owned(),
        "persistentvolumeclaim" => "PersistentVolumeClaim".to_owned(),
        other => {
            other.get(..1).map(str::to_uppercase).unwrap_or_default() + other.get(1..).unwrap_or_default()
        }
    }
}
