//! Checks that the writer of an admission policy, or of its binding, may read the parameters that it names: the
//! policy reads them on behalf of every user, and its messages can quote them.

use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use serde_json::Value;

use crate::auth::{MASTERS, RequestAttributes};
use crate::stored::encode;
use crate::verbs::AuthorizedRequest;

const GROUP: &str = "admissionregistration.k8s.io";
/// The policies and their bindings.
const POLICIES: [(&str, &str); 2] = [
    ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
];
/// Matches all groups, resources, namespaces or names.
const ALL: &str = "*";

/// Checks a write to any object; refuses only policies and bindings.
pub(super) fn check(call: &AuthorizedRequest, new: &Value, old: Option<&Value>) -> Result<(), Status> {
    let ResourceIdentity::BuiltIn(GROUP, resource) = call.resource.storage() else { return Ok(()) };
    if call.who.is_in(MASTERS) {
        return Ok(());
    }
    let is_same = |fields: &[&str]| {
        old.is_some_and(|old| fields.iter().all(|field| old["spec"][field] == new["spec"][field]))
    };
    for (policies, bindings) in POLICIES {
        if resource == policies && !new["spec"]["paramKind"].is_null() && !is_same(&["paramKind"]) {
            let what = "all objects of the referenced paramKind";
            return check_get(call, &new["spec"]["paramKind"], (ALL, ALL), what);
        }
        let reference = &new["spec"]["paramRef"];
        if resource == bindings && !reference.is_null() && !is_same(&["paramRef", "policyName"]) {
            let policy = new["spec"]["policyName"].as_str().unwrap_or_default();
            let policy = call
                .backend
                .store
                .snapshot()
                .get(&ResourceIdentity::BuiltIn(GROUP, policies).key("", policy))
                .map(|entry| encode::parse_entry(entry));
            let kind = policy.map(|policy| policy["spec"]["paramKind"].clone()).unwrap_or_default();
            let part = |field: &str| reference[field].as_str().filter(|text| !text.is_empty()).unwrap_or(ALL);
            return check_get(
                call,
                &kind,
                (part("namespace"), part("name")),
                "the object referenced by paramRef",
            );
        }
    }
    Ok(())
}

/// Checks that the writer may get these objects, or objects of all kinds if the kind is unknown.
fn check_get(
    call: &AuthorizedRequest,
    kind: &Value,
    (namespace, name): (&str, &str),
    what: &str,
) -> Result<(), Status> {
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let table = call.backend.registry.table();
    let resource = table.by_kind(group, version, text("kind"));
    let (group, plural) = match resource {
        Some(resource) => (group, &*resource.plural),
        None if kind.is_null() => (ALL, ALL),
        None => (group, ALL),
    };
    let is_cluster_wide = resource.is_some_and(|resource| !resource.namespaced);
    let namespace = if is_cluster_wide { "" } else { namespace };
    let attributes = RequestAttributes::Resource {
        verb: "get",
        group,
        resource: plural,
        subresource: "",
        namespace,
        name,
    };
    if call.backend.authorizer.decide(&call.who, &attributes).is_allowed() {
        return Ok(());
    }
    let why = format!("user {} does not have \"get\" permission on {what}", call.who.name);
    Err(Status::forbidden(&call.resource.about(&call.path.name), &why))
}
