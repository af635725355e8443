//! Writes our own annotations on the object itself, each changed only if it still has the value that we know.
//!
//! A blind write could undo a change that another replica recorded after we lost leadership. A resourceVersion would
//! conflict with every other write to the object, many of which do not concern us. The request is therefore a JSON
//! patch that tests only this annotation and the uid.

use std::sync::Arc;

use homeostat_core::FieldDiff;
use homeostat_core::journal::{Verb, WriteOutcome};
use serde_json::{Value, json};

use super::ReconcileRun;
use super::json_requests::{JsonPatch, escaped, is_stale};
use crate::error::Error;
use crate::kind::object::Object;

/// The maximum number of requests for one annotation: an object gains or loses its annotations map only once or twice
/// in its life.
const TRIES_MAX: usize = 3;

/// A change to an annotation.
#[derive(Clone, Copy)]
pub(crate) struct AnnotationChange<'a> {
    pub(crate) name: &'a str,
    /// Its last known value; `None` if it does not exist.
    pub(crate) old: Option<&'a str>,
    pub(crate) new: &'a str,
}

impl ReconcileRun {
    /// Changes an annotation. It is an error if someone else changed it first, but not if the object is gone.
    pub(crate) async fn annotate(&self, annotation: AnnotationChange<'_>) -> Result<(), Error> {
        let (controller, key) = (&self.controller, &self.key);
        let mut has_others = self.newest().meta().annotations.is_some();
        let _writing = controller.cache.writing(key, self.writer());
        for tries in 1.. {
            self.check_right(Verb::Patch, key)?;
            let operations = self.operations(annotation, has_others);
            let patch = JsonPatch { verb: "annotate", subresource: None, operations };
            let refusal = match controller.send_patch(key, patch, self.info().decode).await {
                Ok(object) => {
                    self.note_annotated(object, annotation);
                    return Ok(());
                }
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if is_stale(&error) && tries < TRIES_MAX => error,
                Err(error) => return self.record_failure(Verb::Patch, key, Err(error)),
            };
            let Some(object) = controller.read_whole(key).await? else { return Ok(()) };
            if object["metadata"]["uid"].as_str() != self.object.meta().uid.as_deref() {
                return Ok(());
            }
            let annotations = object["metadata"].get("annotations").filter(|all| !all.is_null()).cloned();
            let found = annotations.as_ref().and_then(|all| all[annotation.name].as_str());
            if found == Some(annotation.new) {
                // It was our own write, whose response was lost.
                if let Ok(object) = (self.info().decode)(&object.to_string()) {
                    self.note_annotated(object, annotation);
                }
                return Ok(());
            }
            if found != annotation.old {
                let overtaken = Error::Overtaken { target: key.clone() };
                return self.record_failure(Verb::Patch, key, Err(overtaken));
            }
            if annotations.is_some() == has_others {
                return self.record_failure(Verb::Patch, key, Err(refusal));
            }
            has_others = annotations.is_some();
        }
        unreachable!("the last try returns")
    }

    fn note_annotated(&self, object: Arc<Object>, AnnotationChange { name, old, new }: AnnotationChange<'_>) {
        let revision = Some(object.revision());
        let (old, new) = (old.map(|old| json!(old)), json!(new));
        let path = ["metadata", "annotations", name];
        let diff = FieldDiff::of_field(&self.key, &path, old.as_ref(), Some(&new));
        self.note_diff(Verb::Patch, &self.key, WriteOutcome::Done { revision }, diff);
        self.controller.cache.wrote(object, self.writer());
    }

    fn operations(&self, annotation: AnnotationChange<'_>, has_others: bool) -> Vec<Value> {
        const ALL: &str = "/metadata/annotations";
        let AnnotationChange { name, old, new } = annotation;
        let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
        let mut operations = vec![test("/metadata/uid", json!(self.object.meta().uid))];
        if has_others {
            let path = format!("{ALL}/{}", escaped(name));
            operations.push(test(&path, json!(old)));
            operations.push(json!({"op": "add", "path": path, "value": new}));
        } else {
            operations.push(test(ALL, Value::Null));
            operations.push(json!({"op": "add", "path": ALL, "value": {name: new}}));
        }
        operations
    }
}
