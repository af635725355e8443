//! APIService: says which server serves a group and version.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::names::NameRule;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, ObjectWrite, warn_only_stored};
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

/// The maximum priority among groups, and among the versions of one group.
const GROUP_PRIORITY_MAX: i64 = 20_000;

const VERSION_PRIORITY_MAX: i64 = 1_000;

/// Says which server serves a group and version.
pub static API_SERVICE: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.conditional().named(NameRule::PathSegment).with_status(ALL_BUT_STATUS),
    validate: Some(validate),
    warn_unenforced: Some(warn_unenforced),
    columns: &[Column::NAME, Column::text("Service"), Column::text("Available"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("apiregistration.k8s.io", "v1", "apiservices", "APIService")
};

/// Validates an APIService: its name contains its version, and it is served here or by a Service.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (group, version) = (spec.field("group"), spec.field("version"));
    let expected = format!("{}.{}", version.text(), group.text());
    if metadata.field("name").text() != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        metadata.field("name").invalid(&detail, errors);
    }
    if group.is_zero() && version.text() != "v1" {
        group.required("only v1 may have an empty group and it better be legacy kube", errors);
    }
    group.must_pass(names::subdomain, errors);
    for error_text in names::dns1035_label(version.text()) {
        errors.push(Error::invalid(&version.path, &json!(version.text()), &error_text));
    }
    for (name, max) in
        [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)]
    {
        let priority = spec.field(name);
        if !(1..=max).contains(&priority.number()) {
            let shown = json!(priority.number());
            let detail = format!("must be positive and less than {max}");
            errors.push(Error::invalid(&priority.path, &shown, &detail));
        }
    }
    reached_by(&spec, errors);
}

fn reached_by(spec: &ValueAt<'_>, errors: &mut Errors) {
    let (service, trusted) = (spec.field("service"), spec.field("caBundle"));
    let careless = spec.field("insecureSkipTLSVerify");
    if service.is_set() {
        for name in ["namespace", "name"] {
            service.field(name).must_be_set(errors);
        }
        let port = service.field("port");
        if port.is_set() && !(1..=i64::from(u16::MAX)).contains(&port.number()) {
            port.invalid("port is not valid: must be between 1 and 65535, inclusive", errors);
        }
        if careless.value == true && !trusted.is_zero() {
            careless.invalid("may not be true if caBundle is present", errors);
        }
        return;
    }
    if !trusted.is_zero() {
        // Four characters of base64 encode three bytes.
        let shown = format!("{} bytes", trusted.text().trim_end_matches('=').len() * 3 / 4);
        let detail = "local APIServices may not have a caBundle";
        errors.push(Error::invalid(&trusted.path, &json!(shown), detail));
    }
    if careless.value == true {
        careless.invalid("local APIServices may not have insecureSkipTLSVerify", errors);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = read::value_at(object, "spec.service").map_or_else(
        || "Local".to_owned(),
        |service| format!("{}/{}", read::string_at(service, "namespace"), read::string_at(service, "name")),
    );
    let available = read::condition(object, "Available").map_or_else(
        || "Unknown".to_owned(),
        |condition| match (read::string_at(condition, "status"), read::string_at(condition, "reason")) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    vec![read::name(object).into(), service.into(), available.into(), age::age_of_object(object, now).into()]
}

/// Returns a warning if the APIService names a service: this server does not forward requests.
fn warn_unenforced(kind: &BuiltInKind, write: &ObjectWrite<'_>) -> Vec<String> {
    if write.new["spec"]["service"].is_null() { Vec::new() } else { warn_only_stored(kind, write) }
}
