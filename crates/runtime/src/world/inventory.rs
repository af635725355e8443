//! The write-ahead inventory records which external resources an object has, or may have. A name enters before the
//! resource is created and leaves after it is gone, so anything that a crash leaves behind is recorded somewhere.
//!
//! It is an annotation on the object, named like our finalizer; with [`Ownership::Records`](super::Ownership::Records)
//! it is the records. Both are written with a precondition, so two operators cannot both start to create the same
//! resource.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use homeostat_core::{FieldDiff, Key};
use jiff::Timestamp;
use kube::Resource;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request as Path;
use serde_json::{Value, json};

use super::decide_step::Owner;
use super::outside_record::{OutsideRecord, OutsideRecordSpec, Records};
use super::world_parts::WorldParts;
use super::world_trait::World;
use crate::cache::WritingRun;
use crate::error::Error;
use crate::kind::{info, key, key_of, revision_of};
use crate::request::{RequestLabel, call_object, send_request};

/// Whether the name was in the inventory already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntentState {
    New,
    Known,
}

impl<W: World> WorldParts<W> {
    /// Returns the resources that this object has or may have, and how long ago each was last intended.
    pub(super) fn inventory(&self, object: &W::Kind) -> BTreeMap<String, Duration> {
        let intents: Vec<(String, String)> = match &self.records {
            None => self.intents(object).into_iter().collect(),
            Some(records) => {
                let ours = records.owned_by(object.meta().uid.as_deref().unwrap_or_default());
                let intent = |record: &Arc<OutsideRecord>| {
                    (record.spec.thing.clone(), record.spec.intended_at.clone())
                };
                ours.iter().map(intent).collect()
            }
        };
        let key = key_of(object);
        intents
            .into_iter()
            .map(|(name, at)| {
                let age = self.age(&key, &name, &at);
                (name, age)
            })
            .collect()
    }

    /// Returns how long ago a resource was intended. A time in the future, from another clock or an edit, is counted
    /// from when we first saw it: it must not delay the object for longer than any other intent.
    fn age(&self, key: &Key, name: &str, at: &str) -> Duration {
        let Ok(intended) = at.parse::<Timestamp>() else { return Duration::MAX };
        match Duration::try_from(self.shared.clock.now().duration_since(intended)) {
            Ok(age) => age.max(self.memory.sighted(key, name, at).unwrap_or_default()),
            Err(_) => self.memory.sight(key, name, at),
        }
    }

    /// Records that we are about to create this resource.
    pub(super) async fn intend(
        &self,
        object: &W::Kind,
        name: &str,
        want: &W::Want,
    ) -> Result<IntentState, Error> {
        let now = self.shared.clock.now().to_string();
        match &self.records {
            None => {
                let mut names = self.intents(object);
                let known = names.insert(name.to_owned(), now);
                self.write_intents(object, &names).await?;
                Ok(if known.is_some() { IntentState::Known } else { IntentState::New })
            }
            Some(records) => {
                let intended =
                    serde_json::to_string(want).map_err(|error| Error::Invalid(error.to_string()))?;
                let spec = OutsideRecordSpec { intended_at: now, intended, ..self.blank(object, name) };
                let known = records.of_resource(name);
                let spec = known.map_or(spec.clone(), |known| known.spec.intend_anew(spec));
                self.record(records, object, spec).await
            }
        }
    }

    /// Records that the resource is known to be ours and to belong to this object.
    pub(super) async fn confirm(&self, object: &W::Kind, name: &str) -> Result<(), Error> {
        let Some(records) = &self.records else { return Ok(()) };
        let Some(known) = records.of_resource(name) else { return Ok(()) };
        let blank = self.blank(object, name);
        if known.spec.made && known.spec.owner_uid == blank.owner_uid {
            return Ok(());
        }
        let (intended_at, intended) = (known.spec.intended_at.clone(), known.spec.intended.clone());
        let spec = OutsideRecordSpec { intended_at, intended, made: true, ..blank };
        self.record(records, object, spec).await.map(|_| ())
    }

    /// Records that the resource is gone, or not ours.
    pub(super) async fn forget(&self, object: &W::Kind, name: &str) -> Result<(), Error> {
        if self.records.is_some() {
            return self.forget_record(&Owner::of_object(object), name).await;
        }
        let mut names = self.intents(object);
        if names.remove(name).is_some() {
            self.write_intents(object, &names).await?;
        }
        Ok(())
    }

