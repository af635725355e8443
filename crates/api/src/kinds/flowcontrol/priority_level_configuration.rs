//! PriorityLevelConfiguration: limits how many requests of a level are served concurrently.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::object::fill::{JsonObject, object_mut, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, warn_only_stored};
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

const QUEUES_MAX: i64 = 10_000_000;

/// The name of the level that is exempt from all limits, and of its schema.
pub(in crate::kinds) const EXEMPT: &str = "exempt";

/// Limits how many requests of a level are served concurrently.
pub(crate) static PRIORITY_LEVEL_CONFIGURATION: BuiltInKind = BuiltInKind {
    subresources: &[STATUS],
    strategy: PLAIN.counted().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults),
    validate: Some(validate),
    warn_unenforced: Some(warn_only_stored),
    columns: &[
        Column::NAME,
        Column::text("Type"),
        Column::text("NominalConcurrencyShares"),
        Column::text("Queues"),
        Column::text("HandSize"),
        Column::text("QueueLengthLimit"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
    )
};

/// Validates a PriorityLevelConfiguration.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let kind = spec.field("type");
    if (metadata.field("name").text() == EXEMPT) != (kind.text() == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(Error::invalid(&kind.path, &json!(kind.text()), detail));
    }
    let (exempt, limited) = (spec.field("exempt"), spec.field("limited"));
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                limited.forbidden("must be nil if the type is not Limited", errors);
            }
            shares(&exempt, errors);
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden("must be nil if the type is Limited", errors);
            }
            if limited.is_set() {
                check_limited(&limited, errors);
            } else {
                limited.required("must not be empty when type is Limited", errors);
            }
        }
        "" => kind.required("", errors),
        _ => kind.must_be_one_of(&["Exempt", "Limited"], errors),
    }
}

fn shares(level: &ValueAt<'_>, errors: &mut Errors) {
    let (shares, lent) = (level.field("nominalConcurrencyShares"), level.field("lendablePercent"));
    if shares.number() < 0 {
        shares.invalid("must be a non-negative integer", errors);
    }
    if !(0..=100).contains(&lent.number()) {
        lent.invalid("must be between 0 and 100, inclusive", errors);
    }
}

fn check_limited(level: &ValueAt<'_>, errors: &mut Errors) {
    shares(level, errors);
    let borrowed = level.field("borrowingLimitPercent");
    if borrowed.number() < 0 {
        borrowed.invalid("if specified, must be a non-negative integer", errors);
    }
    let response = level.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.text() {
        "Reject" if queuing.is_set() => {
            queuing.forbidden("must be nil if limited.limitResponse.type is not Limited", errors);
        }
        "Reject" => {}
        "Queue" if queuing.is_set() => check_queuing(&queuing, errors),
        "Queue" => queuing.required("must not be empty if limited.limitResponse.type is Limited", errors),
        "" => kind.required("", errors),
        _ => kind.must_be_one_of(&["Queue", "Reject"], errors),
    }
}

fn check_queuing(queuing: &ValueAt<'_>, errors: &mut Errors) {
    for name in ["queueLengthLimit", "queues", "handSize"] {
        if queuing.field(name).number() <= 0 {
            queuing.field(name).invalid("must be positive", errors);
        }
    }
    let (queues, hand) = (queuing.field("queues"), queuing.field("handSize"));
    if queues.number() > QUEUES_MAX {
        queues.invalid(&format!("must not be greater than {QUEUES_MAX}"), errors);
    }
    if hand.number() > 0 && hand.number() > queues.number() {
        hand.invalid(&format!("should not be greater than queues ({})", queues.number()), errors);
    }
}

/// Fills in the defaults of a PriorityLevelConfiguration.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    for (name, shares) in [("exempt", 0), ("limited", 30)] {
        if let Some(level) = object_mut(spec, name) {
            set_if_absent(level, "nominalConcurrencyShares", shares);
            set_if_absent(level, "lendablePercent", 0);
        }
    }
    let queuing = object_mut(spec, "limited")
        .and_then(|limited| object_mut(limited, "limitResponse"))
        .and_then(|response| object_mut(response, "queuing"));
    if let Some(queuing) = queuing {
        for (name, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
            set_if_zero(queuing, name, value);
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |path| read::value_at(object, path).cloned().unwrap_or_else(|| "<none>".into());
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.type").into(),
        limit("spec.limited.nominalConcurrencyShares"),
        limit("spec.limited.limitResponse.queuing.queues"),
        limit("spec.limited.limitResponse.queuing.handSize"),
        limit("spec.limited.limitResponse.queuing.queueLengthLimit"),
        age::age_of_object(object, now).into(),
    ]
}
