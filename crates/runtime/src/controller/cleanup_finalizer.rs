//! Manages the finalizer of objects that need a cleanup: it decides when to add it, when to run the cleanup, and when
//! to remove it.
//!
//! **Invariant:** the finalizer is on an object exactly when a cleanup is registered for it and has not yet been done.
//! It is added before the first reconcile and removed only after the cleanup has reported that it is done, so a crash
//! between any two steps is repaired by repeating the step.

use std::sync::Arc;

use super::reconcile_once::{Engine, ReconcileFunction, RunInput};
use crate::action::Action;
use crate::fault::Result;
use crate::kind::object::{Object, ObjectTest};

/// The user's cleanup, and which objects need it.
pub(crate) struct Cleanup {
    pub(crate) call: ReconcileFunction,
    pub(crate) is_needed: ObjectTest,
}

impl Engine {
    /// Adds or removes the finalizer and calls the user's function. The rare branches are boxed, so that the usual one
    /// is a small future: every run allocates it.
    pub(super) async fn step(&self, object: Arc<Object>, run: RunInput<'_>) -> Result<Action> {
        let is_dying = object.meta().deletion_timestamp.is_some();
        let is_held = has_finalizer(&*object, &self.controller.finalizer);
        let is_needed = self.cleanup.as_ref().is_some_and(|cleanup| (cleanup.is_needed)(&*object));
        match (&self.cleanup, is_dying) {
            (Some(cleanup), true) if is_held => Box::pin(self.clean_up(object, run, &cleanup.call)).await,
            (_, false) if is_held && !is_needed => {
                // The object, or a new version of the operator, no longer requires the cleanup. Waiting until the watch
                // shows this write is not an option, because a predicate may suppress it.
                Box::pin(self.context(object, run).remove_finalizer()).await?;
                let Some(object) = self.controller.cache.get(&run.work.key) else {
                    return Ok(Action::await_change());
                };
                self.call(object, run, &self.reconcile).await
            }
            (None, true) if is_held => {
                // An earlier version registered a cleanup; nothing else would ever remove its finalizer.
                Box::pin(self.context(object, run).remove_finalizer()).await?;
                Ok(Action::await_change())
            }
            (_, true) if !self.is_called_to_the_end => Ok(Action::await_change()),
            (Some(_), false) if is_needed && !is_held => {
                let object = Box::pin(self.context(object, run).add_finalizer()).await?;
                self.call(object, run, &self.reconcile).await
            }
            (_, _) => self.call(object, run, &self.reconcile).await,
        }
    }

    async fn clean_up(
        &self,
        object: Arc<Object>,
        run: RunInput<'_>,
        cleanup: &ReconcileFunction,
    ) -> Result<Action> {
        let action = self.call(object.clone(), run, cleanup).await?;
        if action.is_settled() {
            // The cleanup may have written to the object; an old resourceVersion would be refused.
            let latest = self.controller.cache.get(&run.work.key);
            // Another object with the same name may have taken its place, and that one has not been cleaned up.
            let object = latest.filter(|latest| latest.meta().uid == object.meta().uid).unwrap_or(object);
            self.context(object, run).remove_finalizer().await?;
        }
        Ok(action)
    }
}

fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.meta().finalizers.as_deref().unwrap_or_default().iter().any(|name| name == finalizer)
}
