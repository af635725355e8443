//! How the generic verbs treat each kind: one row per kind that is an exception, one default row for the rest.
//!
//! **Invariant:** rows are facts about Kubernetes v1.36 and hold for every served version of a kind. What a kind
//! *does* (defaults, preparation, validation) is not here but in the files beside this one.

use serde_json::{Map, Value};

use super::fill::same;
use super::names::NameRule;
use crate::resource::{Resource, Source};
use crate::status::Status;

/// The priority classes every cluster has, and their values.
pub(crate) const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// When an update raises `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation; what a client sent at creation stays.
    Absent,
    /// Starts at 1 and never rises by an update.
    Fixed,
    /// Rises when anything beside metadata and status changes.
    Content,
    /// Rises also when annotations change.
    ContentAndAnnotations,
    /// Rises also when labels change.
    ContentAndLabels,
    /// Rises when anything beside metadata changes: custom kinds without a status subresource.
    Everything,
}

impl Generation {
    /// Does going from `old` to `new` raise it?
    pub fn rises(self, new: &Value, old: &Value) -> bool {
        match self {
            Self::Absent | Self::Fixed => false,
            Self::Content => differs(new, old, false),
            Self::ContentAndAnnotations => {
                differs(new, old, false) || !same_metadata(new, old, "annotations")
            }
            Self::ContentAndLabels => differs(new, old, false) || !same_metadata(new, old, "labels"),
            Self::Everything => differs(new, old, true),
        }
    }
}

fn differs(new: &Value, old: &Value, with_status: bool) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    let counts = |name: &str| match name {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => with_status,
        _ => true,
    };
    // A list that is never left out is stored as null and may be absent in what a client sent.
    let changed = |from: &Map<String, Value>, to: &Map<String, Value>| {
        from.iter().any(|(name, value)| counts(name) && !value.is_null() && to.get(name) != Some(value))
    };
    changed(new, old) || changed(old, new)
}

fn same_metadata(new: &Value, old: &Value, name: &str) -> bool {
    same(&new["metadata"][name], &old["metadata"][name])
}

/// What the generic verbs need to know about a kind.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one independent fact each, read by different verbs")]
pub struct Strategy {
    /// May an update leave out the resourceVersion?
    pub allows_unconditional_update: bool,
    /// Does an update of an absent object create it?
    pub creates_on_update: bool,
    /// When the generation rises.
    pub generation: Generation,
    /// Does a delete answer with the object instead of a Status?
    pub returns_object_on_delete: bool,
    /// Does a delete honour grace periods?
    pub is_graceful: bool,
    /// Are dependents orphaned when the delete does not say?
    pub orphans_by_default: bool,
    /// Does garbage collection apply?
    pub is_collectable: bool,
    /// How objects may be named.
    pub name: NameRule,
    /// Dotted paths that the main endpoint keeps as stored, whatever an update says.
    pub reset_on_main: &'static [&'static str],
    /// Dotted paths that the status endpoint keeps as stored.
    pub reset_on_status: &'static [&'static str],
}

impl Strategy {
    /// Has the kind a generation at all?
    pub fn has_generation(&self) -> bool {
        self.generation != Generation::Absent
    }

    const fn generation(mut self, generation: Generation) -> Self {
        self.generation = generation;
        self
    }

    const fn counted(self) -> Self {
        self.generation(Generation::Content)
    }

    const fn conditional(mut self) -> Self {
        self.allows_unconditional_update = false;
        self
    }

    const fn created_by_update(mut self) -> Self {
        self.creates_on_update = true;
        self
    }

    const fn returned(mut self) -> Self {
        self.returns_object_on_delete = true;
        self
    }

    const fn orphaning(mut self) -> Self {
        self.orphans_by_default = true;
        self
    }

    const fn named(mut self, name: NameRule) -> Self {
        self.name = name;
        self
    }

    const fn with_status(mut self, kept_on_status: &'static [&'static str]) -> Self {
        self.reset_on_main = &["status"];
        self.reset_on_status = kept_on_status;
        self
    }
}

const SPEC: &[&str] = &["spec"];
const ALL_BUT_STATUS: &[&str] = &["metadata", "spec"];

const PLAIN: Strategy = Strategy {
    allows_unconditional_update: true,
    creates_on_update: false,
    generation: Generation::Absent,
    returns_object_on_delete: false,
    is_graceful: false,
    orphans_by_default: false,
    is_collectable: true,
    name: NameRule::Subdomain,
    reset_on_main: &[],
    reset_on_status: &[],
};

const POD: Strategy = Strategy {
    is_graceful: true,
    ..PLAIN.counted().returned().with_status(&[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ])
};
const EVENT: Strategy = Strategy { is_collectable: false, ..PLAIN.created_by_update() };
const CSR: Strategy = Strategy {
    reset_on_main: &["spec", "status"],
    ..PLAIN.named(NameRule::Any).with_status(&["spec", "status.conditions"])
};
const RBAC: Strategy = PLAIN.created_by_update().named(NameRule::PathSegment);
const WORKLOAD: Strategy = PLAIN.counted().with_status(SPEC);
const DEPLOYMENT: Strategy =
    PLAIN.generation(Generation::ContentAndAnnotations).with_status(&["spec", "metadata.labels"]);
