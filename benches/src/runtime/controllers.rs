//! The same controller of ConfigMaps on both runtimes: this file contains everything that differs between the two.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use homeostat_runtime::{Action, CancellationToken, Controller, Kind, Operator};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, LimitRange, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use kube::{Api, Client, ResourceExt};
use kube_runtime::controller::Action as TheirAction;
use kube_runtime::watcher;
use tokio::task::JoinHandle;

/// The runtime to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RuntimeKind {
    Ours,
    Theirs,
}

/// What a reconcile returns.
#[derive(Clone, Copy)]
pub(super) enum ReconcileResult {
    Settled,
    Again,
}

/// What to do with an object, given its name.
pub(super) type ReconcileFn = Arc<dyn Fn(String) -> BoxFuture<'static, ReconcileResult> + Send + Sync>;

/// How the controller is built.
#[derive(Clone, Copy, Default)]
pub(super) struct ControllerSetup<'a> {
    /// Whether to watch six more kinds as owned.
    pub(super) with_children: bool,
    /// The number of concurrent reconciles; each runtime's own default if absent.
    pub(super) concurrency: Option<u16>,
    /// Selects objects by these labels.
    pub(super) labels: Option<&'a str>,
}

/// A running controller; ended when dropped.
pub(super) struct RunningController {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningController {
    /// Ends the controller and waits for the end.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        // Their controller's stream never ends, and may have panicked.
        if tokio::time::timeout(Duration::from_secs(2), &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RuntimeKind {
    pub(super) const BOTH: [Self; 2] = [Self::Ours, Self::Theirs];

    pub(super) fn start(
        self,
        client: Client,
        setup: ControllerSetup<'_>,
        reconcile: ReconcileFn,
    ) -> RunningController {
        match self {
            Self::Ours => ours(client, setup, reconcile),
            Self::Theirs => theirs(&client, setup, reconcile),
        }
    }
}

fn ours(client: Client, setup: ControllerSetup<'_>, reconcile: ReconcileFn) -> RunningController {
    let mut controller = Controller::<ConfigMap>::new();
    if let Some(limit) = setup.concurrency {
        controller = controller.concurrency(limit.into());
    }
    if let Some(labels) = setup.labels {
        controller = controller.labels(labels);
    }
    if setup.with_children {
        controller = controller
            .owns::<Secret>()
            .owns::<Service>()
            .owns::<ServiceAccount>()
            .owns::<Endpoints>()
            .owns::<LimitRange>()
            .owns::<PersistentVolumeClaim>();
    }
    let control = controller.reconcile(move |map, _| {
        let done = reconcile(map.name_any());
        async move {
            Ok(match done.await {
                ReconcileResult::Settled => Action::await_change(),
                ReconcileResult::Again => Action::requeue_now(),
            })
        }
    });
    let stop = CancellationToken::new();
    let operator = Operator::new("bench.homeostat.dev").control(control).grace(Duration::ZERO);
    let run = operator.run_on(client, stop.clone());
    RunningController { stop, task: tokio::spawn(async move { run.await.expect("it ends well") }) }
}

fn theirs(client: &Client, setup: ControllerSetup<'_>, reconcile: ReconcileFn) -> RunningController {
    let config = match setup.labels {
        Some(labels) => watcher::Config::default().labels(labels),
        None => watcher::Config::default(),
    };
    let mut controller = kube_runtime::Controller::new(Api::<ConfigMap>::all(client.clone()), config);
    if setup.with_children {
        controller = owns::<Secret>(controller, client);
        controller = owns::<Service>(controller, client);
        controller = owns::<ServiceAccount>(controller, client);
        controller = owns::<Endpoints>(controller, client);
        controller = owns::<LimitRange>(controller, client);
        controller = owns::<PersistentVolumeClaim>(controller, client);
    }
    if let Some(limit) = setup.concurrency {
        controller = controller.with_config(kube_runtime::controller::Config::default().concurrency(limit));
    }
    let stream = controller.run(
        move |map, _| {
            let done = reconcile(map.name_any());
            async move {
                Ok::<_, std::io::Error>(match done.await {
                    ReconcileResult::Settled => TheirAction::await_change(),
                    ReconcileResult::Again => TheirAction::requeue(Duration::ZERO),
                })
            }
        },
        |_, _, _| TheirAction::await_change(),
        Arc::new(()),
    );
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    RunningController { stop: CancellationToken::new(), task }
}

fn owns<T: Kind>(
    controller: kube_runtime::Controller<ConfigMap>,
    client: &Client,
) -> kube_runtime::Controller<ConfigMap> {
    controller.owns(Api::<T>::all(client.clone()), watcher::Config::default())
}
