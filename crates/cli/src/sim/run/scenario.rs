//! The scenario file: the objects that exist before the operator starts, the steps of the user, and the conditions that
//! must hold.
//!
//! **Invariant:** a loaded scenario needs no other file; the files it names are read when it is loaded, so that a saved
//! failure can be repeated anywhere.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::count_condition::CountCondition;

/// How long an operator may take to handle a step or a fault: longer than most operators' first retries, and than the
/// 15 s that the lease of a killed leader usually lasts.
const PATIENCE_SECONDS: f64 = 20.0;
/// How long nothing must be written before an undisturbed operator counts as at rest.
const SETTLE_SECONDS: f64 = 2.0;
/// How long an undisturbed operator is watched at rest.
const REST_SECONDS: f64 = 3.0;

/// A scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Scenario {
    /// Objects that exist before the operator starts, or names of files that contain them.
    #[serde(default)]
    setup: Vec<Value>,
    /// The steps of the user.
    pub(super) steps: Vec<Step>,
    /// The conditions that must always hold.
    #[serde(default)]
    pub(super) always: Vec<CountCondition>,
    /// The conditions that must hold at rest after the last step.
    #[serde(default)]
    pub(super) eventually: Vec<CountCondition>,
    /// Paths of fields that may differ from run to run: `status.attempts`.
    #[serde(default)]
    pub(super) ignore: Vec<String>,
    /// Objects that may stay after everything has been deleted: `configmaps default/journal`; `*` stands for any
    /// string.
    #[serde(default)]
    pub(super) keeps: Vec<String>,
    /// Whether the command may exit on its own; it is then restarted, as Kubernetes would.
    #[serde(default)]
    pub(super) may_exit: bool,
    #[serde(default = "default_patience")]
    patience: f64,
    #[serde(default = "default_settle")]
    settle: f64,
    #[serde(default = "default_rest")]
    rest: f64,
}

/// One step of the user: exactly one of the fields is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    create: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    apply: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delete: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait: Option<Value>,
}

/// The action of a step.
pub(super) enum StepAction<'a> {
    Create(&'a Value),
    Apply(&'a Value),
    Edit(&'a Value),
    Delete(&'a Value),
    WaitSeconds(Duration),
    WaitFor(Box<CountCondition>),
}

fn default_patience() -> f64 {
    PATIENCE_SECONDS
}

fn default_settle() -> f64 {
    SETTLE_SECONDS
}

fn default_rest() -> f64 {
    REST_SECONDS
}

impl Scenario {
    /// Reads a scenario and the files it names, which are next to it.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the scenario {} cannot be read: {error}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder).map_err(|why| format!("the scenario {}: {why}", path.display()))
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut scenario: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        scenario.setup = scenario
            .setup
            .into_iter()
            .map(|item| load_item(item, folder))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), String> {
        if self.steps.is_empty() {
            return Err("there are no steps, so there is nothing for the operator to do".to_owned());
        }
        for (at, object) in self.setup.iter().enumerate() {
            check_identity(object).map_err(|why| format!("object {} of setup {why}", at + 1))?;
        }
        for (at, step) in self.steps.iter().enumerate() {
            let action = step.action().map_err(|why| format!("step {} {why}", at + 1))?;
            if let Some(object) = action.object() {
                check_identity(object).map_err(|why| format!("step {} {why}", at + 1))?;
            }
        }
        for seconds in [self.patience, self.settle, self.rest] {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| "patience, settle and rest are numbers of seconds, from 0 on".to_owned())?;
        }
        self.always.iter().chain(&self.eventually).try_for_each(CountCondition::check)
    }

    /// Returns the objects that exist before the operator starts.
    pub(super) fn setup(&self) -> &[Value] {
        &self.setup
    }

    /// Returns how long an operator may take to handle a step or a fault.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.patience)
    }

    /// Returns how long nothing must be written before an undisturbed operator counts as at rest.
    pub(super) fn settle(&self) -> Duration {
        Duration::from_secs_f64(self.settle)
    }

    /// Returns how long an undisturbed operator is watched at rest.
    pub(super) fn rest(&self) -> Duration {
        Duration::from_secs_f64(self.rest)
    }
}

