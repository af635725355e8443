//! Deployment: runs a number of Pods and rolls out changes to them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::{SCALE, STATUS};
use crate::kinds::{defaults, validate};
use crate::object::fill::{JsonObject, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, PodTemplate};
use crate::resource::strategy::{GenerationRule, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

const COUNTS: validate::counts::CountRules = validate::counts::CountRules {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    readiness: "cannot be greater than readyReplicas",
};

const PROGRESS_DEADLINE_S: u32 = 600;

pub(in crate::kinds) const CONTAINERS: &str = "spec.template.spec.containers";

/// Runs a number of Pods and rolls out changes to them.
pub(crate) static DEPLOYMENT: BuiltInKind = BuiltInKind {
    short_names: &["deploy"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta1", "v1beta2"],
    strategy: PLAIN
        .generation(GenerationRule::ContentAndAnnotations)
        .with_status(&["spec", "metadata.labels"]),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate::workload::selector_stays),
    validate_status: Some(validate_status),
    pod_template: Some(PodTemplate::OF_WORKLOAD),
    columns: &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Up-to-date"),
        Column::text("Available"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("apps", "v1", "deployments", "Deployment")
};

/// Validates the counts in the status of a Deployment.
fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate::counts::validate_status_counts(&COUNTS, new, old, errors);
}

/// Validates a Deployment.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::workload::counts(&spec, errors);
    validate::workload::selected_template(&spec, "deployment", errors);
    deployment_strategy(&spec.field("strategy"), errors);
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.is_set() && deadline.number() <= spec.field("minReadySeconds").number() {
        deadline.invalid("must be greater than minReadySeconds", errors);
    }
}

fn deployment_strategy(strategy: &ValueAt<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'", errors);
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            unavailable.must_be_amount_or_percent(errors);
            surge.must_be_amount_or_percent(errors);
            if unavailable.amount_or_percent() == 0 && surge.amount_or_percent() == 0 {
                unavailable.invalid("may not be 0 when `maxSurge` is 0", errors);
            }
            unavailable.must_not_exceed_all(errors);
        }
        _ => {
            errors.push(Error::not_supported(&strategy.path, strategy.value, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// Fills in the defaults of a Deployment.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    set_if_absent(spec, "replicas", 1);
    set_if_absent(spec, "revisionHistoryLimit", defaults::workloads::HISTORY);
    set_if_absent(spec, "progressDeadlineSeconds", PROGRESS_DEADLINE_S);
    defaults::workloads::rolling_update(
        spec,
        "strategy",
        &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))],
    );
    defaults::workloads::default_pod_template(spec);
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, CONTAINERS);
    vec![
        read::name(object).into(),
        ready(object).into(),
        read::integer_at(object, "status.updatedReplicas").into(),
        read::integer_at(object, "status.availableReplicas").into(),
        age::age_of_object(object, now).into(),
        names,
        images,
        selectors::bare(object, "spec.selector").into(),
    ]
}

pub(in crate::kinds) fn ready(object: &Value) -> String {
    format!(
        "{}/{}",
        read::integer_at(object, "status.readyReplicas"),
        read::integer_at(object, "spec.replicas")
    )
}
