//! What the builder declared, asked before every write. A kind that it did not declare can be written with an
//! administrator's kubeconfig and is forbidden in a cluster, whose role is made from the declarations: the first write of
//! each such kind is warned of while it still works, and `/readyz` shows it.
//!
//! It only informs. Whether the server allows a write is the server's business.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::kind::{KindInfo, resource};
use crate::rule::Rule;

/// A sort of write, as rights name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    /// Server-side apply creates what is not there.
    Apply,
    Create,
    Patch,
    PatchStatus,
    /// Writes an entry of a parent's status.
    Report,
    Delete,
    /// Takes a finalizer off that a former version of the controller put on.
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

    /// The builder call that declares it.
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
pub(crate) struct Declared {
    /// By group and resource, with its subresource.
    verbs: HashMap<String, BTreeSet<&'static str>>,
    /// What was written and not declared, in words.
    undeclared: Mutex<BTreeSet<String>>,
}

impl Declared {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut verbs: HashMap<String, BTreeSet<&'static str>> = HashMap::new();
        for rule in rules {
            verbs.entry(resource(&rule.group, &rule.resource)).or_default().extend(rule.verbs);
        }
        Self { verbs, undeclared: Mutex::default() }
    }

    /// Do the declarations give the right to such a write?
    pub(crate) fn has(&self, info: &KindInfo, verb: WriteVerb) -> bool {
        let declared = self.verbs.get(&resource_written(info, verb));
        verb.verbs().iter().all(|verb| declared.is_some_and(|verbs| verbs.contains(verb)))
    }

    /// Warns, once per kind and cure, of a write that the declarations give no right to.
    pub(crate) fn expect(&self, info: &KindInfo, verb: WriteVerb) {
        if self.has(info, verb) {
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

    /// What was written and not declared, in words.
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
    use crate::rule::{READ, WRITE};

    #[test]
    fn what_is_not_declared_is_named_once_with_its_cure() {
        let declared = Declared::new(&[Rule::on::<ConfigMap>("", WRITE), Rule::on::<Secret>("", READ)]);
        for verb in [WriteVerb::Apply, WriteVerb::Create, WriteVerb::Patch, WriteVerb::Delete] {
            declared.expect(info::<ConfigMap>(), verb);
            declared.expect(info::<Secret>(), verb);
        }
        declared.expect(info::<Pod>(), WriteVerb::PatchStatus);
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
