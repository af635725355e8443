//! DaemonSet: keeps a Pod on every node.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::apps::deployment;
use crate::kinds::subresource::STATUS;
use crate::kinds::{defaults, validate};
use crate::object::fill::{JsonObject, object_or_insert, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, InitialStatus, PodTemplate};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

const COUNTS: validate::counts::CountRules = validate::counts::CountRules {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    readiness: "",
};

/// The annotation in which DaemonSets count changes to their template; the old field is no longer served.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Keeps a Pod on every node.
pub(crate) static DAEMON_SET: BuiltInKind = BuiltInKind {
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[STATUS],
    old_versions: &["v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(
        || json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}),
    ),
    prepare_create: Some(|_, fields, _| {
        daemon_set_created(fields);
        Ok(())
    }),
    prepare_update: Some(prepare_update),
    validate: Some(validate),
    validate_update: Some(validate::workload::selector_stays),
    validate_status: Some(validate_status),
    pod_template: Some(PodTemplate {
        path: "spec.template",
        name_is_used_in: "",
        is_checked_on_update: true,
    }),
    columns: &[
        Column::NAME,
        Column::number("Desired"),
        Column::number("Current"),
        Column::number("Ready"),
        Column::number("Up-to-date"),
        Column::number("Available"),
        Column::text("Node Selector"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("apps", "v1", "daemonsets", "DaemonSet")
};

/// Validates the counts in the status of a DaemonSet.
fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate::counts::validate_status_counts(&COUNTS, new, old, errors);
}

/// Validates a DaemonSet.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::workload::counts(&spec, errors);
    validate::workload::selected_template(&spec, "daemonset", errors);
    let strategy = spec.field("updateStrategy");
    strategy.field("type").must_be_one_of(&["RollingUpdate", "OnDelete"], errors);
    let rolling = strategy.field("rollingUpdate");
    if strategy.field("type").text() != "RollingUpdate" || !rolling.is_set() {
        return;
    }
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    for amount in [&unavailable, &surge] {
        amount.must_be_amount_or_percent(errors);
        amount.must_not_exceed_all(errors);
    }
    match (unavailable.amount_or_percent() != 0, surge.amount_or_percent() != 0) {
        (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero", errors),
        (false, false) => unavailable.required("cannot be 0 when maxSurge is 0", errors),
        _ => {}
    }
}

/// Fills in the defaults of a DaemonSet.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    set_if_absent(spec, "revisionHistoryLimit", defaults::workloads::HISTORY);
    defaults::workloads::rolling_update(
        spec,
        "updateStrategy",
        &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))],
    );
    defaults::workloads::default_pod_template(spec);
}

/// Sets the template generation of a new DaemonSet.
fn daemon_set_created(set: &mut JsonObject) {
    count(set, 1);
}

/// Raises the template generation if the template changed.
fn prepare_update(set: &mut JsonObject, old: &Value) {
    let before = &old["metadata"]["annotations"][TEMPLATE_GENERATION];
    let before = before.as_str().and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
    let template = set.get("spec").map_or(&Value::Null, |spec| &spec["template"]);
    let changed = template != &old["spec"]["template"];
    count(set, before.saturating_add(i64::from(changed)));
}

fn count(set: &mut JsonObject, generation: i64) {
    if let Some(notes) =
        object_or_insert(set, "metadata").and_then(|metadata| object_or_insert(metadata, "annotations"))
    {
        notes.insert(TEMPLATE_GENERATION.into(), json!(generation.to_string()));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, deployment::CONTAINERS);
    vec![
        read::name(object).into(),
        read::integer_at(object, "status.desiredNumberScheduled").into(),
        read::integer_at(object, "status.currentNumberScheduled").into(),
        read::integer_at(object, "status.numberReady").into(),
        read::integer_at(object, "status.updatedNumberScheduled").into(),
        read::integer_at(object, "status.numberAvailable").into(),
        selectors::labels(object, "spec.template.spec.nodeSelector").into(),
        age::age_of_object(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.selector").into(),
    ]
}
