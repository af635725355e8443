//! Handles the metadata that every kind has: fields that only the server sets, preconditions, and generated names.

use homeostat_api::field;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::Revision;
use homeostat_store::Entry;
use serde_json::Value;

use crate::request::Verb;
use crate::verbs::AuthorizedRequest;
use crate::verbs::update::OTHER_NAMESPACE;

/// The number of random letters appended to `generateName`.
const SUFFIX_LETTERS: usize = 5;
/// The maximum length of the base of a generated name: with the suffix it still fits into a DNS label.
const GENERATE_NAME_BYTES_MAX: usize = 63 - SUFFIX_LETTERS;

/// Refuses an object that cannot be created here: an object for a different namespace, or one whose kind is being
/// deleted.
pub(super) fn check_new(call: &AuthorizedRequest, object: &Value) -> Result<(), Status> {
    let resource = &call.resource;
    let (asked, given) = (&*call.path.namespace, meta::namespace(object));
    if resource.namespaced && !given.is_empty() && given != asked {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    if resource.custom().is_some_and(|custom| custom.is_terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&resource.about(meta::name(object)), why));
    }
    Ok(())
}

/// Returns whether a new object claims to have been stored before. As in Kubernetes, this is refused at the very end,
/// after validation, and a dry run does not get that far.
pub(super) fn has_revision(call: &AuthorizedRequest, object: &Value) -> bool {
    let revision = meta::text(object, "resourceVersion");
    call.verb == Verb::Create && !revision.is_empty() && revision != "0"
}

/// Returns whether the object has no name and requests a generated one.
pub(super) fn wants_name(object: &Value) -> bool {
    meta::name(object).is_empty() && !meta::text(object, "generateName").is_empty()
}

/// Gives the object a name that consists of its `generateName` and random letters.
pub(super) fn generate_name(call: &AuthorizedRequest, object: &mut Value) {
    let mut base = meta::text(object, "generateName").to_owned();
    if base.len() > GENERATE_NAME_BYTES_MAX {
        let end = (0..=GENERATE_NAME_BYTES_MAX).rev().find(|at| base.is_char_boundary(*at)).unwrap_or(0);
        base.truncate(end);
    }
    base.push_str(&call.backend.entropy.suffix(SUFFIX_LETTERS));
    meta::set(object, "name", Some(base.into()));
}

/// Keeps the stored values of fields that only the server sets.
pub(super) fn preserve(call: &AuthorizedRequest, new: &mut Value, old: &Value) {
    for name in ["creationTimestamp", "generation"] {
        meta::set(new, name, old["metadata"].get(name).cloned());
    }
    // A different value is refused as immutable; an omitted field keeps the stored value.
    for name in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"] {
        let is_given = new["metadata"].get(name).is_some_and(|value| !value.is_null() && value != "");
        if !is_given {
            meta::set(new, name, old["metadata"].get(name).cloned());
        }
    }
    meta::set(new, "selfLink", None);
    meta::set(new, "resourceVersion", old["metadata"].get("resourceVersion").cloned());
    if !call.resource.namespaced {
        meta::set(new, "namespace", None);
    }
}

/// Refuses a change that the client intended for a different object or a different state of it.
pub(super) fn check_preconditions(
    call: &AuthorizedRequest,
    new: &Value,
    old: &Value,
    entry: &Entry,
    is_applied: bool,
) -> Result<(), Status> {
    let about = call.resource.about(&call.path.name);
    let (asked, actual) = (meta::uid(new), meta::uid(old));
    if !asked.is_empty() && asked != actual && call.verb != Verb::Patch {
        return Err(Status::conflict(&about, &wrong_uid(call, asked, actual)));
    }
    let asked = meta::text(new, "resourceVersion");
    if asked.is_empty() || asked == "0" {
        // A patch changes the stored object including its version, so a result without a version means that the patch
        // removed it.
        if call.strategy().allows_unconditional_update || is_applied {
            return Ok(());
        }
        let path = field::FieldPath::Root;
        let path = path.field("metadata");
        let path = path.field("resourceVersion");
        let errors = field::Error::invalid(&path, &0.into(), "must be specified for an update").into();
        // Kubernetes names the resource here, not the kind.
        let resource = &call.resource;
        return Err(Status::invalid(&resource.group, &resource.plural, &call.path.name, &errors));
    }
    match asked.parse::<Revision>() {
        Ok(asked) if asked == entry.revision => Ok(()),
        Ok(_) => Err(Status::modified(&about)),
        Err(_) => Err(Status::unclassified(format!("strconv.ParseUint: parsing {asked:?}: invalid syntax"))),
    }
}

/// Returns the message that Kubernetes' storage gives for an object with a different uid, including its key.
pub(in crate::verbs) fn wrong_uid(call: &AuthorizedRequest, asked: &str, actual: &str) -> String {
    let resource = match call.resource.declaration() {
        Some(kind) => kind.registry_name.unwrap_or(kind.plural).to_owned(),
        None => format!("{}/{}", call.resource.group, call.resource.plural),
    };
    let namespace =
        if call.resource.namespaced { format!("{}/", call.path.namespace) } else { String::new() };
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{resource}/{namespace}{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {actual}",
        call.path.name
    )
}
