//! What was collected about an object, and questions that the rules ask about it.

use homeostat_core::Key;
use homeostat_core::journal::Record;
use homeostat_core::write_history::{OperatorJournal, WriteRecord};
use jiff::Timestamp;
use serde_json::Value;

/// Everything that an explanation is made of.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The time of the collection.
    pub now: Timestamp,
    /// Which object is asked about.
    pub subject: Key,
    /// The object itself (unless it does not exist), its owners and what it owns.
    pub objects: Vec<SeenObject>,
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
    /// Returns the object that is asked about, if it exists.
    pub fn subject(&self) -> Option<&SeenObject> {
        self.find(&self.subject)
    }

    /// Returns an object by its key.
    pub(crate) fn find(&self, key: &Key) -> Option<&SeenObject> {
        self.objects.iter().find(|object| object.key == *key)
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

    /// Returns how an object is called in a sentence.
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

    /// Returns since when it is being deleted.
    pub(crate) fn deleted_at(&self) -> Option<Timestamp> {
        self.value["metadata"]["deletionTimestamp"].as_str()?.parse().ok()
    }

    /// Returns who manages which part of it, as far as the server records it.
    pub(crate) fn managers(&self) -> impl Iterator<Item = &str> {
        let managed = self.value["metadata"]["managedFields"].as_array().into_iter().flatten();
        managed.filter_map(|entry| entry["manager"].as_str())
    }
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
