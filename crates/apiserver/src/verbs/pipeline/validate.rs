//! Validates an object, with refusals and warnings.

use homeostat_api::field;
use homeostat_api::kinds;
use homeostat_api::kinds::subresource::validate_scaled;
use homeostat_api::metadata::validate::{MetadataRules, validate_object_meta, validate_object_meta_update};
use homeostat_api::object::depth::{DEPTH_MAX, is_deeper};
use homeostat_api::object::meta;
use homeostat_api::resource::KindSource;
use homeostat_api::resource::declaration::ObjectWrite;
use homeostat_api::schema;
use homeostat_api::status::Status;
use serde_json::Value;

use crate::verbs::AuthorizedRequest;
use crate::verbs::options::WriteOptions;

/// Refuses an invalid object, new or changed, listing all errors.
pub(super) fn validate(call: &AuthorizedRequest, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let errors = errors_of(call, object, old);
    if errors.is_empty() { Ok(()) } else { Err(call.invalid(object, old, &errors)) }
}

fn errors_of(call: &AuthorizedRequest, new: &Value, old: Option<&Value>) -> field::Errors {
    let (resource, subresource) = (&call.resource, &*call.path.subresource);
    let path = field::FieldPath::Root.field("metadata");
    let rules = call.metadata_rules();
    let mut errors = match old {
        None => validate_object_meta(&new["metadata"], rules, &path),
        Some(old) => validate_object_meta_update(&new["metadata"], &old["metadata"], rules, &path),
    };
    match &resource.source {
        KindSource::Custom(custom) => {
            if let Some(schema) = &custom.schema {
                errors.append(match old {
                    Some(old) if subresource == "status" => schema::validate_status(schema, new, old),
                    _ => schema::validate(schema, new, old),
                });
            }
            errors.append(validate_scaled(resource, new, subresource == "status"));
            if let Some(cel) = &custom.cel {
                cel.validate_after(&mut errors, new, old);
            }
        }
        KindSource::BuiltIn(known) => errors.append(match old {
            None => kinds::validate::validate_create(known.kind, new),
            Some(old) => kinds::validate::validate_update(known.kind, subresource, new, old),
        }),
    }
    errors
}

/// Refuses an object that is nested too deeply to be read back.
pub(super) fn check_depth(object: &Value) -> Result<(), Status> {
    if is_deeper(object, DEPTH_MAX) {
        let message =
            format!("the object is nested deeper than {DEPTH_MAX} levels, its managed fields included");
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// Returns warnings for the writer of an object that is stored anyway.
pub(super) fn warnings(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(kind) = call.resource.declaration() else { return warnings };
    if call.path.subresource.is_empty() {
        warnings.extend(kind.warn.into_iter().flat_map(|warn| warn(object, old)));
        warnings.extend(kinds::warnings::warnings(&call.resource, object, old));
    }
    // A dry run stores nothing that others could rely on.
    if !options.is_dry_run {
        let has_audit_log = call.has_audit_log;
        let write = ObjectWrite { subresource: &call.path.subresource, new: object, old, has_audit_log };
        warnings.extend(kind.warn_unenforced.into_iter().flat_map(|warn| warn(kind, &write)));
    }
    warnings
}

impl AuthorizedRequest {
    /// Returns the refusal for an object with invalid fields. Events of both groups are validated like those of the
    /// core group.
    pub(super) fn invalid(&self, object: &Value, old: Option<&Value>, errors: &field::Errors) -> Status {
        let name = if old.is_some() { &*self.path.name } else { meta::name(object) };
        Status::invalid(self.resource.storage().group(), &self.resource.kind, name, errors)
    }

    fn metadata_rules(&self) -> MetadataRules {
        let defines_kinds = self.resource.declaration().is_some_and(|kind| kind.defines_kinds);
        MetadataRules {
            namespaced: self.resource.namespaced,
            name: self.strategy().name,
            // Definitions are validated like the objects that they define.
            is_custom: self.resource.is_custom() || defines_kinds,
        }
    }
}
