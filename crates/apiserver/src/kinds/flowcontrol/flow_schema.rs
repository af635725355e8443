//! FlowSchema: which requests belong to which priority level.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::declaration::{Kind, STATUS, warn_only_stored};
use crate::kinds::fill::{Fields, fill_zero, made};
use crate::kinds::flowcontrol::priority_level_configuration;
use crate::kinds::names;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::validate::at::{At, Errors};

const PRECEDENCE_MAX: i64 = 10_000;

const FLOW_SCHEMA_PRECEDENCE: u32 = 1000;

/// Which requests belong to which priority level.
pub(crate) static FLOW_SCHEMA: Kind = Kind {
    subresources: &[STATUS],
    strategy: PLAIN.counted().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults),
    validate: Some(validate),
    warn_unenforced: Some(warn_only_stored),
    columns: &[
        Column::NAME,
        Column::text("PriorityLevel"),
        Column::text("MatchingPrecedence"),
        Column::text("DistinguisherMethod"),
        Column::text("Age"),
        Column::text("MissingPL"),
    ],
    cells: Some(cells),
    ..Kind::cluster_scoped("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema")
};

/// A FlowSchema.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let precedence = spec.field("matchingPrecedence");
    match precedence.number() {
        ..=0 => precedence.invalid("must be a positive value", errors),
        1 if metadata.field("name").text() != priority_level_configuration::EXEMPT => {
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

/// A FlowSchema.
fn defaults(object: &mut Fields) {
    if let Some(spec) = made(object, "spec") {
        fill_zero(spec, "matchingPrecedence", FLOW_SCHEMA_PRECEDENCE);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = read::condition(object, "Dangling");
    vec![
        read::name(object).into(),
        read::text(object, "spec.priorityLevelConfiguration.name").into(),
        read::number(object, "spec.matchingPrecedence").into(),
        read::text_or(object, "spec.distinguisherMethod.type", "<none>").into(),
        age::of(object, now).into(),
        dangling.map_or("?", |condition| read::text(condition, "status")).into(),
    ]
}
