//! Performs the user's steps, and what other writers do to the objects.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::record::{Actor, ForeignMark};
use super::run::ScheduleRun;
use crate::alarm::Alarm;
use crate::state::{FOREIGN_MARK, path_of_shown};
use crate::step::{Step, StepAction};

/// How often the user tries a step that the server refuses.
const REFUSALS_MAX: u32 = 4;

/// How a schema declares conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionsList {
    /// A map by type: each condition has its own writer.
    Map,
    /// A plain list: an apply replaces it, while other writers must keep what they find.
    Atomic,
}

impl ScheduleRun<'_> {
    /// Creates the given objects.
    pub(crate) async fn create_givens(&mut self) {
        for (at, step) in self.setup.givens.iter().enumerate() {
            if Some(at) != self.postponed {
                self.perform_step(step).await;
            }
        }
        while self.background.step().await {}
        self.note_changes(&super::notes::WriteAttribution::plain(Actor::Server));
    }

    /// Does the user's next step, if there is one.
    pub(crate) async fn do_next_step(&mut self) -> bool {
        let Some(step) = self.order.get(self.step).and_then(|number| self.setup.step(*number)) else {
            return false;
        };
        // An object whose creation is postponed can be neither edited nor deleted before it is created.
        let postponed = self.postponed.and_then(|given| self.setup.givens.get(given));
        if postponed.is_some_and(|given| given.object() == step.object()) {
            return false;
        }
        self.writes_since_step = 0;
        let before = self.noted;
        let is_done = self.perform_step(&step).await;
        self.note_activity();
        self.refusals = if is_done { 0 } else { self.refusals + 1 };
        // With faults, an object that a step needs may not exist yet, or still exist: the user tries again at the next rest.
        if is_done || self.refusals > REFUSALS_MAX || self.options.plan.is_empty() {
            self.step_revisions.push(before);
            self.step += 1;
            self.refusals = 0;
        }
        true
    }

    /// Creates a given object late. The operator may legitimately have used its name in the meantime.
    pub(crate) async fn perform_postponed(&mut self, step: &Step) {
        let is_done = self.perform_step(step).await;
        self.record.is_given_refused |= !is_done;
    }

    /// Performs a step; returns whether it succeeded or may be skipped.
    async fn perform_step(&mut self, step: &Step) -> bool {
        let path = step.resource.path(&step.namespace, Some(&step.name));
        let (code, answer) = match &step.action {
            StepAction::Create(object) => {
                let collection = step.resource.path(&step.namespace, None);
                self.ask(Actor::User, Method::POST, &collection, Some(object)).await
            }
            StepAction::Delete => self.ask(Actor::User, Method::DELETE, &path, None).await,
            StepAction::Edit(change) => {
                let (code, stored) = self.ask(Actor::User, Method::GET, &path, None).await;
                match change(stored) {
                    Ok(changed) if code.is_success() => {
                        self.ask(Actor::User, Method::PUT, &path, Some(&changed)).await
                    }
                    Ok(_) => (code, Value::Null),
                    Err(error) => (StatusCode::BAD_REQUEST, json!({"message": error})),
                }
            }
        };
        self.tell("user", false, || {
            let refusal = if code.is_success() { String::new() } else { format!(" (refused: {code})") };
            format!("{}{refusal}", step.shown())
        });
        // Without faults every step must succeed; with faults an object may be missing.
        let is_gone = step.is_delete() && code == StatusCode::NOT_FOUND;
        if !code.is_success() && !is_gone && !step.may_be_refused && self.options.plan.is_empty() {
            let why = answer["message"].as_str().unwrap_or_default();
            let text = format!("the server refuses the step \"{}\": {code} {why}", step.shown());
            self.record.alarms.push(Alarm::new("scenario", &step.object(), text));
        }
        code.is_success() || is_gone || step.may_be_refused
    }

    /// Writes an annotation, a label and a condition of a foreign writer into an object. Does nothing if the object
    /// does not exist.
    pub(crate) async fn write_foreign_mark(&mut self, path: &str) {
        let (code, stored) = self.ask(Actor::Foreign, Method::GET, path, None).await;
        if !code.is_success() {
            return;
        }
        let number = self.record.foreign_marks.len() + 1;
        let uid = stored["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let marks = [("annotation", "annotations"), ("label", "labels")];
        let marks = marks.map(|(what, field)| (what, field, format!("{FOREIGN_MARK}-{what}-{number}")));
        let fields: serde_json::Map<_, _> =
            marks.iter().map(|(_, field, mark)| ((*field).to_owned(), json!({mark: "kept"}))).collect();
        let (code, _) =
            self.ask(Actor::Foreign, Method::PATCH, path, Some(&json!({"metadata": fields}))).await;
        if !code.is_success() {
            return;
        }
        self.tell("somebody", true, || format!("writes an annotation and a label into {path}"));
        for (what, _, mark) in marks {
            self.record.foreign_marks.push(ForeignMark {
                path: path.to_owned(),
                uid: uid.clone(),
                what,
                mark,
                is_in_atomic_list: false,
            });
        }
        self.write_foreign_condition(path, &stored).await;
    }

    /// Adds a condition of another writer to an object that has a status with conditions in the common form.
    async fn write_foreign_condition(&mut self, path: &str, stored: &Value) {
        let has_status = stored["status"].as_object().is_some_and(|status| !status.is_empty());
        if !has_status {
            return;
        }
        let Some(list) = self.conditions_list(stored) else { return };
        let mark = format!("{FOREIGN_MARK}-condition-{}", self.record.foreign_marks.len() + 1);
        let now = self.clock.now().to_string();
        let condition = json!({"type": &mark, "status": "True", "reason": "Simulated", "message": "",
                               "lastTransitionTime": now});
        let mut conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.push(condition);
        let wanted = json!({"status": {"conditions": conditions}});
        let status = format!("{path}/status");
        let (code, answer) = self.ask(Actor::Foreign, Method::PATCH, &status, Some(&wanted)).await;
        if code.is_success() && answer["status"].to_string().contains(&mark) {
            self.tell("somebody", true, || format!("adds the condition {mark} to {path}"));
            let uid = stored["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let is_in_atomic_list = list == ConditionsList::Atomic;
            let path = path.to_owned();
            self.record.foreign_marks.push(ForeignMark {
                path,
                uid,
                what: "condition",
                mark,
                is_in_atomic_list,
            });
        }
    }

    /// Returns how the schema of this object declares its conditions; `None` if they are not in the common form.
    fn conditions_list(&self, object: &Value) -> Option<ConditionsList> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let Some((group, version)) = version.split_once('/').filter(|(group, _)| group.contains('.')) else {
            return Some(ConditionsList::Map);
        };
        let snapshot = homeostat_store::Store::snapshot(&*self.store);
        let definitions =
            homeostat_core::Prefix::resource("apiextensions.k8s.io", "customresourcedefinitions");
        let definitions = snapshot.range(&definitions, "").filter_map(|entry| {
            serde_json::from_slice::<Value>(&entry.bytes).ok().filter(|one| one["spec"]["group"] == group)
        });
        let mut definitions =
            definitions.filter(|definition| definition["spec"]["names"]["kind"] == object["kind"]);
        let Some(definition) = definitions.next() else {
            return group.ends_with(".k8s.io").then_some(ConditionsList::Map);
        };
        let versions = definition["spec"]["versions"].as_array();
        let served = versions.into_iter().flatten().find(|one| one["name"] == version)?;
        let status = &served["schema"]["openAPIV3Schema"]["properties"]["status"];
        let conditions = &status["properties"]["conditions"];
        if conditions["x-kubernetes-list-type"] == "map" {
            return Some(ConditionsList::Map);
        }
        let fields = conditions["items"]["properties"].as_object()?;
        let is_common =
            ["type", "status", "reason", "lastTransitionTime"].map(|name| fields.contains_key(name));
        (is_common == [true; 4]).then_some(ConditionsList::Atomic)
    }

    /// Deletes an object that the operator created, as somebody else.
    pub(crate) async fn delete_child(&mut self, object: &str) {
        let snapshot = homeostat_store::Store::snapshot(&*self.store);
        if let Some(path) = path_of_shown(&snapshot, object) {
            self.ask(Actor::Foreign, Method::DELETE, &path, None).await;
            self.tell("somebody", true, || format!("deletes {object}"));
        }
    }
}
