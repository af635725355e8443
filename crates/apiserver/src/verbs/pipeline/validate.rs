//! What is wrong with an object, and what is odd about it: refusals and warnings.

use serde_json::Value;

use crate::field;
use crate::kinds;
use crate::kinds::declaration::Write;
use crate::kinds::subresource::validate_scaled;
use crate::metadata::validate::{Rules, validate_object_meta, validate_object_meta_update};
use crate::object::depth::{DEPTH_MAX, is_deeper};
use crate::object::meta;
use crate::resource::Source;
use crate::schema;
use crate::status::Status;
use crate::verbs::Call;
use crate::verbs::options::WriteOptions;

/// Refuses an object, new or changed, that is wrong; it is told everything that is.
pub(super) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let errors = errors_of(call, object, old);
    if errors.is_empty() { Ok(()) } else { Err(call.invalid(object, old, &errors)) }
}

fn errors_of(call: &Call, new: &Value, old: Option<&Value>) -> field::Errors {
    let (resource, subresource) = (&call.resource, &*call.path.subresource);
    let path = field::Path::Root.field("metadata");
    let rules = call.metadata_rules();
    let mut errors = match old {
        None => validate_object_meta(&new["metadata"], rules, &path),
        Some(old) => validate_object_meta_update(&new["metadata"], &old["metadata"], rules, &path),
    };
    match &resource.source {
        Source::Custom(custom) => {
            if let Some(schema) = &custom.schema {
                errors.append(match old {
                    Some(old) if subresource == "status" => schema::validate_status(schema, new, old),
                    _ => schema::validate(schema, new, old),
                });
            }
            errors.append(validate_scaled(resource, new, subresource == "status"));
            if let Some(cel) = &custom.cel {
                cel.judge_after(&mut errors, new, old);
            }
        }
        Source::BuiltIn(known) => errors.append(match old {
            None => kinds::validate::validate_create(known.kind, new),
            Some(old) => kinds::validate::validate_update(known.kind, subresource, new, old),
        }),
    }
    errors
}

/// Refuses what could not be read back.
pub(super) fn check_depth(object: &Value) -> Result<(), Status> {
    if is_deeper(object, DEPTH_MAX) {
        let message =
            format!("the object is nested deeper than {DEPTH_MAX} levels, its managed fields included");
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// Returns what to tell the writer of an object that is stored all the same.
pub(super) fn warnings(
    call: &Call,
    options: &WriteOptions,
    object: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(kind) = call.resource.declaration() else { return warnings };
    if let Some(warn) = kind.warn {
        warnings.extend(warn(object, old));
    }
    if call.path.subresource.is_empty() {
        warnings.extend(kinds::warnings::warnings(&call.resource, object, old));
    }
    // What is only tried is not stored, and nobody relies on it.
    if !options.is_dry_run {
        let write = Write { subresource: &call.path.subresource, new: object, old };
        warnings.extend(kind.warn_unenforced.into_iter().flat_map(|warn| warn(kind, &write)));
    }
    warnings
}

impl Call {
    /// Returns the refusal of an object whose fields are wrong. Events of both groups are judged as the core group's.
    pub(super) fn invalid(&self, object: &Value, old: Option<&Value>, errors: &field::Errors) -> Status {
        let name = if old.is_some() { &*self.path.name } else { meta::name(object) };
        Status::invalid(self.resource.storage().group(), &self.resource.kind, name, errors)
    }

    fn metadata_rules(&self) -> Rules {
        let defines_kinds = self.resource.declaration().is_some_and(|kind| kind.defines_kinds);
        Rules {
            namespaced: self.resource.namespaced,
            name: self.strategy().name,
            // Definitions are judged like the objects they define.
            is_custom: self.resource.is_custom() || defines_kinds,
        }
    }
}
