//! Finds the resource of a path, and checks that it supports the requested verb.
//!
//! Built-in and custom kinds word their refusals differently, because different parts of Kubernetes serve them: a
//! built-in group refuses an unknown route with a `Status`, while a path that no definition serves counts as unknown.

use std::sync::Arc;

use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use http::Method;

use super::{ResourcePath, Verb};
use crate::registry::ResourceTable;

/// The subresource under which paths continue.
pub(crate) const PROXY: &str = "proxy";

/// Returns the resource of a path.
pub(crate) fn find_resource(table: &ResourceTable, path: &ResourcePath) -> Result<Arc<Resource>, Status> {
    let found = table.get(&path.group, &path.version, &path.resource);
    let found = found.filter(|row| row.namespaced || path.namespace.is_empty());
    found.map(Arc::clone).ok_or_else(|| not_served(table, path))
}

/// Returns a Status for a built-in group, or the refusal of an unknown path for any other group.
fn not_served(table: &ResourceTable, path: &ResourcePath) -> Status {
    let is_built_in = table.rows.iter().any(|row| *row.group == *path.group && !row.is_custom());
    if is_built_in { Status::no_such_resource() } else { Status::no_such_path() }
}

/// Returns the verb of a request, or refuses a verb that the resource does not support.
pub(crate) fn check_verb(
    resource: &Resource,
    path: &ResourcePath,
    method: &Method,
    verb: Option<Verb>,
) -> Result<Verb, Status> {
    let is_odd_watch = path.is_watch && *method != Method::GET;
    let verb = verb.filter(|_| !is_odd_watch).ok_or_else(|| match verb {
        // A method that is not a verb has no name.
        None if resource.is_custom() => Status::not_supported(&resource.about(""), ""),
        _ => Status::method_not_allowed(),
    })?;
    if resource.is_custom() {
        check_custom(resource, path, verb)
    } else {
        check_built_in(resource, path, verb)
    }?;
    check_segments(path, verb)?;
    Ok(verb)
}

fn check_built_in(resource: &Resource, path: &ResourcePath, verb: Verb) -> Result<(), Status> {
    let is_misplaced = is_misplaced(resource, path, verb);
    let is_too_long = !path.rest.trim_matches('/').is_empty() && path.subresource != PROXY;
    if is_too_long || (is_misplaced && !path.name.is_empty()) {
        return Err(Status::no_such_resource());
    }
    if !path.subresource.is_empty() {
        return match resource.subresource(&path.subresource) {
            Some(sub) if sub.verbs.iter().any(|one| **one == *verb.name()) => Ok(()),
            Some(_) => Err(Status::method_not_allowed()),
            None => Err(Status::no_such_resource()),
        };
    }
    if is_misplaced || !resource.allows(verb.name()) { Err(Status::method_not_allowed()) } else { Ok(()) }
}

/// Checks a request for a custom resource. A name in the path of a create is ignored, and so are segments after a
/// subresource.
fn check_custom(resource: &Resource, path: &ResourcePath, verb: Verb) -> Result<(), Status> {
    if is_misplaced(resource, path, verb) {
        return Err(Status::no_such_path());
    }
    if !path.subresource.is_empty() {
        return match resource.subresource(&path.subresource) {
            Some(sub) if sub.verbs.iter().any(|one| **one == *verb.name()) => Ok(()),
            Some(_) => Err(Status::not_supported(&resource.about(""), verb.name())),
            None => Err(Status::not_found(&resource.about(&path.name))),
        };
    }
    // A definition that is being deleted accepts no new objects, which `create` checks itself; existing objects can
    // still be changed.
    let is_terminating = resource.custom().is_some_and(|custom| custom.is_terminating);
    if !resource.allows(verb.name()) && !is_terminating {
        return Err(Status::method_not_allowed());
    }
    if path.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch) {
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(())
}

/// Returns whether a namespaced object is requested without a namespace.
fn is_misplaced(resource: &Resource, path: &ResourcePath, verb: Verb) -> bool {
    resource.namespaced && path.namespace.is_empty() && !matches!(verb, Verb::List | Verb::Watch)
}

/// Refuses a name that is `.` or `..` or contains a percent sign, and a namespace that is `.` or `..`.
fn check_segments(path: &ResourcePath, verb: Verb) -> Result<(), Status> {
    if verb == Verb::Create && path.subresource.is_empty() {
        return Ok(());
    }
    let name = &*path.name;
    let why = match name {
        "." => "may not be '.'",
        ".." => "may not be '..'",
        name if name.contains('%') => "may not contain '%'",
        _ => "",
    };
    if !why.is_empty() {
        return Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}")));
    }
    if matches!(&*path.namespace, "." | "..") {
        let group = if path.group.is_empty() { String::new() } else { format!("/{}", path.group) };
        let key = format!("{group}/{}/{}", path.resource, path.namespace);
        return Err(Status::unclassified(format!("invalid key: {key:?}")));
    }
    Ok(())
}
