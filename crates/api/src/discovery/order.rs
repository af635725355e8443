//! The order in which groups and versions are listed. It decides which kind a short name means and which version
//! clients prefer.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ServedGroup, ServedVersion};
use crate::resource::Resource;

/// Priorities of the built-in groups and of their newest versions, as kube-apiserver registers them. Higher
/// priorities come first.
const PRIORITIES: [(&str, GroupPriority); 21] = [
    ("", GroupPriority { group: 18000, version: 1 }),
    ("apiregistration.k8s.io", GroupPriority { group: 17900, version: 15 }),
    ("apps", GroupPriority { group: 17800, version: 15 }),
    ("events.k8s.io", GroupPriority { group: 17750, version: 15 }),
    ("authentication.k8s.io", GroupPriority { group: 17700, version: 15 }),
    ("authorization.k8s.io", GroupPriority { group: 17600, version: 15 }),
    ("autoscaling", GroupPriority { group: 17500, version: 30 }),
    ("batch", GroupPriority { group: 17400, version: 15 }),
    ("certificates.k8s.io", GroupPriority { group: 17300, version: 15 }),
    ("networking.k8s.io", GroupPriority { group: 17200, version: 15 }),
    ("policy", GroupPriority { group: 17100, version: 15 }),
    ("rbac.authorization.k8s.io", GroupPriority { group: 17000, version: 15 }),
    ("storage.k8s.io", GroupPriority { group: 16800, version: 15 }),
    ("admissionregistration.k8s.io", GroupPriority { group: 16700, version: 15 }),
    ("apiextensions.k8s.io", GroupPriority { group: 16700, version: 15 }),
    ("scheduling.k8s.io", GroupPriority { group: 16600, version: 15 }),
    ("coordination.k8s.io", GroupPriority { group: 16500, version: 15 }),
    ("node.k8s.io", GroupPriority { group: 16300, version: 15 }),
    ("discovery.k8s.io", GroupPriority { group: 16200, version: 15 }),
    ("resource.k8s.io", GroupPriority { group: 16200, version: 21 }),
    ("flowcontrol.apiserver.k8s.io", GroupPriority { group: 16100, version: 21 }),
];
/// The priority of every group of custom kinds.
const CUSTOM: GroupPriority = GroupPriority { group: 1000, version: 100 };

/// The priority of a group and of its newest version.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupPriority {
    pub(super) group: u32,
    pub(super) version: u32,
}

pub(super) fn priority(group: &str) -> GroupPriority {
    PRIORITIES.iter().find(|(name, _)| *name == group).map_or(CUSTOM, |(_, priority)| *priority)
}

/// Sorts the rows by group, version and name.
pub(super) fn grouped(rows: &[Arc<Resource>]) -> Vec<ServedGroup> {
    let mut tree = BTreeMap::<&str, BTreeMap<&str, Vec<Arc<Resource>>>>::new();
    for row in rows {
        tree.entry(&row.group).or_default().entry(&row.version).or_default().push(Arc::clone(row));
    }
    let mut groups: Vec<_> = tree.into_iter().map(|(name, versions)| group(name, versions)).collect();
    groups.sort_by_key(|group| Reverse(priority(&group.name).group));
    groups
}

fn group(name: &str, versions: BTreeMap<&str, Vec<Arc<Resource>>>) -> ServedGroup {
    let mut versions: Vec<_> = versions
        .into_iter()
        .map(|(name, mut rows)| {
            rows.sort_by(|left, right| left.plural.cmp(&right.plural));
            ServedVersion { name: name.into(), rows }
        })
        .collect();
    versions.sort_by(|left, right| compare_versions(&left.name, &right.name));
    ServedGroup { name: name.into(), versions }
}

/// Orders version names the Kubernetes way, preferred first: `v2`, `v1`, `v1beta2`, `v1alpha1`, then all others by
/// name.
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Parses a version into its stability and its numbers; greater is preferred.
fn parse(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let (major, stability, minor) = match (rest.split_once("alpha"), rest.split_once("beta")) {
        (Some((major, minor)), _) => (major, 0, minor),
        (None, Some((major, minor))) => (major, 1, minor),
        (None, None) => return Some((2, number(rest)?, 0)),
    };
    Some((stability, number(major)?, number(minor)?))
}

fn number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v01",
        ];
        let mut versions = expected;
        versions.reverse();
        versions.sort_by(|left, right| compare_versions(left, right));
        assert_eq!(versions, expected);
    }

    #[test]
    fn every_built_in_group_has_a_priority() {
        for row in crate::kinds::built_in_rows() {
            assert!(priority(&row.group).group > CUSTOM.group, "{} needs a priority", row.group);
        }
    }
}
