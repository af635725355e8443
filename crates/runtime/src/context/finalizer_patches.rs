//! The finalizer is added before the first reconcile and removed after the cleanup. Both steps are merge patches that
//! carry the resourceVersion, so a finalizer list that someone else has changed in the meantime is never overwritten.

use std::sync::Arc;

use homeostat_core::FieldDiff;
use homeostat_core::journal::{Verb, WriteOutcome};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::ReconcileRun;
use crate::error::Error;
use crate::kind::object::Object;
use crate::request::{RequestLabel, call_object};
use crate::rights::declared_writes::WriteVerb;

impl ReconcileRun {
    /// Adds our finalizer; returns the object with it.
    pub(crate) async fn add_finalizer(&self) -> Result<Arc<Object>, Error> {
        let mut names = self.finalizers();
        names.push(self.controller.finalizer.clone());
        let object = self.set_finalizers(Verb::Finalize, &names).await?;
        self.controller.cache.wrote(object.clone(), self.writer());
        Ok(object)
    }

    /// Removes our finalizer. It is not an error if the object is gone by then.
    pub(crate) async fn remove_finalizer(&self) -> Result<(), Error> {
        self.controller.operator.declared.warn_unless_declared(self.info(), WriteVerb::Release);
        let mut names = self.finalizers();
        names.retain(|name| *name != self.controller.finalizer);
        match self.set_finalizers(Verb::Release, &names).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(object) => {
                if object.meta().deletion_timestamp.is_some() && names.is_empty() {
                    self.controller.cache.deleted(&self.key, object.meta().uid.as_deref());
                } else {
                    self.controller.cache.wrote(object, self.writer());
                }
                Ok(())
            }
        }
    }

    fn finalizers(&self) -> Vec<String> {
        self.object.meta().finalizers.clone().unwrap_or_default()
    }

    async fn set_finalizers(&self, verb: Verb, names: &[String]) -> Result<Arc<Object>, Error> {
        self.check_right(verb, &self.key)?;
        let meta = self.object.meta();
        let patch = json!({"metadata": {
            "finalizers": names,
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
        }});
        let url = self.info().path(meta.namespace.as_deref());
        let params = PatchParams {
            field_manager: Some(self.controller.operator.name.to_string()),
            ..PatchParams::default()
        };
        let request = url.patch(self.key.name(), &params, &Patch::Merge(patch));
        let label = RequestLabel { verb: "set the finalizers of", target: self.key.as_str() };
        let _writing = self.controller.cache.writing(&self.key, self.writer());
        let answer = call_object(&self.controller.operator.client, label, self.info(), request).await;
        let object = self.record_failure(verb, &self.key, answer)?;
        let (old, new) = (json!(self.finalizers()), json!(names));
        let diff = FieldDiff::of_field(&self.key, &["metadata", "finalizers"], Some(&old), Some(&new));
        self.note_diff(verb, &self.key, WriteOutcome::Done { revision: Some(object.revision()) }, diff);
        Ok(object)
    }
}
