//! Deletes the oldest finished Pods when there are too many, as Kubernetes' Pod garbage collector does: evicted Pods
//! first, then by age.
//!
//! Finished Pods are counted at most once per period, no matter how many finish in the meantime, and not at all while
//! none finishes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Predicate, Result};
use jiff::Timestamp;

use super::partial_pod::PartialPod;
use super::pod_garbage_collector::delete_now;

/// How many finished Pods are kept: the default of kube-controller-manager's `--terminated-pod-gc-threshold`.
const FINISHED_MAX: usize = 12_500;
/// The time between two counts: the same as in Kubernetes.
const PERIOD: Duration = Duration::from_secs(20);

/// The index of finished Pods in all namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FinishedPods;

/// Lets only one of many reconciles do the counting.
#[derive(Debug, Default)]
struct CountSchedule(Option<Timestamp>);

impl CountSchedule {
    /// Returns how long the caller should wait before asking again; zero if it should count now, `None` if another
    /// reconcile will.
    fn claim(&mut self, now: Timestamp) -> Option<Duration> {
        let planned = self.0.filter(|at| now.duration_since(*at).unsigned_abs() < PERIOD);
        match planned {
            Some(at) if at > now => None,
            Some(_) => {
                self.0 = None;
                Some(Duration::ZERO)
            }
            // No count is scheduled, or the Pod whose reconcile should have counted is gone.
            None => {
                self.0 = now.checked_add(PERIOD / 2).ok();
                Some(PERIOD / 2)
            }
        }
    }
}

pub(super) fn control() -> BuiltController {
    let schedule = Arc::new(Mutex::new(CountSchedule::default()));
    Controller::<PartialPod>::new()
        .named("finished-pods")
        .when(Predicate::new(|_, new: &PartialPod| new.is_finished()))
        .index::<PartialPod, FinishedPods, _>(|pod: &PartialPod| pod.is_finished().then_some(FinishedPods))
        .reconcile(move |pod, cx| reconcile(pod, cx, Arc::clone(&schedule)))
}

async fn reconcile(
    pod: Arc<PartialPod>,
    cx: Context<PartialPod>,
    schedule: Arc<Mutex<CountSchedule>>,
) -> Result {
    if !pod.is_finished() {
        return Ok(Action::await_change());
    }
    let turn = schedule.lock().unwrap_or_else(PoisonError::into_inner).claim(cx.now());
    match turn {
        None => Ok(Action::await_change()),
        Some(wait) if !wait.is_zero() => Ok(Action::requeue(wait)),
        Some(_) => {
            for surplus in surplus_pods(cx.indexed::<PartialPod, _>(&FinishedPods)?, FINISHED_MAX) {
                delete_now(&cx, &surplus).await?;
            }
            Ok(Action::await_change())
        }
    }
}

/// Returns the Pods beyond the limit: evicted ones first, then the oldest.
fn surplus_pods(mut pods: Vec<Arc<PartialPod>>, limit: usize) -> Vec<Arc<PartialPod>> {
    let count = pods.len().saturating_sub(limit);
    if count == 0 {
        return Vec::new();
    }
    let is_evicted = |pod: &PartialPod| pod.is_failed() && pod.status.reason.as_deref() == Some("Evicted");
    pods.sort_by_cached_key(|pod| (!is_evicted(pod), pod.created(), pod.name().to_owned()));
    pods.into_iter().take(count).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pods: &str, limit: usize, expected: &str) {
        let pod = |word: &str| {
            let (name, rest) = word.split_once('@').unwrap();
            let (second, reason) = rest.split_once(':').unwrap_or((rest, ""));
            let pod = json!({"metadata": {"name": name, "creationTimestamp": format!("2027-01-15T08:00:0{second}Z")},
                             "status": {"phase": "Failed", "reason": reason}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let surplus = surplus_pods(pods.split_whitespace().map(pod).collect(), limit);
        let names: Vec<&str> = surplus.iter().map(|pod| pod.name()).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn the_oldest_go_after_the_evicted() {
        check("a@1 b@2", 2, "");
        check("b@2 a@1 c@3", 2, "a");
        check("a@1 b@2:Evicted c@3", 1, "b a");
        check("b@1 a@1 c@1", 1, "a b");
    }

    #[test]
    fn one_of_many_counts() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let mut schedule = CountSchedule::default();
        assert_eq!(schedule.claim(second(0)), Some(PERIOD / 2));
        assert_eq!(schedule.claim(second(5)), None, "the first one counts");
        assert_eq!(schedule.claim(second(10)), Some(Duration::ZERO));
        assert_eq!(schedule.claim(second(11)), Some(PERIOD / 2), "the next period");
        assert_eq!(schedule.claim(second(100)), Some(PERIOD / 2), "whoever should have counted is gone");
    }
}
