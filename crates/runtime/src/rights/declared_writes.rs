//! Checks every write against the writes that the builder declared. A kind that it did not declare can be written with
//! an administrator's kubeconfig, but is forbidden in a cluster, where the role follows from the declarations: the
//! first write of each such kind is logged as a warning while it still works, and `/readyz` shows it.
//!
//! This check only informs. The server decides whether a write is allowed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use super::required_rules::Rule;
use crate::kind::{KindInfo, resource_name};

/// A kind of write, as named in RBAC rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    /// Server-side apply creates missing objects.
    Apply,
    Create,
    Patch,
    PatchStatus,
    /// Writes an entry in a parent's status.
    Report,
    Delete,
    /// Removes a finalizer that an earlier version of the controller added.
    Release,
}

impl WriteVerb {
    fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Apply => &["create", "patch"],
            Self::Create => &["create"],
            Self::Patch | Self::PatchStatus | Self::Report | Self::Release => &["patch"],
            Self::Delete => &["delete"],
        }
    }

    fn subresource(self) -> &'static str {
        if matches!(self, Self::PatchStatus | Self::Report) { "/status" } else { "" }
    }

    /// Returns the builder call that declares it.
    fn cure(self, kind: &str) -> String {
        match self {
            Self::PatchStatus => format!(".writes_status::<{kind}>()"),
            Self::Report => format!(".reports_to::<{kind}>()"),
            Self::Release => ".releases_finalizer()".to_owned(),
            _ => format!(".owns::<{kind}>() or .writes::<{kind}>()"),
        }
    }
}

/// The declarations of all controllers.
#[derive(Default)]
pub(crate) struct DeclaredWrites {
    /// The verbs by group and resource, including the subresource.
    verbs: HashMap<String, BTreeSet<&'static str>>,
    /// Messages about writes that were not declared.
    undeclared: Mutex<BTreeSet<String>>,
}

impl DeclaredWrites {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut verbs: HashMap<String, BTreeSet<&'static str>> = HashMap::new();
        for rule in rules {
            verbs.entry(resource_name(&rule.group, &rule.resource)).or_default().extend(rule.verbs);
        }
        Self { verbs, undeclared: Mutex::default() }
    }

    /// Returns whether the declarations cover such a write.
    pub(crate) fn allows(&self, info: &KindInfo, verb: WriteVerb) -> bool {
        let declared = self.verbs.get(&resource_written(info, verb));
        verb.verbs().iter().all(|verb| declared.is_some_and(|verbs| verbs.contains(verb)))
    }

    /// Warns about a write that was not declared, once per kind and remedy.
    pub(crate) fn warn_unless_declared(&self, info: &KindInfo, verb: WriteVerb) {
        if self.allows(info, verb) {
            return;
        }
        let resource = resource_written(info, verb);
        let words = format!(
            "{resource} is written but not declared, which a cluster forbids: add {} to the controller",
            verb.cure(&info.kind)
        );
        if self.undeclared.lock().unwrap_or_else(PoisonError::into_inner).insert(words.clone()) {
            tracing::warn!("{words}");
        }
    }

    /// Describes the writes that were not declared.
    pub(crate) fn undeclared(&self) -> Vec<String> {
        self.undeclared.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn resource_written(info: &KindInfo, verb: WriteVerb) -> String {
    format!("{}{}", info.resource, verb.subresource())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

    use super::*;
    use crate::kind::info;
    use crate::rights::required_rules::{READ, WRITE};

    #[test]
    fn what_is_not_declared_is_named_once_with_its_cure() {
        let declared = DeclaredWrites::new(&[Rule::on::<ConfigMap>("", WRITE), Rule::on::<Secret>("", READ)]);
        for verb in [WriteVerb::Apply, WriteVerb::Create, WriteVerb::Patch, WriteVerb::Delete] {
            declared.warn_unless_declared(info::<ConfigMap>(), verb);
            declared.warn_unless_declared(info::<Secret>(), verb);
        }
        declared.warn_unless_declared(info::<Pod>(), WriteVerb::PatchStatus);
        let cause = "is written but not declared, which a cluster forbids: add";
        assert_eq!(
            declared.undeclared(),
            [
                format!("pods/status {cause} .writes_status::<Pod>() to the controller"),
                format!("secrets {cause} .owns::<Secret>() or .writes::<Secret>() to the controller"),
            ]
        );
    }
}
