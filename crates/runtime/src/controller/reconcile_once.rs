//! Performs one reconcile of one object, from the cache to its result: looks the object up, adds or removes its
//! finalizer (`cleanup_finalizer`), calls the user's function, writes the status once, and turns the outcome, even a
//! panic, into a result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::cleanup_finalizer::Cleanup;
use super::wait_for_current_caches::AllCachesCatchUp;
use super::wait_for_current_object::ObjectCatchUp;
use crate::action::Action;
use crate::context::{ReconcileRun, report_undecodable};
use crate::error::Error;
use crate::fault::{Fault, Result, terminal};
use crate::fence::TenureClaim;
use crate::kind::object::Object;
use crate::queue::DispatchedKey;
use crate::shared::ControllerShared;
use crate::workers::{RunResult, Runner};

/// The user's reconcile or cleanup function.
pub(crate) type ReconcileFunction =
    Arc<dyn Fn(Arc<ReconcileRun>) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

/// Runs the user's functions for the objects of one controller.
pub(crate) struct Engine {
    pub(crate) controller: Arc<ControllerShared>,
    pub(crate) reconcile: ReconcileFunction,
    pub(crate) cleanup: Option<Cleanup>,
    /// Whether objects being deleted are reconciled like any others.
    pub(crate) is_called_to_the_end: bool,
    /// How far the cache has caught up since this replica became leader.
    pub(crate) takeover: ObjectCatchUp,
    /// Whether its caches have caught up, if it must not act before that.
    pub(crate) fresh_start: Option<AllCachesCatchUp>,
}

impl Runner for Engine {
    fn span(&self, work: &DispatchedKey) -> tracing::Span {
        let controller = &self.controller.source;
        tracing::debug_span!("reconcile", %controller, object = %work.key, causes = ?work.causes)
    }

    fn run<'a>(&'a self, work: &'a DispatchedKey, claim: &'a TenureClaim) -> BoxFuture<'a, RunResult> {
        Box::pin(self.run_once(RunInput { work, claim }))
    }
}

/// The key to run, and the permit to do so.
#[derive(Clone, Copy)]
pub(super) struct RunInput<'a> {
    pub(super) work: &'a DispatchedKey,
    pub(super) claim: &'a TenureClaim,
}

impl Engine {
    async fn run_once(&self, run: RunInput<'_>) -> RunResult {
        let work = run.work;
        if let Some(gain) = self.controller.operator.fence.gain()
            && let Err(error) = Box::pin(self.takeover.catch_up(&self.controller, &work.key, gain)).await
        {
            return self.failed(work, error.into());
        }
        if let Some(fresh_start) = &self.fresh_start
            && let Err(error) = Box::pin(fresh_start.catch_up(&self.controller.operator)).await
        {
            return self.failed(work, error.into());
        }
        let Some(object) = self.controller.cache.get(&work.key) else {
            return match self.controller.cache.quarantined_error(&work.key) {
                Some(error) => Box::pin(self.report_undecodable(run, error)).await,
                None => RunResult::Gone,
            };
        };
        let step = self.step(object, run);
        let result = AssertUnwindSafe(step).catch_unwind().await;
        match result.unwrap_or_else(|panic| Err(Fault::from_panic(&*panic))) {
            Ok(action) => RunResult::Settled(action),
            Err(fault) if fault.is_panic() && self.controller.operator.states.is_one_missing() => {
                RunResult::Abandoned
            }
            Err(fault) => self.failed(work, fault),
        }
    }

    /// Records an event about the fault. The status, if there is one, says the same and is written first.
    fn failed(&self, work: &DispatchedKey, fault: Fault) -> RunResult {
        if let Some(object) = self.controller.cache.get(&work.key) {
            self.controller.report_failure(&*object, work.failures, &fault);
        }
        RunResult::Failed(fault)
    }

    /// Reports an object that cannot be decoded: it cannot be reconciled until it changes, and its status says so.
    async fn report_undecodable(&self, run: RunInput<'_>, error: String) -> RunResult {
        match report_undecodable(&self.controller, &run.work.key, run.claim, &error).await {
            Ok(()) => RunResult::Failed(terminal(format!("the object does not decode: {error}"))),
            Err(error) => RunResult::Failed(error.into()),
        }
    }

    /// Calls the user's function and writes the status it set, even if it failed.
    pub(super) async fn call(
        &self,
        object: Arc<Object>,
        run: RunInput<'_>,
        handler: &ReconcileFunction,
    ) -> Result<Action> {
        let context = self.context(object, run);
        // Both the call itself and its future may panic.
        let run = AssertUnwindSafe(async { handler(context.clone()).await });
        let mut result = run.catch_unwind().await.unwrap_or_else(|panic| Err(Fault::from_panic(&*panic)));
        if let Err(fault) = &mut result
            && context.has_warned()
        {
            fault.set_told();
        }
        let written = match context.status_change(result.as_ref().err()) {
            Some(patch) => Box::pin(context.put_status(&patch)).await,
            None => Ok(()),
        };
        match (result, written) {
            // A terminal fault is not retried, and nothing else would ever report it.
            (Err(fault), Err(error)) if fault.is_terminal() && is_worth_a_retry(&error) => Err(error.into()),
            (Err(fault), _) => Err(fault),
            (Ok(action), written) => written.map(|()| action).map_err(Into::into),
        }
    }

    pub(super) fn context(&self, object: Arc<Object>, run: RunInput<'_>) -> Arc<ReconcileRun> {
        ReconcileRun::new(self.controller.clone(), object, run.work, run.claim.clone())
    }
}

/// Returns whether the same write may succeed later: the server did not refuse it because of its content or its sender.
fn is_worth_a_retry(error: &Error) -> bool {
    error.code().is_none_or(|code| !matches!(code, 400 | 403 | 404 | 422))
}
