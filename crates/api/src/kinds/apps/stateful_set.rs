//! StatefulSet: runs a number of Pods with stable names and their own storage.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::apps::deployment;
use crate::kinds::core::persistent_volume_claim;
use crate::kinds::kind_warnings;
use crate::kinds::subresource::{SCALE, STATUS};
use crate::kinds::validate::pod;
use crate::kinds::{defaults, validate};
use crate::object::fill::{
    JsonObject, is_zero, object_mut, object_or_insert, objects_mut, set_if_absent, set_if_zero,
};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images};
use crate::resource::declaration::{BuiltInKind, InitialStatus, PodTemplate};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

const COUNTS: validate::counts::CountRules = validate::counts::CountRules {
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

/// Runs a number of Pods with stable names and their own storage.
pub(crate) static STATEFUL_SET: BuiltInKind = BuiltInKind {
    short_names: &["sts"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta1", "v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"replicas": 0, "availableReplicas": 0})),
    validate: Some(validate),
    validate_update: Some(validate_update),
    validate_status: Some(validate_status),
    pod_template: Some(PodTemplate {
        path: "spec.template",
        name_is_used_in: "",
        is_checked_on_update: true,
    }),
    warn: Some(kind_warnings::stateful_set),
    columns: &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("apps", "v1", "statefulsets", "StatefulSet")
};

/// Validates the counts in the status of a StatefulSet.
fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate::counts::validate_status_counts(&COUNTS, new, old, errors);
}

/// Validates a StatefulSet.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    // A negative `revisionHistoryLimit` keeps all revisions and causes a warning.
    for name in ["replicas", "minReadySeconds"] {
        spec.field(name).must_not_be_negative(errors);
    }
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
    // As in Kubernetes, the Pod itself is not validated: its volumes come from the claim templates, separately for each
    // Pod.
    pod::template_metadata(&template, errors);
    validate::workload::always_restarts(&template, "statefulset", errors);
}

/// Validates a changed StatefulSet: few fields may change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
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

/// Fills in the defaults of a StatefulSet.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    set_if_absent(spec, "replicas", 1);
    set_if_absent(spec, "revisionHistoryLimit", defaults::workloads::HISTORY);
    set_if_zero(spec, "podManagementPolicy", "OrderedReady");
    stateful_set_strategy(spec);
    if let Some(policy) = object_or_insert(spec, "persistentVolumeClaimRetentionPolicy") {
        set_if_zero(policy, "whenDeleted", "Retain");
        set_if_zero(policy, "whenScaled", "Retain");
    }
    for claim in objects_mut(spec, "volumeClaimTemplates") {
        set_if_zero(claim, "apiVersion", "v1");
        set_if_zero(claim, "kind", "PersistentVolumeClaim");
        persistent_volume_claim::defaults(claim);
    }
    defaults::workloads::default_pod_template(spec);
}

/// Fills in the update strategy. Unlike in other kinds, an explicit `RollingUpdate` without parameters gets none.
fn stateful_set_strategy(spec: &mut JsonObject) {
    let Some(strategy) = object_or_insert(spec, "updateStrategy") else { return };
    if is_zero(strategy.get("type")) {
        strategy.insert("type".into(), json!("RollingUpdate"));
        object_or_insert(strategy, "rollingUpdate");
    }
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(rolling) = object_mut(strategy, "rollingUpdate")
    {
        set_if_absent(rolling, "partition", 0);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, deployment::CONTAINERS);
    vec![
        read::name(object).into(),
        deployment::ready(object).into(),
        age::age_of_object(object, now).into(),
        names,
        images,
    ]
}