const POLICY: Strategy = PLAIN.counted().conditional();
const DEVICE: Strategy = PLAIN.returned();

const CUSTOM: Strategy = PLAIN.generation(Generation::Everything).conditional();
const CUSTOM_WITH_STATUS: Strategy = PLAIN.counted().conditional().with_status(ALL_BUT_STATUS);

/// The exceptions, by group and plural.
const ROWS: &[(&str, &str, Strategy)] = &[
    ("", "endpoints", PLAIN.created_by_update()),
    ("", "events", EVENT.named(NameRule::PathSegment)),
    ("", "limitranges", PLAIN.created_by_update()),
    ("", "namespaces", PLAIN.returned().named(NameRule::Label).with_status(SPEC)),
    ("", "nodes", PLAIN.with_status(SPEC)),
    ("", "persistentvolumeclaims", PLAIN.returned().with_status(SPEC)),
    ("", "persistentvolumes", PLAIN.returned().with_status(SPEC)),
    ("", "pods", POD),
    ("", "podtemplates", PLAIN.counted().returned()),
    ("", "replicationcontrollers", WORKLOAD.orphaning()),
    ("", "resourcequotas", PLAIN.returned().with_status(SPEC)),
    ("", "serviceaccounts", PLAIN.returned()),
    ("", "services", PLAIN.created_by_update().returned().named(NameRule::Label).with_status(SPEC)),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", POLICY),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", POLICY),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", POLICY),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", POLICY.with_status(ALL_BUT_STATUS)),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", POLICY),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", POLICY),
    ("apiextensions.k8s.io", "customresourcedefinitions", CUSTOM_WITH_STATUS),
    (
        "apiregistration.k8s.io",
        "apiservices",
        PLAIN.conditional().named(NameRule::PathSegment).with_status(ALL_BUT_STATUS),
    ),
    ("apps", "daemonsets", WORKLOAD),
    ("apps", "deployments", DEPLOYMENT),
    ("apps", "replicasets", WORKLOAD),
    ("apps", "statefulsets", WORKLOAD),
    ("autoscaling", "horizontalpodautoscalers", PLAIN.with_status(SPEC)),
    ("batch", "cronjobs", WORKLOAD),
    ("batch", "jobs", WORKLOAD.orphaning()),
    ("certificates.k8s.io", "certificatesigningrequests", CSR),
    ("coordination.k8s.io", "leases", PLAIN.conditional().created_by_update()),
    ("discovery.k8s.io", "endpointslices", PLAIN.generation(Generation::ContentAndLabels)),
    ("events.k8s.io", "events", EVENT),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", PLAIN.counted().with_status(ALL_BUT_STATUS)),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        PLAIN.counted().with_status(ALL_BUT_STATUS),
    ),
    ("networking.k8s.io", "ingressclasses", PLAIN.counted()),
    ("networking.k8s.io", "ingresses", WORKLOAD),
    ("networking.k8s.io", "ipaddresses", PLAIN.named(NameRule::Any)),
    ("networking.k8s.io", "networkpolicies", PLAIN.counted()),
    ("networking.k8s.io", "servicecidrs", PLAIN.with_status(ALL_BUT_STATUS)),
    ("node.k8s.io", "runtimeclasses", PLAIN.conditional().created_by_update()),
    ("policy", "poddisruptionbudgets", WORKLOAD.conditional()),
    ("rbac.authorization.k8s.io", "clusterrolebindings", RBAC),
    ("rbac.authorization.k8s.io", "clusterroles", RBAC),
    ("rbac.authorization.k8s.io", "rolebindings", RBAC),
    ("rbac.authorization.k8s.io", "roles", RBAC),
    ("resource.k8s.io", "deviceclasses", DEVICE.counted()),
    ("resource.k8s.io", "resourceclaims", DEVICE.with_status(ALL_BUT_STATUS)),
    ("resource.k8s.io", "resourceclaimtemplates", DEVICE),
    ("resource.k8s.io", "resourceslices", DEVICE.counted()),
    ("scheduling.k8s.io", "priorityclasses", PLAIN.generation(Generation::Fixed)),
    ("storage.k8s.io", "csidrivers", PLAIN.conditional().returned()),
    ("storage.k8s.io", "csinodes", PLAIN.conditional().returned()),
    ("storage.k8s.io", "csistoragecapacities", PLAIN.conditional()),
    ("storage.k8s.io", "storageclasses", PLAIN.returned()),
    ("storage.k8s.io", "volumeattachments", PLAIN.conditional().returned().with_status(ALL_BUT_STATUS)),
    ("storage.k8s.io", "volumeattributesclasses", PLAIN.returned()),
];

