//! Decides how large each ReplicaSet of a Deployment should be. Pure: numbers in, numbers out.
//!
//! **Invariant:** during a rolling update there are never more Pods than desired plus surge, and never fewer available
//! ones than desired minus unavailable, as far as this controller can prevent it.

use k8s_openapi::api::apps::v1::DeploymentSpec;

use crate::controllers::numbers::{Rounding, resolve_percentage};

/// The sizes that the Deployment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RolloutLimits {
    pub(super) desired: i32,
    /// How many Pods may exist beyond the desired ones during a rollout.
    pub(super) surge: i32,
    /// How many of the desired Pods may be unavailable during a rollout.
    pub(super) unavailable: i32,
    pub(super) is_rolling: bool,
}

impl RolloutLimits {
    pub(super) fn of(spec: &DeploymentSpec) -> Self {
        let desired = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Self { desired, surge: 0, unavailable: 0, is_rolling: false };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = resolve_percentage(rolling.and_then(|one| one.max_surge.as_ref()), desired, Rounding::Up);
        let unavailable =
            resolve_percentage(rolling.and_then(|one| one.max_unavailable.as_ref()), desired, Rounding::Down);
        // If both were zero, the rollout could not proceed; percentages of few replicas can round to that.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { desired, surge, unavailable: unavailable.min(desired), is_rolling: true }
    }

    pub(super) fn total_max(self) -> i32 {
        self.desired + self.surge
    }

    pub(super) fn available_min(self) -> i32 {
        self.desired - self.unavailable
    }
}

/// A ReplicaSet, reduced to its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetSize {
    /// The size in its spec.
    pub(super) replicas: i32,
    pub(super) available: i32,
}

/// Returns the size for the new ReplicaSet when all sets together have `total` replicas.
pub(super) fn new_size(limits: RolloutLimits, total: i32, new: i32) -> i32 {
    if !limits.is_rolling || new > limits.desired {
        return limits.desired;
    }
    let room = limits.total_max() - total;
    if room <= 0 { new } else { new + room.min(limits.desired - new) }
}

/// Returns the sizes for the old ReplicaSets, oldest first: unhealthy replicas go first, then as many as availability
/// allows.
pub(super) fn old_sizes(limits: RolloutLimits, old: &[SetSize], new: SetSize) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(|size| size.replicas).collect();
    let total: i32 = sizes.iter().sum::<i32>() + new.replicas;
    let removable = total - limits.available_min() - (new.replicas - new.available);
    if removable <= 0 {
        return sizes;
    }
    let mut left = removable;
    for (size, set) in sizes.iter_mut().zip(old) {
        let unhealthy = (set.replicas - set.available).clamp(0, left);
        *size -= unhealthy;
        left -= unhealthy;
    }
    let available: i32 = old.iter().map(|size| size.available).sum::<i32>() + new.available;
    let mut left = available - limits.available_min();
    for size in &mut sizes {
        let taken = (*size).min(left.max(0));
        *size -= taken;
        left -= taken;
    }
    sizes
}

/// A ReplicaSet in a rollout that is being scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetShare {
    pub(super) replicas: i32,
    /// The number of desired Pods plus surge when it was last sized.
    pub(super) max_before: Option<i32>,
}

