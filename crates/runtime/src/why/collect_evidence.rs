//! Collects the evidence about an object: the object, its owners and dependents, events, leases, and the records of the
//! server and the operators. It only reads, with the caller's permissions; data that the caller may not read is left
//! out and listed as a gap.
//!
//! **Invariant:** the number of requests is bounded, and lists are read as metadata only, so that a large cluster costs
//! seconds and no Secret is read.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use homeostat_core::{Clock, Key};
use homeostat_explain::{Evidence, SeenObject};
use kube::Client;
use serde_json::Value;

use super::api_reads::{self, AnswerForm};
use super::journals;
use super::served_kinds::{self, ServedKind};
use crate::error::Error;

/// The maximum number of concurrent requests.
pub(super) const PARALLEL_MAX: usize = 8;

/// The maximum number of objects of one kind that are searched for dependents.
const LISTED_MAX: usize = 2000;

/// The maximum number of owned objects that are read completely: Pods first, because they are usually the ones that
/// fail.
pub(super) const OWNED_MAX: usize = 40;

/// The maximum number of owners that are followed upwards.
const OWNERS_MAX: usize = 5;

/// The object to explain.
#[derive(Clone, Debug)]
pub(super) struct WhyQuestion {
    pub(super) kind: String,
    pub(super) name: String,
    /// The namespace; the client's own if absent.
    pub(super) namespace: Option<String>,
}

/// The credentials for asking operators.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    /// The caller's token, which identifies the caller to operators.
    pub(super) token: Option<String>,
}

/// Collects the evidence.
pub(super) async fn collect(
    client: &Client,
    credentials: &Credentials,
    question: &WhyQuestion,
    clock: Clock,
) -> Result<Evidence, Error> {
    let kinds = served_kinds::load(client).await?;
    let kind = served_kinds::find(&kinds, &question.kind)?;
    let namespace = question.namespace.as_deref().unwrap_or_else(|| client.default_namespace());
    served_kinds::check_name("an object", &question.name)?;
    served_kinds::check_name("a namespace", namespace)?;
    let subject = kind.key(namespace, &question.name);
    let collector = Collector { client, kinds: &kinds };
    let mut evidence = Evidence::new(clock.now(), subject.clone());
    evidence.definition_managers = collector.definition_managers(kind).await?;
    match api_reads::get::<Value>(client, &kind.object_path(&subject), AnswerForm::Json).await {
        Ok(value) => {
            let value = without_secrets(&subject, value);
            let seen = SeenObject { key: subject, kind: kind.kind.clone(), value, depth: 0 };
            collector.add_family(seen, &mut evidence).await?;
        }
        Err(error) if error.code() == Some(403) => evidence.is_readable = false,
        Err(error) if matches!(error.code(), Some(404 | 405)) => {}
        Err(error) => return Err(error),
    }
    collector.add_selected_pods(&mut evidence).await?;
    collector.add_related(&mut evidence).await?;
    evidence.leases = collector.leases(&evidence.subject).await?;
    evidence.events = collector.events(&evidence).await?;
    journals::add(client, credentials, &mut evidence).await;
    evidence.now = clock.now();
    Ok(evidence)
}

pub(super) struct Collector<'a> {
    pub(super) client: &'a Client,
    pub(super) kinds: &'a [ServedKind],
}

/// The metadata of the objects of a kind; `None` if they may not be listed.
type Listed<'a> = (&'a ServedKind, Result<Option<Value>, Error>);

/// An owned object that was found in a list.
struct FoundObject {
    key: Key,
    kind: ServedKind,
    uid: String,
    owners: Vec<String>,
}

