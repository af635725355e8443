//! Determines what the labels of a namespace request: for each mode, a level of the Pod Security Standards and its
//! version.

use std::fmt;

use serde_json::Value;

/// The prefix of the labels.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";
/// The last Kubernetes version that changed a standard. Newer versions have the same standards.
pub(super) const VERSION_MAX: u32 = 35;

/// How strict a standard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SecurityLevel {
    Privileged,
    Baseline,
    Restricted,
}

impl SecurityLevel {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

/// A version of the standards: the minor version of Kubernetes, or the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Minor(u32),
    Latest,
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let is_plain =
            digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        is_plain.then(|| digits.parse().ok().map(Self::Minor)).flatten()
    }

    /// Returns the minor version whose checks apply.
    pub(super) fn minor(self) -> u32 {
        match self {
            Self::Minor(minor) => minor.min(VERSION_MAX),
            Self::Latest => VERSION_MAX,
        }
    }
}

/// A standard at a certain version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StandardVersion {
    pub(super) level: SecurityLevel,
    pub(super) version: Version,
}

impl fmt::Display for StandardVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            SecurityLevel::Privileged => "privileged",
            SecurityLevel::Baseline => "baseline",
            SecurityLevel::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(formatter, "{level}:latest"),
            Version::Minor(minor) => write!(formatter, "{level}:v1.{minor}"),
        }
    }
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespacePolicy {
    pub(super) enforce: StandardVersion,
    pub(super) audit: StandardVersion,
    pub(super) warn: StandardVersion,
}

/// An invalid label: its name, its value, and the problem with it.
pub(super) type LabelFault = (String, String, String);

impl Default for NamespacePolicy {
    fn default() -> Self {
        let nothing = StandardVersion { level: SecurityLevel::Privileged, version: Version::Latest };
        Self { enforce: nothing, audit: nothing, warn: nothing }
    }
}

impl NamespacePolicy {
    /// Parses labels. Always returns a policy: the strictest one if an `enforce` label is invalid.
    pub(super) fn parse(labels: &Value, defaults: Self) -> (Self, Vec<LabelFault>) {
        let (mut policy, mut faults) = (defaults, Vec::new());
        let label = |name: &str| {
            let name = format!("{PREFIX}{name}");
            labels[&name].as_str().map(|value| (name, value.to_owned()))
        };
        let mut level = |name: &str| {
            let (label, value) = label(name)?;
            let level = SecurityLevel::parse(&value);
            if level.is_none() {
                let why = "must be one of privileged, baseline, restricted";
                faults.push((label, value, why.to_owned()));
            }
            Some(level)
        };
        let enforced = level("enforce");
        policy.enforce.level =
            enforced.map_or(policy.enforce.level, |level| level.unwrap_or(SecurityLevel::Restricted));
        let audited = level("audit");
        policy.audit.level =
            audited.map_or(policy.audit.level, |level| level.unwrap_or(SecurityLevel::Privileged));
        let warned = level("warn");
        policy.warn.level =
            warned.map_or(policy.warn.level, |level| level.unwrap_or(SecurityLevel::Privileged));
        let mut version = |name: &str, of: &mut StandardVersion| {
            let Some((label, value)) = label(name) else { return false };
            of.version = Version::parse(&value).unwrap_or_else(|| {
                faults.push((label, value, "must be \"latest\" or \"v1.x\"".to_owned()));
                Version::Latest
            });
            true
        };
        version("enforce-version", &mut policy.enforce);
        version("audit-version", &mut policy.audit);
        let has_warn_version = version("warn-version", &mut policy.warn);
        // A namespace that enforces a standard also gets warnings about it.
        if warned.is_none() && enforced.flatten().is_some_and(|level| level > policy.warn.level) {
            policy.warn.level = policy.enforce.level;
            if !has_warn_version {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, faults)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_say_what_is_enforced_and_warned_about() {
        let check = |labels: &[(&str, &str)], enforce: &str, warn: &str, faults: usize| {
            let labels = labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), json!(value)));
            let (policy, found) = NamespacePolicy::parse(&labels.collect(), NamespacePolicy::default());
            assert_eq!((&*policy.enforce.to_string(), &*policy.warn.to_string()), (enforce, warn));
            assert_eq!(found.len(), faults);
        };
        check(&[], "privileged:latest", "privileged:latest", 0);
        check(&[("enforce", "baseline")], "baseline:latest", "baseline:latest", 0);
        check(
            &[("enforce", "baseline"), ("enforce-version", "v1.20"), ("warn", "privileged")],
            "baseline:v1.20",
            "privileged:latest",
            0,
        );
        check(&[("enforce", "odd"), ("warn", "odd")], "restricted:latest", "privileged:latest", 2);
        check(&[("enforce-version", "v1.01"), ("audit", "odd")], "privileged:latest", "privileged:latest", 2);
    }
}
