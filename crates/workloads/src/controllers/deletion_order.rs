//! Decides which Pods are deleted first when there are too many: those that do the least and will be missed the least.
//!
//! The order is: unscheduled before scheduled, pending before running, not ready before ready, low deletion cost before
//! high (the annotation `controller.kubernetes.io/pod-deletion-cost`), crowded nodes before empty ones, young before
//! old (in powers of two, so that the choice is spread), often restarted before stable.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::partial_pod::PartialPod;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns the `count` Pods to delete. `related` are all Pods of the same workload; they show how crowded a node is.
pub(crate) fn pods_to_delete(
    mut pods: Vec<Arc<PartialPod>>,
    related: &[Arc<PartialPod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<PartialPod>> {
    if count < pods.len() {
        let mut on_node: HashMap<&str, usize> = HashMap::new();
        for pod in related.iter().filter(|pod| pod.is_active()) {
            *on_node.entry(pod.node()).or_default() += 1;
        }
        let crowd = |pod: &PartialPod| on_node.get(pod.node()).copied().unwrap_or_default();
        pods.sort_by(|left, right| compare(left, right, &crowd, now));
        pods.truncate(count);
    }
    pods
}

fn compare(
    left: &PartialPod,
    right: &PartialPod,
    crowd: &impl Fn(&PartialPod) -> usize,
    now: Timestamp,
) -> Ordering {
    let standing = |pod: &PartialPod| {
        let phase = match pod.phase() {
            "Pending" => 0,
            "Running" => 2,
            _ => 1,
        };
        (!pod.node().is_empty(), phase, pod.is_ready(), cost(pod), Reverse(crowd(pod)))
    };
    standing(left)
        .cmp(&standing(right))
        .then_with(|| by_age(left, right, left.ready_since(), right.ready_since(), now))
        .then_with(|| right.restarts_max().cmp(&left.restarts_max()))
        .then_with(|| by_age(left, right, left.created(), right.created(), now))
        .then_with(|| left.uid().cmp(right.uid()))
}

fn cost(pod: &PartialPod) -> i32 {
    pod.annotation(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or_default()
}

/// Compares by age, younger first, in powers of two; Pods of the same power are ordered by uid, which is random.
fn by_age(
    left: &PartialPod,
    right: &PartialPod,
    left_since: Option<Timestamp>,
    right_since: Option<Timestamp>,
    now: Timestamp,
) -> Ordering {
    if left_since == right_since {
        return Ordering::Equal;
    }
    let power = |since: Option<Timestamp>| {
        let nanoseconds = since.map_or(0, |since| now.duration_since(since).as_nanos());
        u128::try_from(nanoseconds).ok().and_then(u128::checked_ilog2)
    };
    power(left_since).cmp(&power(right_since)).then_with(|| left.uid().cmp(right.uid()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::super::partial_pod::{PartialCondition, PartialContainerStatus};
    use super::*;

    const NOW: i64 = 100_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a valid time")
    }

    /// Parses `name node phase ready-for restarts cost`, `-` for none.
    fn pod(text: &str) -> Arc<PartialPod> {
        let words: Vec<&str> = text.split(' ').collect();
        let given = |word: &str| (word != "-").then(|| word.to_owned());
        let mut pod = PartialPod::default();
        pod.metadata.name = given(words[0]);
        pod.metadata.uid = given(words[0]);
        pod.metadata.creation_timestamp = Some(Time(at(1)));
        pod.spec.node_name = given(words[1]);
        pod.status.phase = given(words[2]);
        pod.status.conditions.extend(words[3].parse::<i64>().ok().map(|age| PartialCondition {
            reason: None,
            message: None,
            r#type: "Ready".into(),
            status: "True".into(),
            last_transition_time: Some(Time(at(NOW - age))),
        }));
        pod.status.container_statuses = vec![PartialContainerStatus {
            restart_count: words[4].parse().unwrap_or_default(),
            ..PartialContainerStatus::default()
        }];
        pod.metadata.annotations = given(words[5]).map(|cost| [(DELETION_COST.to_owned(), cost)].into());
        Arc::new(pod)
    }

    /// Checks that the Pod called `victim` is deleted first, whatever order the Pods are in.
    #[track_caller]
    fn check(pods: [&str; 2], victim: &str) {
        for order in [[pods[0], pods[1]], [pods[1], pods[0]]] {
            let all: Vec<_> = order.into_iter().map(pod).collect();
            let chosen = pods_to_delete(all.clone(), &all, 1, at(NOW));
            assert_eq!(chosen[0].name(), victim, "{order:?}");
        }
    }

    #[test]
    fn who_goes_first() {
        check(["a - Pending - 0 -", "b n Pending - 9 -"], "a");
        check(["a n Running - 0 -", "b n Pending - 0 -"], "b");
        check(["a n Running 10 0 -", "b n Running - 0 -"], "b");
        check(["a n Running 10 0 5", "b n Running 1000 0 -"], "b");
        check(["a n Running 10 0 -1", "b n Running 1 0 -"], "a");
        check(["a n Running 1000 0 -", "b n Running 10 0 -"], "b");
        check(["b n Running 1000 0 -", "a n Running 1001 0 -"], "a");
        check(["a n Running 10 1 -", "b n Running 10 7 -"], "b");
    }

    #[test]
    fn a_crowded_node_is_thinned_out() {
        let ours: Vec<_> = ["a m Running 1 0 -", "b n Running 1000 0 -"].into_iter().map(pod).collect();
        let mut related = ours.clone();
        related.push(pod("c n Running 10 0 -"));
        assert_eq!(pods_to_delete(ours, &related, 1, at(NOW))[0].name(), "b");
    }
}
