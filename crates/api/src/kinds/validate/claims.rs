//! Validates device claims: a Pod declares them, and its containers say which of them they use.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::field::{Error, ErrorType};
use crate::names;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

/// The maximum number of names that an error lists: a Pod may declare as many as fit into its body, and the error for
/// each wrong name lists them all.
const DECLARED_SHOWN_MAX: usize = 32;

/// Returns the names of the claims in the spec of a Pod.
pub(in crate::kinds) fn names(spec: &Value) -> BTreeSet<&str> {
    let names = read::list_at(spec, "resourceClaims").iter().map(|claim| read::string_at(claim, "name"));
    names.filter(|name| !name.is_empty()).collect()
}

/// Validates the claims of a Pod: each refers to an existing claim or a template.
pub(in crate::kinds) fn of_pod(list: &ValueAt<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in list.items() {
        let name = claim.field("name");
        if name.must_be_set(errors) {
            if seen.insert(name.text().to_owned()) {
                name.must_pass(names::label, errors);
            } else {
                name.duplicate(errors);
            }
        }
        let (there, made) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        let detail = match (there.is_set(), made.is_set()) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            // kube-apiserver prints the fields by their Go names.
            let shown = json!({"Name": name.text(), "ResourceClaimName": there.value,
                "ResourceClaimTemplateName": made.value});
            errors.push(Error::invalid(&claim.path, &shown, detail));
        }
        there.must_pass(names::subdomain, errors);
        made.must_pass(names::subdomain, errors);
    }
}

/// Validates the claims that a container uses, either as a whole or a single request of a claim, without duplicates.
pub(in crate::kinds) fn of_container(list: &ValueAt<'_>, declared: &BTreeSet<&str>, errors: &mut Errors) {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (value, claim) in list.value.as_array().into_iter().flatten().zip(list.items()) {
        let (name, request) = (read::string_at(value, "name"), claim.field("request"));
        if name.is_empty() {
            claim.required("", errors);
            continue;
        }
        request.must_pass(names::label, errors);
        let parts = seen.entry(name).or_default();
        let is_whole = request.is_zero() && !parts.is_empty() || parts.contains("");
        if is_whole || parts.contains(request.text()) {
            let shown = if is_whole { name.to_owned() } else { format!("{name}/{}", request.text()) };
            errors.push(Error::duplicate(&claim.path, &json!(shown)));
        }
        parts.insert(read::string_at(value, "request"));
        if !declared.contains(name) {
            errors.push_with(|| undeclared(&claim, name, declared));
        }
    }
}

fn undeclared(claim: &ValueAt<'_>, name: &str, declared: &BTreeSet<&str>) -> Error {
    let known = if declared.is_empty() {
        " which is empty".to_owned()
    } else {
        format!(": {}", declared.iter().copied().take(DECLARED_SHOWN_MAX).collect::<Vec<_>>().join(", "))
    };
    let body = format!("Not found: {name:?}: must be one of the names in pod.spec.resourceClaims{known}");
    Error { kind: ErrorType::NotFound, field: claim.path.to_string(), body }
}
