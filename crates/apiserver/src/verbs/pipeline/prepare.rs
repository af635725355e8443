//! Sets the fields that the server itself determines: the kind's own fields, the generation, addresses and ports.
//!
//! Also checks the permissions required beyond those on the object itself: to grant permissions with a role, and to
//! read the parameters of a policy.

use homeostat_api::kinds::core::service::service_allocator::ServiceAllocationMode;
use homeostat_api::object::meta;
use homeostat_api::resource::prepare::{PrepareContext, prepare_for_create, prepare_for_update};
use homeostat_api::schema;
use homeostat_api::status::Status;
use serde_json::Value;

use super::policy_parameters;
use crate::auth::RoleWrite;
use crate::normalize_object::defaults_too_large;
use crate::verbs::AuthorizedRequest;
use crate::verbs::options::WriteOptions;

/// Prepares a new or changed object, and refuses content that the writer has no permission for.
pub(super) fn prepare(
    call: &AuthorizedRequest,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    match old {
        None => prepare_new(call, object)?,
        Some(old) => prepare_change(call, object, old),
    }
    let write = RoleWrite {
        storage: call.resource.storage(),
        namespace: &call.path.namespace,
        name: &call.path.name,
    };
    call.backend.authorizer.check_role_write(&call.who, &write, object, old)?;
    policy_parameters::check(call, object, old)
}

fn prepare_new(call: &AuthorizedRequest, object: &mut Value) -> Result<(), Status> {
    let (resource, backend) = (&call.resource, &call.backend);
    let uid = meta::uid(object).to_owned();
    let with = PrepareContext { clock: &backend.clock, uid: &uid, identity: &call.who };
    prepare_for_create(resource, object, &with)?;
    if let Some(schema) = resource.custom().and_then(|custom| custom.schema.as_ref()) {
        // The status was removed, so its defaults are added again.
        schema::default(schema, object).map_err(defaults_too_large)?;
    }
    Ok(())
}

fn prepare_change(call: &AuthorizedRequest, new: &mut Value, old: &Value) {
    if call.path.subresource.is_empty() {
        prepare_for_update(&call.resource, new, old);
    }
    if changes_content(call) && call.strategy().generation.rises(new, old) {
        meta::set_generation(new, meta::generation(old).saturating_add(1));
    }
}

/// Returns whether this endpoint changes fields that the generation tracks.
fn changes_content(call: &AuthorizedRequest) -> bool {
    match (&*call.path.subresource, call.resource.declaration()) {
        ("", _) => true,
        (name, Some(kind)) => kind.subresource(name).is_some_and(|part| part.changes_content),
        (name, None) => name == "scale",
    }
}

/// Gives a valid object the addresses and ports that it still needs, if its kind has any.
pub(super) fn allocate(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let has_addresses = call.resource.declaration().is_some_and(|kind| kind.has_cluster_addresses);
    if !has_addresses || !call.path.subresource.is_empty() {
        return Ok(());
    }
    let mode = if options.is_dry_run { ServiceAllocationMode::DryRun } else { ServiceAllocationMode::Real };
    let given = call.backend.services.allocate(object, old, mode, &call.backend.entropy);
    given.map_err(|errors| call.invalid(object, old, &errors))
}

/// Adds the fields that built-in kinds always write.
pub(super) fn add_always_written(call: &AuthorizedRequest, object: &mut Value) {
    if !call.resource.is_custom()
        && let Some(schema) = call.resource.schema()
    {
        schema::add_always_written(&schema, object);
    }
}