/// The strategy of a served kind.
pub fn strategy(resource: &Resource) -> &'static Strategy {
    match &resource.source {
        Source::BuiltIn(known) => known.strategy.get_or_init(|| row(&resource.group, &resource.plural)),
        Source::Custom(custom) if custom.has_status => &CUSTOM_WITH_STATUS,
        Source::Custom(_) => &CUSTOM,
    }
}

fn row(group: &str, plural: &str) -> &'static Strategy {
    let found = ROWS.binary_search_by_key(&(group, plural), |(group, plural, _)| (group, plural));
    found.map_or(&PLAIN, |at| &ROWS[at].2)
}

/// May this object be deleted by its name? The server's own priority classes may not.
pub(crate) fn check_delete(resource: &Resource, name: &str) -> Result<(), Status> {
    let is_class = (&*resource.group, &*resource.plural) == ("scheduling.k8s.io", "priorityclasses");
    if is_class && SYSTEM_PRIORITIES.iter().any(|(system, _)| *system == name) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::forbidden(&resource.about(name), why));
    }
    Ok(())
}

/// Labels of a namespace that ask an API server to refuse Pods.
const POD_SECURITY_LABELS: [&str; 2] =
    ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];

/// What to warn the writer of an object of: what tells an API server or a network to refuse, change or forward something, and
/// is only kept here. Whoever relies on it must know.
pub(crate) fn unenforced(resource: &Resource, new: &Value, old: Option<&Value>) -> Option<String> {
    let kind = &*resource.kind;
    let is_kept_only = match (&*resource.group, kind) {
        ("", "Namespace") => return unenforced_labels(new, old),
        ("", "ResourceQuota" | "LimitRange")
        | ("networking.k8s.io", "NetworkPolicy")
        | ("flowcontrol.apiserver.k8s.io", "FlowSchema" | "PriorityLevelConfiguration") => true,
        ("admissionregistration.k8s.io", kind) => {
            kind.contains("Policy") || kind.ends_with("WebhookConfiguration")
        }
        // One without a service is served by this server itself.
        ("apiregistration.k8s.io", "APIService") => !new["spec"]["service"].is_null(),
        _ => false,
    };
    is_kept_only.then(|| format!("{kind} is stored, but this server does not enforce it"))
}

fn unenforced_labels(new: &Value, old: Option<&Value>) -> Option<String> {
    let label = |object: &Value, name: &str| object["metadata"]["labels"].get(name).cloned();
    let is_news = |name: &&str| {
        let given = label(new, name);
        given.is_some() && given != old.and_then(|old| label(old, name))
    };
    let named = POD_SECURITY_LABELS.into_iter().find(is_news)?;
    Some(format!(
        "the label {named} is stored, but this server does not enforce it: Pods of any sort can be created"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(group: &str, plural: &str) -> Option<Resource> {
        Resource::built_in().into_iter().find(|row| &*row.group == group && &*row.plural == plural)
    }

    #[test]
    fn the_table_is_sorted_and_names_served_kinds() {
        assert!(ROWS.is_sorted_by_key(|(group, plural, _)| (*group, *plural)));
        for (group, plural, _) in ROWS {
            assert!(served(group, plural).is_some(), "{group}/{plural} is not served");
        }
    }

    #[test]
    fn a_status_endpoint_and_its_resets_come_together() {
        for resource in Resource::built_in() {
            let has_status = resource.subresource("status").is_some();
            assert_eq!(!strategy(&resource).reset_on_status.is_empty(), has_status, "{}", resource.plural);
        }
    }

    #[test]
    fn well_known_kinds_have_their_facts() {
        let of = |group, plural| strategy(&served(group, plural).expect("served"));
        assert!(of("", "configmaps").allows_unconditional_update && !of("", "configmaps").creates_on_update);
        assert!(!of("coordination.k8s.io", "leases").allows_unconditional_update);
        assert!(of("coordination.k8s.io", "leases").creates_on_update);
        assert!(of("batch", "jobs").orphans_by_default && of("", "pods").is_graceful);
        assert!(!of("", "events").is_collectable && of("", "services").returns_object_on_delete);
    }

    #[test]
    fn generation_follows_content() {
        let old = json!({"metadata": {"generation": 1}, "spec": {"a": 1}, "status": {"b": 1}});
        let status = json!({"metadata": {"generation": 1}, "spec": {"a": 1}, "status": {"b": 2}});
        let noted = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {"a": 1}, "status": {"b": 1}});
        assert!(!Generation::Content.rises(&status, &old));
        assert!(Generation::Everything.rises(&status, &old));
        assert!(!Generation::Content.rises(&noted, &old));
        assert!(Generation::ContentAndAnnotations.rises(&noted, &old));
        assert!(Generation::Content.rises(&json!({"status": {"b": 1}}), &old));
    }
}