impl Collector<'_> {
    pub(super) async fn load(&self, kind: &ServedKind, key: &Key) -> Result<Option<Value>, Error> {
        let path = kind.object_path(key);
        let found: Option<Value> = api_reads::find(self.client, &path, AnswerForm::Json).await?;
        Ok(found.map(|value| without_secrets(key, value)))
    }

    /// Adds an object, its owners and its dependents.
    async fn add_family(&self, subject: SeenObject, evidence: &mut Evidence) -> Result<(), Error> {
        let mut child = subject.clone();
        evidence.objects.push(subject.clone());
        for depth in 1..=OWNERS_MAX {
            let Some(owner) = self.owner_of(&child).await? else { break };
            child = SeenObject { depth: -i32::try_from(depth).unwrap_or(0), ..owner };
            evidence.objects.push(child.clone());
        }
        let uid = subject.value["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let (found, gaps) = self.candidates(&subject.key).await?;
        evidence.gaps.extend(gaps);
        let mut family = descendants(&uid, found);
        family.sort_by_key(|(found, depth)| (found.key.resource() != "pods", *depth, found.key.clone()));
        if family.len() > OWNED_MAX {
            let gap = format!("it owns {} objects, of which {OWNED_MAX} were looked at", family.len());
            evidence.gaps.push(gap);
            family.truncate(OWNED_MAX);
        }
        let mut loads: Vec<BoxFuture<'_, Result<Option<SeenObject>, Error>>> = Vec::new();
        for (found, depth) in family {
            loads.push(Box::pin(self.load_found(found, depth)));
        }
        let loaded: Vec<Result<Option<SeenObject>, Error>> =
            stream::iter(loads).buffered(PARALLEL_MAX).collect().await;
        for object in loaded {
            evidence.objects.extend(object?);
        }
        Ok(())
    }

    async fn load_found(&self, found: FoundObject, depth: i32) -> Result<Option<SeenObject>, Error> {
        let FoundObject { key, kind, .. } = found;
        let value = self.load(&kind, &key).await?;
        Ok(value.map(|value| SeenObject { key, kind: kind.kind, value, depth }))
    }

    async fn owner_of(&self, child: &SeenObject) -> Result<Option<SeenObject>, Error> {
        let owners = child.value["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let Some(owner) = owners.clone().find(|owner| owner["controller"] == true).or_else(|| owners.next())
        else {
            return Ok(None);
        };
        let text = |name: &str| owner[name].as_str().unwrap_or_default();
        let Some(kind) = served_kinds::find_owner(self.kinds, text("apiVersion"), text("kind")) else {
            return Ok(None);
        };
        let key = kind.key(child.key.namespace(), text("name"));
        let value = self.load(kind, &key).await?;
        let value = value.filter(|value| value["metadata"]["uid"] == owner["uid"]);
        Ok(value.map(|value| SeenObject { key, kind: kind.kind.clone(), value, depth: -1 }))
    }

    /// Returns every object that may be below this one and has an owner.
    async fn candidates(&self, subject: &Key) -> Result<(Vec<FoundObject>, Vec<String>), Error> {
        let is_searched = |kind: &&ServedKind| {
            kind.can_list
                && !matches!(kind.resource.as_str(), "events" | "componentstatuses")
                && (kind.is_namespaced || subject.namespace().is_empty())
        };
        let mut lists: Vec<BoxFuture<'_, Listed<'_>>> = Vec::new();
        for kind in self.kinds.iter().filter(is_searched) {
            lists.push(Box::pin(self.list(kind, subject.namespace())));
        }
        let lists: Vec<Listed<'_>> = stream::iter(lists).buffered(PARALLEL_MAX).collect().await;
        let (mut found, mut gaps, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, list) in lists {
            match list {
                Ok(Some(list)) => {
                    found.extend(owned_in(kind, &list));
                    if list["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty()) {
                        gaps.push(format!(
                            "of the {} only the first {LISTED_MAX} were searched",
                            kind.resource
                        ));
                    }
                }
                Ok(None) => hidden.push(kind.resource.as_str()),
                Err(error) => gaps.push(error.to_string()),
            }
        }
        if !hidden.is_empty() {
            gaps.push(format!("you may not list {}: owned ones are not shown", hidden.join(", ")));
        }
        Ok((found, gaps))
    }

    async fn list<'k>(&self, kind: &'k ServedKind, namespace: &str) -> Listed<'k> {
        let path = format!("{}?limit={LISTED_MAX}", kind.path(namespace));
        (kind, api_reads::find::<Value>(self.client, &path, AnswerForm::MetadataList).await)
    }

    /// Returns the leases of operators that we may read.
    async fn leases(&self, subject: &Key) -> Result<Vec<Value>, Error> {
        let root = "/apis/coordination.k8s.io/v1";
        let own = self.client.default_namespace();
        let places =
            [subject.namespace(), own].map(|namespace| format!("{root}/namespaces/{namespace}/leases"));
        let all: Option<Value> =
            api_reads::find(self.client, &format!("{root}/leases"), AnswerForm::Json).await?;
        let mut lists: Vec<Value> = all.into_iter().collect();
        if lists.is_empty() {
            for place in BTreeSet::from(places) {
                lists
                    .extend(api_reads::find(self.client, &place, AnswerForm::Json).await.unwrap_or_default());
            }
        }
        let items = lists.iter_mut().filter_map(|list: &mut Value| list["items"].as_array_mut());
        Ok(items.flat_map(std::mem::take).filter(|lease| !is_of_node(lease)).collect())
    }

    async fn events(&self, evidence: &Evidence) -> Result<Vec<Value>, Error> {
        let namespace = match evidence.subject.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let objects = evidence.objects.iter().chain(&evidence.related);
        let uids: Vec<&Value> = objects.map(|object| &object.value["metadata"]["uid"]).collect();
        let path = format!("/api/v1/namespaces/{namespace}/events?limit={LISTED_MAX}");
        let mut list: Value =
            api_reads::find(self.client, &path, AnswerForm::Json).await?.unwrap_or_default();
        let events = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(events.into_iter().filter(|event| uids.contains(&&event["involvedObject"]["uid"])).collect())
    }

    /// Returns the manager of a custom kind's definition.
    async fn definition_managers(&self, kind: &ServedKind) -> Result<Vec<String>, Error> {
        if !kind.group.contains('.') || kind.group.ends_with(".k8s.io") {
            return Ok(Vec::new());
        }
        let root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let path = format!("{root}/{}.{}", kind.resource, kind.group);
        let definition: Option<Value> = api_reads::find(self.client, &path, AnswerForm::Metadata).await?;
        let managed =
            definition.map(|definition| definition["metadata"]["managedFields"].clone()).unwrap_or_default();
        let managers = managed.as_array().into_iter().flatten();
        Ok(managers.filter_map(|entry| entry["manager"].as_str().map(str::to_owned)).collect())
    }
}

