//! Collects the dependencies of the objects: the objects that they refer to, the Pods that a Service selects, and
//! whether there is a node at all. Objects that do not exist are listed as missing; objects that the caller may not
//! read are left out.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use homeostat_core::Key;
use homeostat_explain::{Evidence, MissingReference, SeenObject};
use serde_json::Value;

use super::api_reads::{self, AnswerForm};
use super::collect_evidence::{Collector, OWNED_MAX, PARALLEL_MAX};
use super::references::{NeededObject, needed_by};
use super::served_kinds::{self, ServedKind, escape};
use crate::error::Error;

/// A referenced object, whether it exists, and its state if that matters.
type Referenced = (NeededObject, Vec<Key>, Result<Option<SeenObject>, Error>);

impl Collector<'_> {
    /// Adds the objects that others refer to, and the references whose object does not exist.
    pub(super) async fn add_related(&self, evidence: &mut Evidence) -> Result<(), Error> {
        let mut questions: BTreeMap<(String, NeededObject), Vec<Key>> = BTreeMap::new();
        for object in evidence.objects.iter().filter(|object| object.depth >= 0) {
            for needed in needed_by(&object.key, &object.value) {
                let question = (object.key.namespace().to_owned(), needed);
                questions.entry(question).or_default().push(object.key.clone());
            }
        }
        let mut loads: Vec<BoxFuture<'_, Option<Referenced>>> = Vec::new();
        for ((namespace, needed), from) in questions {
            loads.push(Box::pin(self.load_referenced(namespace, needed, from)));
        }
        let loaded: Vec<Option<Referenced>> = stream::iter(loads).buffered(PARALLEL_MAX).collect().await;
        for (needed, from, answer) in loaded.into_iter().flatten() {
            match answer {
                Ok(Some(object)) => evidence.related.push(object),
                Err(error) if error.is_not_found() => {
                    evidence.missing.extend(from.into_iter().map(|from| MissingReference {
                        from,
                        kind: needed.kind.clone(),
                        name: needed.name.clone(),
                    }));
                }
                Ok(None) | Err(_) => {}
            }
        }
        evidence.has_no_nodes = self.has_no_nodes(evidence).await?;
        Ok(())
    }

    /// Reads an object that others refer to: whole if its state matters, otherwise only its metadata. Returns `None` if
    /// its kind is not served, which does not prove anything.
    async fn load_referenced(
        &self,
        namespace: String,
        needed: NeededObject,
        from: Vec<Key>,
    ) -> Option<Referenced> {
        let kind = served_kinds::find_owner(self.kinds, &needed.api_version, &needed.kind)?;
        let key = kind.key(&namespace, &needed.name);
        let is_whole = matches!(needed.kind.as_str(), "PersistentVolumeClaim" | "Node");
        let form = if is_whole { AnswerForm::Json } else { AnswerForm::Metadata };
        let answer = api_reads::get::<Value>(self.client, &kind.object_path(&key), form).await;
        let answer = answer
            .map(|value| is_whole.then(|| SeenObject { key, kind: kind.kind.clone(), value, depth: 0 }));
        Some((needed, from, answer))
    }

    /// Returns whether a Pod is waiting for a node and there are none.
    async fn has_no_nodes(&self, evidence: &Evidence) -> Result<bool, Error> {
        let waits = |object: &SeenObject| {
            is_pod(&object.key) && object.value["spec"]["nodeName"].as_str().is_none_or(str::is_empty)
        };
        if !evidence.objects.iter().any(waits) {
            return Ok(false);
        }
        let list: Option<Value> =
            api_reads::find(self.client, "/api/v1/nodes?limit=1", AnswerForm::MetadataList).await?;
        Ok(list.is_some_and(|list| list["items"].as_array().is_none_or(Vec::is_empty)))
    }

    /// Adds the Pods that a Service selects, as if it owned them: their problems explain why it does not work.
    pub(super) async fn add_selected_pods(&self, evidence: &mut Evidence) -> Result<(), Error> {
        let Some(service) = evidence.subject().filter(|object| object.key.resource() == "services") else {
            return Ok(());
        };
        let selector = service.value["spec"]["selector"].as_object();
        let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { return Ok(()) };
        let Some(kind) = served_kinds::find_owner(self.kinds, "v1", "Pod") else { return Ok(()) };
        let labels: Vec<String> = selector
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let place = kind.path(&escape(service.key.namespace()));
        let path = format!("{place}?labelSelector={}&limit={OWNED_MAX}", escape(&labels.join(",")));
        let Some(list) = api_reads::find::<Value>(self.client, &path, AnswerForm::Json).await? else {
            evidence.gaps.push("you may not list Pods: those of the Service are not shown".to_owned());
            return Ok(());
        };
        let pods = list["items"].as_array().into_iter().flatten().map(|pod| seen_pod(kind, pod));
        evidence.objects.extend(pods);
        Ok(())
    }
}

fn is_pod(key: &Key) -> bool {
    key.resource() == "pods" && key.group().is_empty()
}

fn seen_pod(kind: &ServedKind, pod: &Value) -> SeenObject {
    let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default();
    SeenObject {
        key: kind.key(text("namespace"), text("name")),
        kind: kind.kind.clone(),
        value: pod.clone(),
        depth: 1,
    }
}
