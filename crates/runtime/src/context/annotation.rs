//! Annotations of our own on the object itself. A merge patch of one annotation touches nothing of anybody else, so it
//! needs no resourceVersion and cannot conflict; only another object of the same name refuses it, by its uid.

use homeostat_core::journal::{Verb, WriteOutcome};
use kube::api::{Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::json;

use super::Context;
use crate::error::Error;
use crate::kind::{Kind, revision_of};
use crate::talk::{Attempt, call};

impl<K: Kind> Context<K> {
    /// Writes an annotation. An object that is gone meanwhile is no error.
    pub(crate) async fn annotate(&self, name: &str, text: &str) -> Result<(), Error> {
        self.admitted(&self.0.key)?;
        let meta = self.0.object.meta();
        let patch = json!({"metadata": {"uid": meta.uid, "annotations": {name: text}}});
        let url = Path::new(K::url_path(&(), meta.namespace.as_deref()));
        let params = PatchParams {
            field_manager: Some(self.0.engine.ground.name.to_string()),
            ..PatchParams::default()
        };
        let request = url.patch(self.0.key.name(), &params, &Patch::Merge(patch));
        let attempt = Attempt { verb: "annotate", target: self.0.key.as_str() };
        let _writing = self.0.engine.cache.writing(&self.0.key, self.writer());
        let answer: Result<K, Error> = call(&self.0.engine.ground.client, attempt, request).await;
        if matches!(&answer, Err(error) if error.is_not_found() || error.is_of_another_uid()) {
            return Ok(());
        }
        let object = self.noting_failure(Verb::Patch, &self.0.key, answer)?;
        self.note(Verb::Patch, &self.0.key, WriteOutcome::Done { revision: Some(revision_of(&object)) });
        self.0.engine.cache.wrote(object, self.writer());
        Ok(())
    }
}