/// Returns the objects of a list that have an owner.
fn owned_in(kind: &ServedKind, list: &Value) -> Vec<FoundObject> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().into_iter().flatten();
    let found = items.filter_map(|item| {
        let metadata = &item["metadata"];
        let owners = metadata["ownerReferences"].as_array()?;
        Some(FoundObject {
            key: kind.key(&text(&metadata["namespace"]), &text(&metadata["name"])),
            kind: kind.clone(),
            uid: text(&metadata["uid"]),
            owners: owners.iter().map(|owner| text(&owner["uid"])).collect(),
        })
    });
    found.collect()
}

/// Returns the objects below this uid, with their distance.
fn descendants(uid: &str, found: Vec<FoundObject>) -> Vec<(FoundObject, i32)> {
    let mut rest = found;
    let (mut parents, mut family) = (BTreeSet::from([uid.to_owned()]), Vec::new());
    for depth in 1.. {
        let (children, others): (Vec<FoundObject>, Vec<FoundObject>) =
            rest.into_iter().partition(|found| found.owners.iter().any(|owner| parents.contains(owner)));
        if children.is_empty() {
            break;
        }
        parents = children.iter().map(|child| child.uid.clone()).collect();
        family.extend(children.into_iter().map(|child| (child, depth)));
        rest = others;
    }
    family
}

/// Returns whether a lease is a node's heartbeat, which has nothing to do with operators.
fn is_of_node(lease: &Value) -> bool {
    lease["metadata"]["namespace"] == "kube-node-lease"
}

/// Removes values that must not appear in an explanation.
fn without_secrets(key: &Key, mut value: Value) -> Value {
    if key.resource() == "secrets" && key.group().is_empty() {
        for field in ["data", "stringData"] {
            if let Some(object) = value.as_object_mut() {
                object.remove(field);
            }
        }
    }
    value
}
