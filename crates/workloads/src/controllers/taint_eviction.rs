//! Evicts Pods from Nodes with `NoExecute` taints: immediately if a Pod does not tolerate them, after the shortest
//! `tolerationSeconds` if it tolerates them for a while.
//!
//! The time counts from when this controller sees that a Pod is under a taint, as in Kubernetes, so a restart resets
//! it. **Invariant:** when an eviction is cancelled, an event on the Pod says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Result, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::partial_pod::PartialPod;
use super::tolerations::{taints_of, time_tolerated};

/// The reason used in all of this controller's events.
const REASON: &str = "TaintManagerEviction";
/// How long an eviction that is due is remembered: longer than its retries take. Pods that are gone are dropped in this
/// way.
const REMEMBERED: Duration = Duration::from_secs(600);

/// An eviction that waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingEviction {
    since: Timestamp,
    due: Timestamp,
}

/// The pending evictions by the uid of the Pod.
#[derive(Debug, Default)]
struct PendingEvictions(HashMap<String, PendingEviction>);

impl PendingEvictions {
    /// Returns how much longer a Pod may stay that tolerates its Node for this long in total.
    fn time_left(&mut self, uid: &str, tolerated: Duration, now: Timestamp) -> Duration {
        self.0.retain(|_, one| now.duration_since(one.due).unsigned_abs() < REMEMBERED || one.due > now);
        let since = self.0.get(uid).map_or(now, |known| known.since);
        let due = since.saturating_add(tolerated).unwrap_or(Timestamp::MAX);
        self.0.insert(uid.to_owned(), PendingEviction { since, due });
        Duration::try_from(due.duration_since(now)).unwrap_or_default()
    }

    /// Forgets the Pod. Returns whether its eviction was pending.
    fn cancel(&mut self, uid: &str) -> bool {
        self.0.remove(uid).is_some()
    }
}

type Memory = Arc<Mutex<PendingEvictions>>;

pub(super) fn control() -> BuiltController {
    let memory = Memory::default();
    Controller::<PartialPod>::new()
        .named("taint-eviction-controller")
        .references::<Node, _>(|pod: &PartialPod| pod.spec.node_name.clone().filter(|name| !name.is_empty()))
        .reconcile(move |pod, cx| reconcile(pod, cx, Arc::clone(&memory)))
}

async fn reconcile(pod: Arc<PartialPod>, cx: Context<PartialPod>, memory: Memory) -> Result {
    let node = if pod.node().is_empty() { None } else { cx.get::<Node>(pod.node())? };
    let taints = node.iter().flat_map(|node| taints_of(node)).filter(|taint| taint.effect == "NoExecute");
    let Some(tolerated) = time_tolerated(&taints.collect::<Vec<_>>(), &pod.spec.tolerations) else {
        if lock(&memory).cancel(pod.uid()) {
            cx.event(Severity::Normal, REASON, format!("Cancelling deletion of Pod {}", full_name(&cx)));
        }
        return Ok(Action::await_change());
    };
    let left = lock(&memory).time_left(pod.uid(), tolerated, cx.now());
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    evict(&cx, &pod).await?;
    lock(&memory).cancel(pod.uid());
    Ok(Action::await_change())
}

fn lock(memory: &Memory) -> std::sync::MutexGuard<'_, PendingEvictions> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn full_name(cx: &Context<PartialPod>) -> String {
    format!("{}/{}", cx.key().namespace(), cx.key().name())
}

/// Reports why the Pod is deleted, then deletes it with its own grace period.
async fn evict(cx: &Context<PartialPod>, pod: &PartialPod) -> Result<()> {
    cx.event(Severity::Normal, REASON, format!("Marking for deletion Pod {}", full_name(cx)));
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "observedGeneration": pod.metadata.generation,
        "lastTransitionTime": cx.now().strftime("%FT%TZ").to_string()});
    let patch =
        Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
    let pods: Api<core::Pod> = Api::namespaced(cx.client().clone(), cx.key().namespace());
    match pods.patch_status(pod.name(), &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
        patched => patched?,
    };
    cx.delete(pod).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_first_sight() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let seconds = Duration::from_secs;
        let mut pending = PendingEvictions::default();
        assert_eq!(pending.time_left("a", seconds(10), second(0)), seconds(10));
        assert_eq!(pending.time_left("a", seconds(10), second(4)), seconds(6));
        assert_eq!(
            pending.time_left("a", seconds(3), second(4)),
            Duration::ZERO,
            "another taint, tolerated for less"
        );
        assert!(pending.cancel("a") && !pending.cancel("a"));
        assert_eq!(pending.time_left("a", seconds(10), second(5)), seconds(10), "it begins anew");
        assert_eq!(pending.time_left("b", seconds(10), second(2000)), seconds(10));
        assert!(!pending.cancel("a"), "it was forgotten");
    }
}
