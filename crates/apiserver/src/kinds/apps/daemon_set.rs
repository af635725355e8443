//! DaemonSet: keeps a Pod on every node.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::apps::deployment;
use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::fill::{Fields, at, fill, made};
use crate::kinds::printing::{Column, age, containers, read, selectors};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};

const COUNTS: validate::counts::Counts = validate::counts::Counts {
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

/// Where DaemonSets count changes of their template, since the field of old is no longer served.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Keeps a Pod on every node.
pub(crate) static DAEMON_SET: Kind = Kind {
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[STATUS],
    old_versions: &["v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(
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
        is_judged_when_changed: true,
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
    ..Kind::namespaced("apps", "v1", "daemonsets", "DaemonSet")
};

/// The counts in the status of a DaemonSet.
fn validate_status(new: &At<'_>, old: &Value, errors: &mut Errors) {
    validate::counts::check(&COUNTS, new, old, errors);
}

/// A DaemonSet.
fn validate(object: &At<'_>, errors: &mut Errors) {
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

/// A DaemonSet.
fn defaults(object: &mut Fields) {
    let Some(spec) = defaults::workloads::spec(object) else { return };
    fill(spec, "revisionHistoryLimit", defaults::workloads::HISTORY);
    defaults::workloads::rolling_update(
        spec,
        "updateStrategy",
        &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))],
    );
    defaults::workloads::template(spec);
}

/// The first template of a DaemonSet.
fn daemon_set_created(set: &mut Fields) {
    count(set, 1);
}

/// A changed DaemonSet counts changes of its template.
fn prepare_update(set: &mut Fields, old: &Value) {
    let before = at(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
    let before = before.as_str().and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
    let template = set.get("spec").map_or(&Value::Null, |spec| at(spec, &["template"]));
    let changed = template != at(old, &["spec", "template"]);
    count(set, before.saturating_add(i64::from(changed)));
}

fn count(set: &mut Fields, generation: i64) {
    if let Some(notes) = made(set, "metadata").and_then(|metadata| made(metadata, "annotations")) {
        notes.insert(TEMPLATE_GENERATION.into(), json!(generation.to_string()));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, deployment::CONTAINERS);
    vec![
        read::name(object).into(),
        read::number(object, "status.desiredNumberScheduled").into(),
        read::number(object, "status.currentNumberScheduled").into(),
        read::number(object, "status.numberReady").into(),
        read::number(object, "status.updatedNumberScheduled").into(),
        read::number(object, "status.numberAvailable").into(),
        selectors::labels(object, "spec.template.spec.nodeSelector").into(),
        age::of(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.selector").into(),
    ]
}