impl Step {
    /// Returns its action. The error says what is wrong with the step.
    pub(super) fn action(&self) -> Result<StepAction<'_>, String> {
        match self {
            Self { create: Some(object), apply: None, edit: None, delete: None, wait: None } => {
                Ok(StepAction::Create(object))
            }
            Self { create: None, apply: Some(object), edit: None, delete: None, wait: None } => {
                Ok(StepAction::Apply(object))
            }
            Self { create: None, apply: None, edit: Some(object), delete: None, wait: None } => {
                Ok(StepAction::Edit(object))
            }
            Self { create: None, apply: None, edit: None, delete: Some(object), wait: None } => {
                Ok(StepAction::Delete(object))
            }
            Self { create: None, apply: None, edit: None, delete: None, wait: Some(wait) } => {
                parse_wait(wait)
            }
            _ => Err("must be one of create, apply, edit, delete and wait; write a step for each".to_owned()),
        }
    }

    /// Returns the step in words: `edit Page default/home`.
    pub(super) fn shown(&self) -> String {
        match self.action() {
            Ok(StepAction::Create(object)) => format!("create {}", shown_object(object)),
            Ok(StepAction::Apply(object)) => format!("apply {}", shown_object(object)),
            Ok(StepAction::Edit(object)) => format!("edit {}: {}", shown_object(object), shown_patch(object)),
            Ok(StepAction::Delete(object)) => format!("delete {}", shown_object(object)),
            Ok(StepAction::WaitSeconds(time)) => format!("wait {} s", time.as_secs_f64()),
            Ok(StepAction::WaitFor(condition)) => format!("wait for {condition}"),
            Err(why) => why,
        }
    }
}

impl<'a> StepAction<'a> {
    /// Returns the object it is about.
    pub(super) fn object(&self) -> Option<&'a Value> {
        match self {
            Self::Create(object) | Self::Apply(object) | Self::Edit(object) | Self::Delete(object) => {
                Some(object)
            }
            Self::WaitSeconds(_) | Self::WaitFor(_) => None,
        }
    }
}

fn parse_wait(wait: &Value) -> Result<StepAction<'static>, String> {
    if let Some(seconds) = wait.as_f64() {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("waits {seconds} seconds, which is not a valid time"))?;
        return Ok(StepAction::WaitSeconds(time));
    }
    let condition: CountCondition = serde_json::from_value(wait.clone()).map_err(|error| {
        format!("waits for something unknown: write a number of seconds or a condition with count ({error})")
    })?;
    condition.check()?;
    Ok(StepAction::WaitFor(Box::new(condition)))
}

/// Returns the objects of one entry of `setup`: the object, or all of a file.
fn load_item(item: Value, folder: &Path) -> Result<Vec<Value>, String> {
    let Value::String(name) = item else { return Ok(vec![item]) };
    let path = folder.join(&name);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read the setup file {}: {error}", path.display()))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| format!("the setup file {} is not valid YAML: {error}", path.display()))?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

fn check_identity(object: &Value) -> Result<(), String> {
    for path in ["/apiVersion", "/kind", "/metadata/name"] {
        if object.pointer(path).and_then(Value::as_str).is_none_or(str::is_empty) {
            let field = path[1..].replace('/', ".");
            return Err(format!("has no {field}: give apiVersion, kind and metadata.name of the object"));
        }
    }
    Ok(())
}

/// Returns the name of an object for messages: `Page default/home`.
pub(super) fn shown_object(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let slash = if text("/metadata/namespace").is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Returns the changes of an edit, without the fields that only name the object.
fn shown_patch(object: &Value) -> String {
    let mut patch = object.clone();
    if let Some(fields) = patch.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("name");
            meta.remove("namespace");
            if meta.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    patch.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Scenario, String> {
        Scenario::parse(text, Path::new("."))
    }

    #[test]
    fn steps_are_read_and_told() {
        let scenario = parse(
            "
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}
- edit: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: z}}
- wait: 0.5
- wait: {count: configmaps, exactly: 1}
- delete: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
",
        )
        .unwrap();
        let told: Vec<String> = scenario.steps.iter().map(Step::shown).collect();
        let expected = [
            "create ConfigMap b/a",
            r#"edit ConfigMap a: {"data":{"x":"z"}}"#,
            "wait 0.5 s",
            "wait for exactly 1 configmaps",
            "delete ConfigMap a",
        ];
        assert_eq!(told, expected);
        let again: Scenario = serde_json::from_value(serde_json::to_value(&scenario).unwrap()).unwrap();
        assert_eq!(again.steps.len(), 5, "what is saved can be read");
    }

    #[track_caller]
    fn check_refusal(text: &str, expected: &str) {
        let told = parse(text).expect_err("it cannot be meant");
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn mistakes_are_explained() {
        check_refusal("steps: []", "there are no steps");
        check_refusal("steps: [{create: {kind: Pod}}]", "step 1 has no apiVersion");
        check_refusal("steps: [{wait: 1, create: {}}]", "write a step for each");
        check_refusal("steps: [{wait: soon}]", "a number of seconds or a condition");
        check_refusal("steps: [{wait: 1}]\nalways: [{count: pods}]", "add exactly");
        check_refusal("steps: [{make: 1}]", "make");
        check_refusal(
            "setup: [missing.yaml]\nsteps: [{wait: 1}]",
            "cannot read the setup file ./missing.yaml",
        );
        check_refusal("steps: [{wait: 1}]\npatience: -1", "from 0 on");
    }
}
