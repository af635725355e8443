//! The user of the scenario: creates, applies, edits and deletes objects, as the administrator and unaffected by
//! faults.

use homeostat_core::Revision;
use homeostat_store::{Event, Memory, Store as _};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, ApiResource, Scope};
use kube::{Client, Error};
use serde_json::Value;

use super::scenario::{StepAction, shown_object};

/// The field manager of the scenario's applies.
const FIELD_MANAGER: &str = "scenario";
/// The namespace of objects that do not name one.
const DEFAULT_NAMESPACE: &str = "default";

/// A write by the user, which happened between these revisions.
#[derive(Clone, Debug)]
pub(super) struct UserWrite {
    before: Revision,
    after: Revision,
    kind: String,
    name: String,
}

impl UserWrite {
    /// Creates a write between these revisions of an object of this kind and name.
    #[cfg(test)]
    pub(super) fn new(before: u64, after: u64, kind: &str, name: &str) -> Self {
        let (before, after) = (Revision::new(before), Revision::new(after));
        Self { before, after, kind: kind.to_owned(), name: name.to_owned() }
    }

    /// Returns whether this write can have caused a change: others write at the same time, but hardly ever to the same
    /// object.
    pub(super) fn is_cause_of(&self, event: &Event) -> bool {
        let entry = event.new.as_ref().or(event.old.as_ref());
        let is_kind = || {
            let object: Option<Value> = entry.and_then(|entry| serde_json::from_slice(&entry.bytes).ok());
            object.is_some_and(|object| object["kind"] == *self.kind)
        };
        self.before < event.revision
            && event.revision <= self.after
            && event.key.name() == self.name
            && is_kind()
    }
}

/// The user.
pub(super) struct ScenarioUser {
    client: Client,
    pub(super) writes: Vec<UserWrite>,
    /// The objects that were created or applied, in this order.
    created: Vec<Value>,
}

impl ScenarioUser {
    /// Creates a user with this client.
    pub(super) fn new(client: Client) -> Self {
        Self { client, writes: Vec::new(), created: Vec::new() }
    }

    /// Creates an object that exists before the operator starts. It is not deleted at the end.
    pub(super) async fn set_up(&self, object: &Value) -> Result<(), String> {
        let result = self.create(object).await;
        result.map_err(|error| format!("{} of setup cannot be created: {error}", shown_object(object)))
    }

    /// Performs a step.
    pub(super) async fn perform(&mut self, store: &Memory, action: &StepAction<'_>) -> Result<(), String> {
        let before = store.snapshot().revision();
        let result = match action {
            StepAction::Create(object) => self.create(object).await,
            StepAction::Apply(object) => self.apply(object).await,
            StepAction::Edit(object) => self.edit(object).await,
            StepAction::Delete(object) => self.delete(object).await,
            StepAction::WaitSeconds(_) | StepAction::WaitFor(_) => Ok(()),
        };
        if let Some(object) = action.object() {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let (after, name) = (store.snapshot().revision(), name_of(object).to_owned());
            self.writes.push(UserWrite { before, after, kind, name });
        }
        if let StepAction::Create(object) | StepAction::Apply(object) = action {
            self.created.push((*object).clone());
        }
        result.map_err(|error| error.to_string())
    }

    /// Deletes everything that the steps created and that still exists, last first.
    pub(super) async fn clean_up(&mut self, store: &Memory) -> Result<(), String> {
        for object in std::mem::take(&mut self.created).iter().rev() {
            match self.perform(store, &StepAction::Delete(object)).await {
                Err(why) if !why.contains("NotFound") => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }

    async fn create(&self, object: &Value) -> Result<(), Error> {
        let api = self.api(object).await?;
        let object = serde_json::from_value(object.clone()).map_err(Error::SerdeError)?;
        api.create(&PostParams::default(), &object).await.map(drop)
    }

    async fn apply(&self, object: &Value) -> Result<(), Error> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        self.api(object).await?.patch(name_of(object), &parameters, &Patch::Apply(object)).await.map(drop)
    }

    async fn edit(&self, object: &Value) -> Result<(), Error> {
        let api = self.api(object).await?;
        api.patch(name_of(object), &PatchParams::default(), &Patch::Merge(object)).await.map(drop)
    }

    async fn delete(&self, object: &Value) -> Result<(), Error> {
        self.api(object).await?.delete(name_of(object), &DeleteParams::default()).await.map(drop)
    }

    /// Returns the collection that the object belongs to.
    async fn api(&self, object: &Value) -> Result<Api<DynamicObject>, Error> {
        let (resource, scope) = self.resource_of(object).await?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(DEFAULT_NAMESPACE);
        Ok(match scope {
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), namespace, &resource),
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
        })
    }

    async fn resource_of(&self, object: &Value) -> Result<(ApiResource, Scope), Error> {
        let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let version = version.unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, kind.unwrap_or_default());
        let (resource, capabilities) = discovery::pinned_kind(&self.client, &kind).await?;
        Ok((resource, capabilities.scope))
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