    /// Removes this object's record of a resource, if there is one. Another object's record of the same resource is
    /// that object's only link to it, and stays.
    pub(super) async fn forget_record(&self, owner: &Owner, name: &str) -> Result<(), Error> {
        let Some(records) = &self.records else { return Ok(()) };
        let Some(record) = records.of_owner(name, &owner.uid) else { return Ok(()) };
        let path = Path::new(OutsideRecord::url_path(&(), record.metadata.namespace.as_deref()));
        let key = key_of(&*record);
        self.refuse_if_deposed(&owner.key, Verb::Delete, &key)?;
        let request = path.delete(key.name(), &exactly(&record));
        let label = RequestLabel { verb: "delete", target: key.as_str() };
        match send_request::<Value>(&self.shared.client, label, request).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => records.cache.erased().deleted(&key, record.metadata.uid.as_deref()),
        }
        self.wrote(&owner.key, Verb::Delete, key, None);
        Ok(())
    }

    /// Returns an empty record of this object's resource.
    fn blank(&self, object: &W::Kind, name: &str) -> OutsideRecordSpec {
        let meta = object.meta();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        OutsideRecordSpec {
            manager: self.manager().to_owned(),
            world: W::NAME.to_owned(),
            thing: name.to_owned(),
            owner: text(&meta.name),
            owner_namespace: text(&meta.namespace),
            owner_uid: text(&meta.uid),
            intended_at: String::new(),
            intended: String::new(),
            intended_before: vec![],
            made: false,
        }
    }

    /// Creates or rewrites the record of a resource.
    async fn record(
        &self,
        records: &Records,
        object: &W::Kind,
        spec: OutsideRecordSpec,
    ) -> Result<IntentState, Error> {
        let known = records.of_resource(&spec.thing);
        let verb = if known.is_none() { Verb::Create } else { Verb::Patch };
        let target = match &known {
            Some(known) => key_of(&**known),
            None => key::<OutsideRecord>(spec.namespace(), &spec.object_name()),
        };
        self.refuse_if_deposed(&key_of(object), verb, &target)?;
        let written = match &known {
            None => self.create_record(spec).await?,
            Some(known) => self.replace_record(known, &spec).await?,
        };
        self.wrote(&key_of(object), verb, key_of(&written), Some(revision_of(&written)));
        records.cache.wrote(written, self.writer(key_of(object)));
        Ok(if known.is_none() { IntentState::New } else { IntentState::Known })
    }

    async fn create_record(&self, spec: OutsideRecordSpec) -> Result<OutsideRecord, Error> {
        let (name, place) = (spec.object_name(), spec.namespace().to_owned());
        let body = serde_json::to_vec(&OutsideRecord::new(&name, spec))
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let path = Path::new(OutsideRecord::url_path(&(), Some(&place)));
        let label = RequestLabel { verb: "create", target: &name };
        send_request(&self.shared.client, label, path.create(&PostParams::default(), body)).await
    }

    async fn replace_record(
        &self,
        known: &Arc<OutsideRecord>,
        spec: &OutsideRecordSpec,
    ) -> Result<OutsideRecord, Error> {
        let meta = &known.metadata;
        let patch =
            json!({"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid}, "spec": spec});
        let key = key_of(&**known);
        let url = Path::new(OutsideRecord::url_path(&(), meta.namespace.as_deref()));
        let request = url.patch(key.name(), &self.patching(), &Patch::Merge(patch));
        send_request(&self.shared.client, RequestLabel { verb: "write", target: key.as_str() }, request).await
    }

    fn inventory_annotation(&self) -> String {
        format!("{}/{}", self.shared.name, self.source)
    }

    /// Returns the inventory from the annotation. An annotation that cannot be read counts as empty, because the
    /// resources are still marked.
    fn intents(&self, object: &W::Kind) -> BTreeMap<String, String> {
        let text = self.annotation(object, &self.inventory_annotation());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    async fn write_intents(&self, object: &W::Kind, names: &BTreeMap<String, String>) -> Result<(), Error> {
        let value = if names.is_empty() { Value::Null } else { json!(json!(names).to_string()) };
        self.annotate(object, "write the inventory of", json!({self.inventory_annotation(): value})).await
    }

    /// Returns the current value of an annotation on the object.
    pub(super) fn annotation(&self, object: &W::Kind, name: &str) -> Option<String> {
        // Our own recent write is in the cache, not in the object this run began with.
        let newest = self.cache.get(&key_of(object));
        let meta = newest.as_deref().unwrap_or(object).meta();
        meta.annotations.as_ref()?.get(name).cloned()
    }

    /// Sets annotations on the object, or removes those that are null; `verb` names the purpose. The write is refused
    /// if the object has changed since we read it.
    pub(super) async fn annotate(
        &self,
        object: &W::Kind,
        verb: &'static str,
        annotations: Value,
    ) -> Result<(), Error> {
        let key = key_of(object);
        self.refuse_if_deposed(&key, Verb::Patch, &key)?;
        let newest = self.cache.get(&key);
        let meta = newest.as_deref().unwrap_or(object).meta();
        let patch = json!({"metadata": {
            "annotations": annotations,
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
        }});
        let url = Path::new(W::Kind::url_path(&(), meta.namespace.as_deref()));
        let request = url.patch(key.name(), &self.patching(), &Patch::Merge(patch));
        let label = RequestLabel { verb, target: key.as_str() };
        let info = info::<W::Kind>();
        let written = call_object(&self.shared.client, label, info, request).await?;
        self.wrote(&key, Verb::Patch, key.clone(), Some(written.revision()));
        self.cache.erased().wrote(written, self.writer(key));
        Ok(())
    }

    /// Returns the run of this object, as the caches identify it.
    fn writer(&self, object: Key) -> WritingRun {
        WritingRun { source: self.source.clone(), object }
    }

    fn patching(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.shared.name.to_string()), ..PatchParams::default() }
    }

    fn wrote(&self, object: &Key, verb: Verb, target: Key, revision: Option<homeostat_core::Revision>) {
        let outcome = WriteOutcome::Done { revision };
        let entry =
            Entry::Wrote { object: object.clone(), verb, target, outcome, diff: FieldDiff::default() };
        self.shared.journal.record(&self.source, entry);
    }
}

/// Returns parameters that delete this record only in its known state: a record that another object has taken over in
/// the meantime is not ours to delete.
fn exactly(record: &OutsideRecord) -> DeleteParams {
    let ObjectMeta { uid, resource_version, .. } = record.metadata.clone();
    DeleteParams { preconditions: Some(Preconditions { uid, resource_version }), ..DeleteParams::default() }
}
