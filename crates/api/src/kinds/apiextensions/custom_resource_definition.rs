//! CustomResourceDefinition: defines a kind that is served once the definition is established.

use serde_json::Value;

use crate::kinds::subresource::STATUS;
use crate::object::conditions::set_condition;
use crate::object::fill::{JsonObject, is_zero};
use crate::object::meta;
use crate::resource::declaration::{BuiltInKind, DeletionRules};
use crate::resource::strategy::{PLAIN, SPEC};
use crate::{field, schema};

/// The finalizer that keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Defines a kind that is served once the definition is established.
pub static CUSTOM_RESOURCE_DEFINITION: BuiltInKind = BuiltInKind {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(SPEC),
    prepare_create: Some(|_, fields, _| {
        defaults(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| defaults(fields)),
    prepare_status: Some(|fields, _, _| keep_a_stored_version(fields)),
    defines_kinds: true,
    validate_create: Some(|object, errors| errors.append(errors_of(object.value, None))),
    validate_update: Some(|new, old, errors| errors.append(errors_of(new.value, Some(old)))),
    warn: Some(schema::definition_warnings),
    deletion: DeletionRules {
        begin: Some(begin_deletion),
        mark: None,
        has_grace_period: true,
        is_held: None,
    },
    ..BuiltInKind::cluster_scoped(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
};

/// Fills in names and conversion settings. Definitions are defaulted after their status has been reset.
fn defaults(fields: &mut JsonObject) {
    let mut definition = Value::Object(std::mem::take(fields));
    schema::default_definition(&mut definition);
    if let Value::Object(filled) = definition {
        *fields = filled;
    }
}

/// Restores the storage version in a status that names no stored version, because objects may be stored in it. A status
/// that names a different version is trusted: its writer migrated the objects.
fn keep_a_stored_version(fields: &mut JsonObject) {
    if !is_zero(fields.get("status").and_then(|status| status.get("storedVersions"))) {
        return;
    }
    let mut definition = Value::Object(std::mem::take(fields));
    schema::store_version(&mut definition);
    if let Value::Object(filled) = definition {
        *fields = filled;
    }
}

/// Validates a definition; its CEL rules are checked only if everything else is valid. The stored versions are not
/// checked: the writer of the status knows what was migrated.
fn errors_of(new: &Value, old: Option<&Value>) -> field::Errors {
    let errors = schema::validate_definition(new, old);
    if errors.is_empty() { schema::cel_rule_errors(new, old) } else { errors }
}

/// Marks a definition for deletion and keeps it until its objects are gone: the objects go first, regardless of what
/// happens to their dependents.
fn begin_deletion(definition: &mut Value, now: &str) {
    meta::set(definition, "deletionTimestamp", Some(now.into()));
    if !meta::has_finalizer(definition, CLEANUP_FINALIZER) {
        let others = meta::finalizers(definition).map(Into::into);
        let finalizers = others.chain([CLEANUP_FINALIZER.into()]).collect();
        meta::set_finalizers(definition, finalizers);
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, ["Terminating", "True", "InstanceDeletionPending", message], now);
}
