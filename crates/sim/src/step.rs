//! The steps of the user: creations, edits and deletions of objects, one after the other.

use std::fmt;
use std::sync::Arc;

use homeostat_runtime::Kind;
use serde_json::Value;

use crate::resource_name::{DEFAULT_NAMESPACE, ResourceName};

type EditFunction = Arc<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// One step of the user.
#[derive(Clone)]
pub struct Step {
    pub(crate) action: StepAction,
    pub(crate) resource: ResourceName,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// A remark for people; usually empty.
    pub(crate) note: String,
    /// Whether the server may refuse it without ending the scenario.
    pub(crate) may_be_refused: bool,
}

#[derive(Clone)]
pub(crate) enum StepAction {
    /// Shared, because steps are cloned at every rest.
    Create(Arc<Value>),
    Edit(EditFunction),
    Delete,
}

impl Step {
    /// Returns the step in words: `edit pages.demo.dev default/home`.
    pub(crate) fn shown(&self) -> String {
        let verb = match &self.action {
            StepAction::Create(_) => "create",
            StepAction::Edit(_) => "edit",
            StepAction::Delete => "delete",
        };
        let note = if self.note.is_empty() { String::new() } else { format!(" ({})", self.note) };
        format!("{verb} {}{note}", self.object())
    }

    /// Returns the object of the step.
    pub(crate) fn object(&self) -> String {
        let slash = if self.resource.is_namespaced { "/" } else { "" };
        let namespace = if self.resource.is_namespaced { &*self.namespace } else { "" };
        format!("{} {namespace}{slash}{}", self.resource.shown(), self.name)
    }

    pub(crate) fn is_delete(&self) -> bool {
        matches!(self.action, StepAction::Delete)
    }

    /// Returns the step that deletes what this one creates.
    pub(crate) fn undoing(&self) -> Self {
        Self { action: StepAction::Delete, note: String::new(), may_be_refused: false, ..self.clone() }
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({})", self.shown())
    }
}

/// Returns a step that creates this object.
#[expect(clippy::needless_pass_by_value, reason = "a scenario reads better without borrows")]
pub fn create<K: Kind>(object: K) -> Step {
    let meta = object.meta();
    let name = meta.name.clone().unwrap_or_default();
    let namespace = meta.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let mut value = serde_json::to_value(&object).expect("an object is plain data");
    value["apiVersion"] = K::api_version(&()).into_owned().into();
    value["kind"] = K::kind(&()).into_owned().into();
    Step {
        action: StepAction::Create(Arc::new(value)),
        resource: ResourceName::of_kind::<K>(),
        namespace,
        name,
        note: String::new(),
        may_be_refused: false,
    }
}

/// Returns a step that edits the object of this name, in the namespace `default` unless given as `namespace/name`.
pub fn edit<K: Kind>(name: &str, change: impl Fn(&mut K) + Send + Sync + 'static) -> Step {
    let change: EditFunction = Arc::new(move |value| {
        let mut object: K = serde_json::from_value(value).map_err(|error| error.to_string())?;
        change(&mut object);
        let mut value = serde_json::to_value(&object).map_err(|error| error.to_string())?;
        value["apiVersion"] = K::api_version(&()).into_owned().into();
        value["kind"] = K::kind(&()).into_owned().into();
        Ok(value)
    });
    named::<K>(StepAction::Edit(change), name)
}

/// Returns a step that deletes the object of this name, in the namespace `default` unless given as `namespace/name`.
pub fn delete<K: Kind>(name: &str) -> Step {
    named::<K>(StepAction::Delete, name)
}

fn named<K: Kind>(action: StepAction, name: &str) -> Step {
    let (namespace, name) = name.split_once('/').unwrap_or((DEFAULT_NAMESPACE, name));
    Step {
        action,
        resource: ResourceName::of_kind::<K>(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        note: String::new(),
        may_be_refused: false,
    }
}

/// Returns a step that replaces the spec of an object. The server may refuse it.
pub(crate) fn edit_spec<K: Kind>(name: &str, note: &str, spec: Value) -> Step {
    let change: EditFunction = Arc::new(move |mut value| {
        value["spec"] = spec.clone();
        Ok(value)
    });
    let step = named::<K>(StepAction::Edit(change), name);
    Step { note: note.to_owned(), may_be_refused: true, ..step }
}
