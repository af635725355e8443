//! FlowSchema: decides which requests belong to which priority level.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::flowcontrol::priority_level_configuration;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::object::fill::{JsonObject, object_or_insert, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, warn_only_stored};
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

const PRECEDENCE_MAX: i64 = 10_000;

const FLOW_SCHEMA_PRECEDENCE: u32 = 1000;

/// Decides which requests belong to which priority level.
pub(crate) static FLOW_SCHEMA: BuiltInKind = BuiltInKind {
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
    ..BuiltInKind::cluster_scoped("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema")
};

/// Validates a FlowSchema.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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
        // kube-apiserver prints the whole method, by its Go name.
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

fn schema_rule(rule: &ValueAt<'_>, errors: &mut Errors) {
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

/// Fills in the defaults of a FlowSchema.
fn defaults(object: &mut JsonObject) {
    if let Some(spec) = object_or_insert(object, "spec") {
        set_if_zero(spec, "matchingPrecedence", FLOW_SCHEMA_PRECEDENCE);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = read::condition(object, "Dangling");
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.priorityLevelConfiguration.name").into(),
        read::integer_at(object, "spec.matchingPrecedence").into(),
        read::string_at_or(object, "spec.distinguisherMethod.type", "<none>").into(),
        age::age_of_object(object, now).into(),
        dangling.map_or("?", |condition| read::string_at(condition, "status")).into(),
    ]
}
