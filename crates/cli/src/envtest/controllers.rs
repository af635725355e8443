//! Which controllers run alongside the stand-in for kube-apiserver. A suite that starts kube-apiserver alone has none,
//! and often relies on that: it writes the status of its Deployments itself.
//!
//! Garbage collection and the deletion of namespaces are on anyway: without them, nothing that a test leaves behind
//! goes away.

use std::time::Duration;

use homeostat::embedded::BackgroundTasks;

/// The variable that switches controllers on and off.
pub(super) const VARIABLE: &str = "HOMEOSTAT_ENVTEST";

/// The delay before a namespace is deleted, as in Kubernetes. Suites that were written without a controller finish the
/// deletion of a namespace themselves, immediately; they must not find it gone.
const NAMESPACE_DELETION_DELAY: Duration = Duration::from_secs(5);

/// The controllers that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Controllers {
    /// The server's own background tasks.
    pub(super) background: BackgroundTasks,
    /// The controllers of Deployments, Jobs and other workloads.
    pub(super) workloads: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        let background = BackgroundTasks {
            garbage_collection: true,
            namespace_deletion: true,
            namespace_deletion_delay: NAMESPACE_DELETION_DELAY,
            namespace_defaults: false,
        };
        Self { background, workloads: false }
    }
}

impl Controllers {
    /// Parses a comma-separated list: a name switches a controller on, a name after `-` switches it off.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut controllers = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, is_on) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
            let Self { background, workloads } = &mut controllers;
            let switch = match name {
                "gc" => &mut background.garbage_collection,
                "namespaces" => &mut background.namespace_deletion,
                "serviceaccounts" => &mut background.namespace_defaults,
                "workloads" => workloads,
                _ => {
                    return Err(format!(
                        "{VARIABLE} names {name:?}; write gc, namespaces, serviceaccounts or workloads, separated by \
                         commas, with - before those to switch off"
                    ));
                }
            };
            *switch = is_on;
        }
        Ok(controllers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_switched_by_name() {
        let switches = |text: &str| {
            let Controllers { background, workloads } = Controllers::parse(text).unwrap();
            let BackgroundTasks { garbage_collection, namespace_deletion, namespace_defaults, .. } =
                background;
            [garbage_collection, namespace_deletion, namespace_defaults, workloads]
        };
        assert_eq!(switches(""), [true, true, false, false]);
        assert_eq!(switches("-gc, workloads"), [false, true, false, true]);
        assert_eq!(switches("-namespaces,serviceaccounts"), [true, false, true, false]);
        assert!(Controllers::parse("garbage").is_err());
    }
}
