//! One reconcile of one object, from the cache to the verdict: look it up, mind its finalizer, call the user's
//! function, write the status once, and turn whatever happened, a panic included, into a verdict.
//!
//! **Invariant:** the finalizer is on an object exactly when a cleanup is registered for it and not yet done. It is added
//! before the first reconcile and removed only after the cleanup said it is through, so a crash between any two steps
//! is repaired by doing the step again.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::Source;

use crate::action::Action;
use crate::cache::ObjectCache;
use crate::context::{Memo, Run, report_undecodable};
use crate::fault::{Fault, Result, terminal};
use crate::fence::Claim;
use crate::object::Object;
use crate::panics::message_of;
use crate::queue::Work;
use crate::shared::OperatorShared;
use crate::takeover::Takeover;
use crate::watch::Scope;
use crate::worker::{RunResult, Runner};

/// The user's reconcile or cleanup function.
pub(crate) type ReconcileFunction = Arc<dyn Fn(Arc<Run>) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

/// The user's cleanup, and which objects need it.
pub(crate) struct Cleanup {
    pub(crate) call: ReconcileFunction,
    pub(crate) is_needed: Test,
}

/// A question about an object.
pub(crate) type Test = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// Everything a controller needs to reconcile an object of its kind.
pub(crate) struct Engine {
    pub(crate) source: Source,
    pub(crate) shared: Arc<OperatorShared>,
    pub(crate) scope: Scope,
    pub(crate) cache: ObjectCache,
    pub(crate) finalizer: String,
    pub(crate) reconcile: ReconcileFunction,
    pub(crate) cleanup: Option<Cleanup>,
    /// Objects being deleted are reconciled like any other.
    pub(crate) is_called_to_the_end: bool,
    /// A condition that falls when the object does not decode.
    pub(crate) dependent_condition: Option<&'static str>,
    /// What was applied last to each child, so that applying it again costs nothing.
    pub(crate) memo: Arc<Memo>,
    /// How far the cache is since the right to act came.
    pub(crate) takeover: Takeover,
}

/// A controller's engine as the worker sees it.
pub(crate) struct ControllerRunner(pub(crate) Arc<Engine>);

impl Runner for ControllerRunner {
    fn span(&self, work: &Work) -> tracing::Span {
        tracing::debug_span!("reconcile", controller = %self.0.source, object = %work.key, causes = ?work.causes)
    }

    fn run<'a>(&'a self, work: &'a Work, claim: &'a Claim) -> BoxFuture<'a, RunResult> {
        Box::pin(self.0.run(RunInput { work, claim }))
    }
}

/// What is to be run, and the right to do so.
#[derive(Clone, Copy)]
struct RunInput<'a> {
    work: &'a Work,
    claim: &'a Claim,
}

impl Engine {
    async fn run(self: &Arc<Self>, run: RunInput<'_>) -> RunResult {
        let work = run.work;
        if let Some(gain) = self.shared.fence.gain()
            && let Err(error) = Box::pin(self.catch_up(&work.key, gain)).await
        {
            return self.failed(work, error.into());
        }
        let Some(object) = self.cache.get(&work.key) else {
            return match self.cache.quarantined_error(&work.key) {
                Some(error) => Box::pin(self.report_undecodable(run, error)).await,
                None => RunResult::Gone,
            };
        };
        let step = self.step(object, run);
        let result = AssertUnwindSafe(step).catch_unwind().await;
        match result.unwrap_or_else(|panic| Err(Fault::panic(words_of(&*panic)))) {
            Ok(action) => RunResult::Settled(action),
            Err(fault) if fault.is_panic() && self.shared.states.is_one_missing() => RunResult::Abandoned,
            Err(fault) => self.failed(work, fault),
        }
    }

    /// The event follows the status, which says the same where there is room for it.
    fn failed(&self, work: &Work, fault: Fault) -> RunResult {
        if let Some(object) = self.cache.get(&work.key) {
            self.report_failure(&*object, work.failures, &fault);
        }
        RunResult::Failed(fault)
    }

    /// An object that does not decode is nobody's to reconcile until it changes; its status says so.
    async fn report_undecodable(&self, run: RunInput<'_>, error: String) -> RunResult {
        match report_undecodable(self, &run.work.key, run.claim, &error).await {
            Ok(()) => RunResult::Failed(terminal(format!("the object does not decode: {error}"))),
            Err(error) => RunResult::Failed(error.into()),
        }
    }

    /// The rare branches are boxed, so that the usual one makes a small future: every run allocates it.
    async fn step(self: &Arc<Self>, object: Arc<Object>, run: RunInput<'_>) -> Result<Action> {
        let is_dying = object.meta().deletion_timestamp.is_some();
        let is_held = has_finalizer(&*object, &self.finalizer);
        let is_needed = self.cleanup.as_ref().is_some_and(|cleanup| (cleanup.is_needed)(&*object));
        match (&self.cleanup, is_dying) {
            (Some(cleanup), true) if is_held => Box::pin(self.clean_up(object, run, &cleanup.call)).await,
            (_, false) if is_held && !is_needed => {
                // The object, or a new version of the operator, no longer asks for the cleanup. That the write comes back
                // is nothing to wait for: a predicate may hold it back.
                Box::pin(self.context(object, run).remove_finalizer()).await?;
                let Some(object) = self.cache.get(&run.work.key) else { return Ok(Action::await_change()) };
                self.call(object, run, &self.reconcile).await
            }
            (None, true) if is_held => {
                // A former version registered a cleanup; nobody would ever take its finalizer off.
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
        self: &Arc<Self>,
        object: Arc<Object>,
        run: RunInput<'_>,
        cleanup: &ReconcileFunction,
    ) -> Result<Action> {
        let action = self.call(object.clone(), run, cleanup).await?;
        if action.is_settled() {
            // The cleanup may have written to the object; an old resourceVersion would be refused.
            let object = self.cache.get(&run.work.key).unwrap_or(object);
            self.context(object, run).remove_finalizer().await?;
        }
        Ok(action)
    }

    /// Calls the user's function and writes the status it asked for, also when it failed.
    async fn call(
        self: &Arc<Self>,
        object: Arc<Object>,
        run: RunInput<'_>,
        handler: &ReconcileFunction,
    ) -> Result<Action> {
        let context = self.context(object, run);
        // The call itself may panic as well as its future.
        let run = AssertUnwindSafe(async { handler(context.clone()).await });
        let mut result =
            run.catch_unwind().await.unwrap_or_else(|panic| Err(Fault::panic(words_of(&*panic))));
        if let Err(fault) = &mut result
            && context.has_warned()
        {
            fault.set_told();
        }
        let written = match context.status_change(result.as_ref().err()) {
            Some(patch) => Box::pin(context.put_status(&patch)).await,
            None => Ok(()),
        };
        let action = result?;
        written?;
        Ok(action)
    }

    fn context(self: &Arc<Self>, object: Arc<Object>, run: RunInput<'_>) -> Arc<Run> {
        Run::new(self.clone(), object, run.work, run.claim.clone())
    }

    /// May this controller write on behalf of `key` now?
    pub(crate) fn is_admitted(&self, key: &Key) -> bool {
        self.shared.fence.admits(key)
    }
}

pub(crate) fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.meta().finalizers.as_deref().unwrap_or_default().iter().any(|name| name == finalizer)
}

/// What a panic said.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    format!("the reconciler panicked: {}", message_of(panic))
}
