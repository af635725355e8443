//! StatefulSet: keeps a number of Pods with names and storage of their own.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::apps::deployment;
use crate::kinds::core::persistent_volume_claim;
use crate::kinds::declaration::{FirstStatus, Kind, SCALE, STATUS};
use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, is_zero, made};
use crate::kinds::printing::{Column, age, containers, read};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::pod;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};

const COUNTS: validate::counts::Counts = validate::counts::Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    readiness: "cannot be greater than status.readyReplicas",
};

const STATEFUL_SET_FIELDS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

const STATEFUL_SET_FREE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Keeps a number of Pods with names and storage of their own.
pub(crate) static STATEFUL_SET: Kind = Kind {
    short_names: &["sts"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta1", "v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"replicas": 0, "availableReplicas": 0})),
    validate: Some(validate),
    validate_update: Some(validate_update),
    validate_status: Some(validate_status),
    pod_template: Some(PodTemplate {
        path: "spec.template",
        name_is_used_in: "",
        is_judged_when_changed: true,
    }),
    columns: &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
    ],
    cells: Some(cells),
    ..Kind::namespaced("apps", "v1", "statefulsets", "StatefulSet")
};

/// The counts in the status of a StatefulSet.
fn validate_status(new: &At<'_>, old: &Value, errors: &mut Errors) {
    validate::counts::check(&COUNTS, new, old, errors);
}

/// A StatefulSet.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::workload::counts(&spec, errors);
    spec.field("podManagementPolicy").must_be_one_of(&["OrderedReady", "Parallel"], errors);
    let strategy = spec.field("updateStrategy");
    let kind = strategy.field("type");
    if kind.must_be_set(errors) {
        kind.must_be_one_of(&["RollingUpdate", "OnDelete"], errors);
    }
    if kind.text() == "OnDelete" && strategy.field("rollingUpdate").is_set() {
        let detail = "only allowed for updateStrategy 'RollingUpdate'";
        strategy.field("rollingUpdate").invalid(detail, errors);
    }
    strategy.field("rollingUpdate").field("partition").must_not_be_negative(errors);
    spec.field("ordinals").field("start").must_not_be_negative(errors);
    for when in ["whenDeleted", "whenScaled"] {
        let policy = spec.field("persistentVolumeClaimRetentionPolicy");
        policy.field(when).must_be_one_of(&["Retain", "Delete"], errors);
    }
    validate::workload::selected_labels(&spec, "statefulset", errors);
    let template = spec.field("template");
    // Not the Pod itself, as in Kubernetes: its volumes come from the claim templates, one Pod at a time.
    pod::template_metadata(&template, errors);
    validate::workload::always_restarts(&template, "statefulset", errors);
}

/// A changed StatefulSet: few fields may change.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let old = &old["spec"];
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let fixed = fields
            .filter(|(name, value)| !STATEFUL_SET_FREE.contains(&name.as_str()) && !is_zero(Some(value)));
        fixed.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if fixed(spec.value) != fixed(old) {
        spec.forbidden(STATEFUL_SET_FIELDS, errors);
    }
}

/// A StatefulSet.
fn defaults(object: &mut Fields) {
    let Some(spec) = defaults::workloads::spec(object) else { return };
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", defaults::workloads::HISTORY);
    fill_zero(spec, "podManagementPolicy", "OrderedReady");
    stateful_set_strategy(spec);
    if let Some(policy) = made(spec, "persistentVolumeClaimRetentionPolicy") {
        fill_zero(policy, "whenDeleted", "Retain");
        fill_zero(policy, "whenScaled", "Retain");
    }
    for claim in each(spec, "volumeClaimTemplates") {
        fill_zero(claim, "apiVersion", "v1");
        fill_zero(claim, "kind", "PersistentVolumeClaim");
        persistent_volume_claim::defaults(claim);
    }
    defaults::workloads::template(spec);
}

/// Unlike the others, `RollingUpdate` said in full but without parameters stays without.
fn stateful_set_strategy(spec: &mut Fields) {
    let Some(strategy) = made(spec, "updateStrategy") else { return };
    if is_zero(strategy.get("type")) {
        strategy.insert("type".into(), json!("RollingUpdate"));
        made(strategy, "rollingUpdate");
    }
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(rolling) = inner(strategy, "rollingUpdate")
    {
        fill(rolling, "partition", 0);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, deployment::CONTAINERS);
    vec![
        read::name(object).into(),
        deployment::ready(object).into(),
        age::of(object, now).into(),
        names,
        images,
    ]
}
