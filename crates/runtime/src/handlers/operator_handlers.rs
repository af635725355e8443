//! Handlers of the operator itself rather than of an object: they run before its controllers start, after they have
//! ended, and when its health is probed.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::handler_context::value_of;
use crate::error::Error;
use crate::fault::{Fault, Result};
use crate::queue::{Backoff, Outcome};
use crate::shared::OperatorShared;

/// How long a probe may take: its caller waits a few seconds at most, and no response is worse than a bad one.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// The context of an activity. Cheap to clone.
#[derive(Clone)]
pub struct OperatorContext(Arc<OperatorShared>);

impl OperatorContext {
    /// Returns the value given to [`Operator::state`](crate::Operator::state).
    ///
    /// # Panics
    /// If the operator has no state of this type, which is a bug in its `main`.
    pub fn state<S: Send + Sync + 'static>(&self) -> Arc<S> {
        self.0.states.expect()
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns the operator's current time.
    pub fn now(&self) -> jiff::Timestamp {
        self.0.clock.now()
    }
}

type ActivityFunction = Arc<dyn Fn(OperatorContext) -> BoxFuture<'static, Result<Value>> + Send + Sync>;

struct Named {
    id: String,
    call: ActivityFunction,
}

/// All activities of an operator, in the order they were declared.
#[derive(Default)]
pub(crate) struct OperatorHandlers {
    startup: Vec<Named>,
    shutdown: Vec<Named>,
    probes: Vec<Named>,
}

/// When an activity runs.
#[derive(Clone, Copy)]
pub(crate) enum ActivityKind {
    Startup,
    Shutdown,
    Probe,
}

impl OperatorHandlers {
    pub(crate) fn add<F, Fut, R>(&mut self, occasion: ActivityKind, id: String, function: F)
    where
        F: Fn(OperatorContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        let call: ActivityFunction = Arc::new(move |activity| {
            let running = function(activity);
            Box::pin(async move { value_of(&running.await?) })
        });
        let all = match occasion {
            ActivityKind::Startup => &mut self.startup,
            ActivityKind::Shutdown => &mut self.shutdown,
            ActivityKind::Probe => &mut self.probes,
        };
        all.push(Named { id, call });
    }

    /// Runs the activities before the controllers, one after the other, each until it succeeds. A terminal fault stops
    /// the operator. `tell` is called with the name of the current activity.
    pub(crate) async fn start(
        &self,
        shared: &Arc<OperatorShared>,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(), Error> {
        for activity in &self.startup {
            let mut failures = 0;
            tell(format!("startup handler {} is running", activity.id));
            while let Err(fault) = activity.run(shared).await {
                failures += 1;
                let (id, error) = (activity.id.clone(), fault.chain());
                let delay = match fault.outcome() {
                    Outcome::Terminal => return Err(Error::Startup { id, error }),
                    Outcome::RetryAfter(delay) => delay,
                    _ => Backoff::default().delay(failures, &shared.entropy),
                };
                tracing::warn!(id, error, retry = ?delay, "startup failed");
                tell(format!("startup handler {id} failed and will be retried: {error}"));
                tokio::time::sleep(delay).await;
            }
        }
        Ok(())
    }

    /// Runs the activities after the controllers, within the grace period, without retries, because the process is
    /// about to exit.
    pub(crate) async fn end(&self, shared: &Arc<OperatorShared>, grace: Duration) {
        let all = async {
            for activity in &self.shutdown {
                if let Err(fault) = activity.run(shared).await {
                    tracing::warn!(id = activity.id, error = %fault, "shutdown failed");
                }
            }
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            tracing::warn!("the shutdown took longer than {grace:?} and was cut off");
        }
    }

    /// Calls all probes concurrently.
    pub(crate) async fn probe(&self, shared: &Arc<OperatorShared>) -> Vec<(String, Result<Value, String>)> {
        join_all(self.probes.iter().map(|probe| async {
            let answer = match tokio::time::timeout(PROBE_MAX, probe.run(shared)).await {
                Ok(answer) => answer.map_err(|fault| fault.chain()),
                Err(_) => Err(format!("no answer within {PROBE_MAX:?}")),
            };
            (probe.id.clone(), answer)
        }))
        .await
    }
}

impl Named {
    async fn run(&self, shared: &Arc<OperatorShared>) -> Result<Value> {
        let activity = OperatorContext(shared.clone());
        let ended = AssertUnwindSafe(async { (self.call)(activity).await }).catch_unwind().await;
        ended.unwrap_or_else(|panic| Err(Fault::from_panic(&*panic)))
    }
}