/// Returns the sizes after a Deployment was scaled during a rollout: each set grows or shrinks in proportion, and the
/// first one takes the remainder. `shares` are the active sets, largest first.
pub(super) fn proportional_sizes(
    limits: RolloutLimits,
    shares: &[SetShare],
    status_replicas: i32,
) -> Vec<i32> {
    let total: i32 = shares.iter().map(|share| share.replicas).sum();
    let allowed = if limits.desired > 0 { limits.total_max() } else { 0 };
    let to_add = allowed - total;
    let mut added = 0;
    let mut sizes = Vec::with_capacity(shares.len());
    for share in shares {
        let part = proportion(limits, *share, status_replicas, to_add, added);
        sizes.push(share.replicas + part);
        added += part;
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    sizes
}

fn proportion(limits: RolloutLimits, share: SetShare, status_replicas: i32, to_add: i32, added: i32) -> i32 {
    if share.replicas == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let (fraction, allowed) = (fraction(limits, share, status_replicas), to_add - added);
    if to_add > 0 { fraction.min(allowed) } else { fraction.max(allowed) }
}

fn fraction(limits: RolloutLimits, share: SetShare, status_replicas: i32) -> i32 {
    if limits.desired == 0 {
        return -share.replicas;
    }
    let before = share.max_before.filter(|before| *before > 0).unwrap_or(status_replicas);
    if before == 0 {
        return 0;
    }
    let exact = i64::from(share.replicas) * i64::from(limits.total_max());
    let before = i64::from(before);
    // Rounds to the nearest, halves up: both numbers are positive.
    let rounded = (2 * exact + before) / (2 * before);
    i32::try_from(rounded).unwrap_or(i32::MAX) - share.replicas
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(desired: i32, surge: i32, unavailable: i32) -> RolloutLimits {
        RolloutLimits { desired, surge, unavailable, is_rolling: true }
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check_limits(strategy: serde_json::Value, replicas: i32, expected: (i32, i32)) {
        let spec = json!({"replicas": replicas, "strategy": strategy, "selector": {}, "template": {}});
        let limits = RolloutLimits::of(&serde_json::from_value(spec).expect("a spec"));
        assert_eq!((limits.surge, limits.unavailable), expected);
    }

    #[test]
    fn limits_are_rounded_so_that_something_can_move() {
        let quarter =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
        check_limits(quarter.clone(), 4, (1, 1));
        check_limits(quarter.clone(), 3, (1, 0));
        check_limits(quarter, 1, (1, 0));
        let little =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}});
        check_limits(little, 3, (0, 1));
        check_limits(json!({"type": "Recreate"}), 3, (0, 0));
    }

    #[track_caller]
    fn check_new(limits: RolloutLimits, total: i32, new: i32, expected: i32) {
        assert_eq!(new_size(limits, total, new), expected);
    }

    #[test]
    fn the_new_set_grows_into_the_room() {
        check_new(limits(3, 1, 0), 3, 0, 1);
        check_new(limits(3, 1, 0), 4, 1, 1);
        check_new(limits(10, 3, 2), 10, 0, 3);
        check_new(limits(10, 3, 2), 8, 3, 8);
        check_new(limits(3, 1, 0), 0, 0, 3);
        check_new(limits(2, 1, 0), 5, 5, 2);
        check_new(RolloutLimits { is_rolling: false, ..limits(3, 0, 0) }, 9, 0, 3);
    }

    #[track_caller]
    fn check_old(limits: RolloutLimits, old: &[(i32, i32)], new: (i32, i32), expected: &[i32]) {
        let size =
            |(replicas, available): &(i32, i32)| SetSize { replicas: *replicas, available: *available };
        let old: Vec<SetSize> = old.iter().map(size).collect();
        assert_eq!(old_sizes(limits, &old, size(&new)), expected);
    }

    #[test]
    fn old_sets_shrink_as_availability_allows() {
        check_old(limits(3, 1, 0), &[(3, 3)], (1, 0), &[3]);
        check_old(limits(3, 1, 0), &[(3, 3)], (1, 1), &[2]);
        check_old(limits(10, 3, 2), &[(10, 10)], (3, 0), &[8]);
        // Unhealthy replicas of old sets go first.
        check_old(limits(10, 3, 2), &[(8, 8), (5, 0)], (0, 0), &[8, 0]);
        // A new set that does not become available protects the old one.
        check_old(limits(10, 3, 2), &[(8, 7)], (5, 0), &[8]);
        check_old(limits(3, 0, 1), &[(3, 3)], (0, 0), &[2]);
        check_old(limits(3, 1, 0), &[(1, 1), (2, 2)], (3, 3), &[0, 0]);
    }

    #[track_caller]
    fn check_proportional(limits: RolloutLimits, shares: &[(i32, i32)], expected: &[i32]) {
        let shares: Vec<SetShare> = shares
            .iter()
            .map(|(replicas, max)| SetShare { replicas: *replicas, max_before: Some(*max) })
            .collect();
        assert_eq!(proportional_sizes(limits, &shares, 0), expected);
    }

    #[test]
    fn a_rollout_is_scaled_in_proportion() {
        check_proportional(limits(20, 0, 1), &[(5, 10), (5, 10)], &[10, 10]);
        check_proportional(limits(15, 3, 2), &[(8, 13), (5, 13)], &[11, 7]);
        check_proportional(limits(5, 0, 1), &[(5, 10), (5, 10)], &[2, 3]);
        check_proportional(limits(0, 0, 1), &[(5, 10), (5, 10)], &[0, 0]);
    }
}
