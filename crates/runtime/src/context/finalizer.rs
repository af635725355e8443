//! The finalizer: put on before the first reconcile, taken off after the cleanup. Both are merge patches that carry
//! the resourceVersion, so a list of finalizers that somebody else changed meanwhile is never overwritten.

use std::sync::Arc;

use homeostat_core::journal::{Verb, WriteOutcome};
use kube::api::{Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::json;

use super::Context;
use crate::declared::Deed;
use crate::error::Error;
use crate::kind::{Kind, revision_of};
use crate::talk::{Attempt, call};

impl<K: Kind> Context<K> {
    /// Puts our finalizer on; returns the object with it.
    pub(crate) async fn hold(&self) -> Result<Arc<K>, Error> {
        let mut names = self.finalizers();
        names.push(self.0.engine.finalizer.clone());
        let object = self.set_finalizers(Verb::Finalize, &names).await?;
        Ok(self.0.engine.cache.wrote(object, self.writer()))
    }

    /// Takes our finalizer off. An object that is gone meanwhile is no error.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        self.0.engine.ground.declared.expect::<K>(Deed::Release);
        let mut names = self.finalizers();
        names.retain(|name| *name != self.0.engine.finalizer);
        match self.set_finalizers(Verb::Release, &names).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(object) => {
                if object.meta().deletion_timestamp.is_some() && names.is_empty() {
                    self.0.engine.cache.deleted(&self.0.key, object.meta().uid.as_deref());
                } else {
                    self.0.engine.cache.wrote(object, self.writer());
                }
                Ok(())
            }
        }
    }

    fn finalizers(&self) -> Vec<String> {
        self.0.object.meta().finalizers.clone().unwrap_or_default()
    }

    async fn set_finalizers(&self, verb: Verb, names: &[String]) -> Result<K, Error> {
        self.admitted(verb, &self.0.key)?;
        let meta = self.0.object.meta();
        let patch = json!({"metadata": {
            "finalizers": names,
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
        }});
        let url = Path::new(K::url_path(&(), meta.namespace.as_deref()));
        let params = PatchParams {
            field_manager: Some(self.0.engine.ground.name.to_string()),
            ..PatchParams::default()
        };
        let request = url.patch(self.0.key.name(), &params, &Patch::Merge(patch));
        let attempt = Attempt { verb: "set the finalizers of", target: self.0.key.as_str() };
        let _writing = self.0.engine.cache.writing(&self.0.key, self.writer());
        let answer: Result<K, Error> = call(&self.0.engine.ground.client, attempt, request).await;
        let object = self.noting_failure(verb, &self.0.key, answer)?;
        self.note(verb, &self.0.key, WriteOutcome::Done { revision: Some(revision_of(&object)) });
        Ok(object)
    }
}
