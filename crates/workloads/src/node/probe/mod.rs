//! Probes whether containers are started, ready and alive. One task per run probes, and every new result triggers the
//! Pod.
//!
//! `probe_result_counter` counts results (without I/O), and `probe_client` probes once. **Invariant:** results belong
//! to one run of one container. The next run starts without results, because the attempt is part of the key.

mod probe_client;
mod probe_result_counter;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_runtime::ObjectName;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::pod::container_roles;
use super::supervisor::protocol::{ContainerKey, ProcessSpec, RunState};
use super::supervisor_client::{PodRuns, SupervisorClient};
use probe_client::ProbeClient;
use probe_result_counter::ProbeResultCounter;

/// The results of the probes of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeResults {
    pub(crate) is_started: bool,
    pub(crate) is_ready: bool,
    pub(crate) is_live: bool,
}

/// The probe results of a Pod's runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodHealth(BTreeMap<(String, u32), ProbeResults>);

impl PodHealth {
    /// Returns a run's results; before the first probe, returns the results that Kubernetes assumes.
    pub(crate) fn results_for(&self, container: &Container, attempt: u32) -> ProbeResults {
        let known = self.0.get(&(container.name.clone(), attempt)).copied();
        known.unwrap_or_else(|| first_results(container))
    }
}

fn first_results(container: &Container) -> ProbeResults {
    ProbeResults {
        is_started: container.startup_probe.is_none(),
        is_ready: container.readiness_probe.is_none(),
        is_live: true,
    }
}

/// The question that a probe answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    fn word(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// Runs all probes of a node.
pub(crate) struct Prober {
    supervisor: Arc<SupervisorClient>,
    triggers: mpsc::Sender<ObjectName>,
    pods: Arc<Mutex<HashMap<String, ProbedPod>>>,
}

/// The results of one Pod, and the tasks that probe it.
#[derive(Default)]
struct ProbedPod {
    health: PodHealth,
    failures: Vec<String>,
    tasks: BTreeMap<(String, u32), AbortOnDropHandle<()>>,
}

impl Prober {
    pub(crate) fn new(supervisor: Arc<SupervisorClient>, triggers: mpsc::Sender<ObjectName>) -> Self {
        Self { supervisor, triggers, pods: Arc::default() }
    }

    pub(crate) fn health(&self, pod: &str) -> PodHealth {
        self.lock().get(pod).map(|probed| probed.health.clone()).unwrap_or_default()
    }

    /// Returns the probe failures since the last call.
    pub(crate) fn take_failures(&self, pod: &str) -> Vec<String> {
        self.lock().get_mut(pod).map(|probed| std::mem::take(&mut probed.failures)).unwrap_or_default()
    }

