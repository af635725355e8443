//! Manages the tasks of an operator: each has a name and an owner that awaits it, and one token stops them all.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// Named tasks that share one stop token.
pub(crate) struct Tasks {
    set: JoinSet<String>,
    stop: CancellationToken,
}

impl Tasks {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { set: JoinSet::new(), stop }
    }

    /// Runs the future until it completes or the stop cancels it.
    pub(crate) fn spawn(
        &mut self,
        name: impl Into<String>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let (name, stop) = (name.into(), self.stop.clone());
        self.set.spawn(async move {
            stop.run_until_cancelled(future).await;
            name
        });
    }

    /// Runs the future to completion; it must handle the stop itself.
    pub(crate) fn spawn_heeding(
        &mut self,
        name: impl Into<String>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let name = name.into();
        self.set.spawn(async move {
            future.await;
            name
        });
    }

    /// Waits until every task has ended. A task that panics is our bug: it is logged, the others are stopped, and an
    /// error is returned.
    pub(crate) async fn join(mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        while let Some(ended) = self.set.join_next().await {
            match ended {
                Ok(name) => tracing::debug!(name, "task ended"),
                Err(error) => {
                    tracing::error!(%error, "a task of the runtime failed; stopping");
                    self.stop.cancel();
                    outcome = Err(Error::Broken(error.to_string()));
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_stops_the_others_and_is_told() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("patient", std::future::pending());
        tasks.spawn("bad", async { panic!("over") });
        assert!(tasks.join().await.unwrap_err().to_string().contains("panicked"));
    }
}
