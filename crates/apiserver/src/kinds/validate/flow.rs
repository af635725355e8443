//! Priorities of requests: levels, and the schemas that put requests on them.
//!
//! What a schema's rules match is deliberately not judged, nor that the two mandatory levels keep their fixed spec.

use serde_json::json;

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::names;

const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
/// Its level, and the schema of that name, exempt from all limits.
const EXEMPT: &str = "exempt";

/// A FlowSchema.
pub(in crate::kinds) fn schema(object: &At<'_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let precedence = spec.field("matchingPrecedence");
    match precedence.number() {
        ..=0 => precedence.invalid("must be a positive value", errors),
        1 if metadata.field("name").text() != EXEMPT => {
            precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1", errors);
        }
        1..=PRECEDENCE_MAX => {}
        _ => precedence.invalid("must not be greater than 10000", errors),
    }
    let method = spec.field("distinguisherMethod");
    let kind = method.field("type");
    if method.is_set() && !matches!(kind.text(), "ByNamespace" | "ByUser") {
        // The real server prints the whole method, by its Go name.
        let shown = json!({"Type": kind.text()});
        errors.push(Error::not_supported(&kind.path, &shown, &["ByNamespace", "ByUser"]));
    }
    let level = spec.field("priorityLevelConfiguration");
    let name = level.field("name");
    if name.is_zero() {
        name.required("must reference a priority level", errors);
    }
    name.must_pass(names::subdomain, errors);
    for rule in spec.field("rules").items() {
        schema_rule(&rule, errors);
    }
}

fn schema_rule(rule: &At<'_>, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    if subjects.len() == 0 {
        subjects.required("subjects must contain at least one value", errors);
    }
    for subject in subjects.items() {
        let kind = subject.field("kind");
        if !matches!(kind.text(), "Group" | "ServiceAccount" | "User") {
            let supported = ["Group", "ServiceAccount", "User"];
            errors.push(Error::not_supported(&kind.path, &json!(kind.text()), &supported));
        }
    }
    if rule.field("resourceRules").len() + rule.field("nonResourceRules").len() == 0 {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty", errors);
    }
}

/// A PriorityLevelConfiguration.
pub(in crate::kinds) fn level(object: &At<'_>, errors: &mut Errors) {
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

fn shares(level: &At<'_>, errors: &mut Errors) {
    let (shares, lent) = (level.field("nominalConcurrencyShares"), level.field("lendablePercent"));
    if shares.number() < 0 {
        shares.invalid("must be a non-negative integer", errors);
    }
    if !(0..=100).contains(&lent.number()) {
        lent.invalid("must be between 0 and 100, inclusive", errors);
    }
}

fn check_limited(level: &At<'_>, errors: &mut Errors) {
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

fn check_queuing(queuing: &At<'_>, errors: &mut Errors) {
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