    /// Probes the runs that are running, and no others. A command runs alongside the container, with the settings in
    /// `process`.
    pub(crate) fn sync(
        &self,
        pod: &Pod,
        runs: &PodRuns,
        process: impl Fn(&Container) -> Option<ProcessSpec>,
    ) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let mut pods = self.lock();
        let probed = pods.entry(uid.clone()).or_default();
        let is_running = |name: &str, attempt: u32| {
            runs.get(name).is_some_and(|runs| runs.current.attempt == attempt && runs.current.is_running())
        };
        probed.tasks.retain(|(name, attempt), _| is_running(name, *attempt));
        probed.health.0.retain(|(name, attempt), _| is_running(name, *attempt));
        for part in pod
            .spec
            .iter()
            .flat_map(container_roles::all_containers)
            .filter(|part| has_probes(part.container))
        {
            let container = part.container;
            let Some(runs) = runs.get(&container.name) else { continue };
            let key = (container.name.clone(), runs.current.attempt);
            if !matches!(runs.current.state, RunState::Running { .. }) || probed.tasks.contains_key(&key) {
                continue;
            }
            probed.health.0.insert(key.clone(), first_results(container));
            let watch = self.new_task(pod, &uid, container, key.1, process(container));
            probed.tasks.insert(key, AbortOnDropHandle::new(tokio::spawn(watch.run())));
        }
    }

    /// Stops probing a Pod that is gone.
    pub(crate) fn forget(&self, pod: &str) {
        self.lock().remove(pod);
    }

    fn new_task(
        &self,
        pod: &Pod,
        uid: &str,
        container: &Container,
        attempt: u32,
        process: Option<ProcessSpec>,
    ) -> ProbeTask {
        let id = ContainerKey { pod: uid.to_owned(), container: container.name.clone() };
        let client = ProbeClient {
            supervisor: Arc::clone(&self.supervisor),
            id: id.clone(),
            process,
            container: container.clone(),
            address: pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default(),
        };
        ProbeTask {
            client,
            key: (container.name.clone(), attempt),
            id,
            target: ObjectName {
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone().unwrap_or_default(),
            },
            triggers: self.triggers.clone(),
            pods: Arc::clone(&self.pods),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ProbedPod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_probes(container: &Container) -> bool {
    container.startup_probe.is_some()
        || container.readiness_probe.is_some()
        || container.liveness_probe.is_some()
}

/// The task of one run.
struct ProbeTask {
    client: ProbeClient,
    id: ContainerKey,
    key: (String, u32),
    target: ObjectName,
    triggers: mpsc::Sender<ObjectName>,
    pods: Arc<Mutex<HashMap<String, ProbedPod>>>,
}

impl ProbeTask {
    /// Probes startup first, and the others once that has succeeded.
    async fn run(self) {
        let container = self.client.container.clone();
        if let Some(probe) = &container.startup_probe {
            self.probe_repeatedly(ProbeKind::Startup, probe).await;
        }
        let readiness = async {
            if let Some(probe) = &container.readiness_probe {
                self.probe_repeatedly(ProbeKind::Readiness, probe).await;
            }
        };
        let liveness = async {
            if let Some(probe) = &container.liveness_probe {
                self.probe_repeatedly(ProbeKind::Liveness, probe).await;
            }
        };
        tokio::join!(readiness, liveness);
    }

    /// Probes until the question is settled: startup once it succeeds, startup and liveness once they fail.
    async fn probe_repeatedly(&self, question: ProbeKind, probe: &Probe) {
        let mut counter = ProbeResultCounter::new(probe);
        sleep(seconds(probe.initial_delay_seconds, 0)).await;
        loop {
            let answer = self.client.probe_once(probe, seconds(probe.timeout_seconds, 1)).await;
            let settled = counter.count(answer.is_ok());
            let is_over = settled.is_some_and(|is_good| match question {
                ProbeKind::Startup => true,
                ProbeKind::Liveness => !is_good,
                ProbeKind::Readiness => false,
            });
            self.record_answer(question, settled, answer.err()).await;
            if is_over {
                return;
            }
            sleep(seconds(probe.period_seconds, 10)).await;
        }
    }

    async fn record_answer(&self, question: ProbeKind, settled: Option<bool>, failure: Option<String>) {
        let has_news = {
            let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(probed) = pods.get_mut(&self.id.pod) else { return };
            let has_failed = failure.is_some();
            probed.failures.extend(failure.map(|words| format!("{} probe failed: {words}", question.word())));
            let results = probed.health.0.get_mut(&self.key);
            let has_changed = results.is_some_and(|results| apply_answer(results, question, settled));
            has_changed || has_failed
        };
        if has_news {
            // The channel is closed only when the node stops.
            let _ = self.triggers.send(self.target.clone()).await;
        }
    }
}

/// Applies a result. Returns whether it changed anything.
fn apply_answer(results: &mut ProbeResults, question: ProbeKind, settled: Option<bool>) -> bool {
    let before = *results;
    match (question, settled) {
        (_, None) => {}
        (ProbeKind::Startup, Some(true)) => results.is_started = true,
        (ProbeKind::Startup, Some(false)) => results.is_live = false,
        (ProbeKind::Readiness, Some(is_good)) => results.is_ready = is_good,
        (ProbeKind::Liveness, Some(is_good)) => results.is_live = is_good,
    }
    *results != before
}

fn seconds(given: Option<i32>, otherwise: u64) -> Duration {
    let given = given.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(given.filter(|seconds| *seconds > 0).unwrap_or(otherwise))
}
