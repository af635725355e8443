//! CustomResourceDefinition: a kind that is served from then on.

use serde_json::Value;

use crate::kinds::declaration::{Deletion, Kind, STATUS};
use crate::kinds::fill::Fields;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::object::conditions::set_condition;
use crate::object::meta;
use crate::{field, schema};

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A kind that is served from then on.
pub(crate) static CUSTOM_RESOURCE_DEFINITION: Kind = Kind {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(ALL_BUT_STATUS),
    prepare_create: Some(|_, fields, _| {
        defaults(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| defaults(fields)),
    defines_kinds: true,
    validate_create: Some(|object, errors| errors.append(errors_of(object.value, None))),
    validate_update: Some(|new, old, errors| errors.append(errors_of(new.value, Some(old)))),
    warn: Some(schema::definition_warnings),
    deletion: Deletion { begin: Some(begin_deletion), mark: None, has_grace_period: true, is_held: None },
    ..Kind::cluster_scoped(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
};

/// Fills in names and what belongs to a conversion. Definitions are defaulted after their status was reset.
fn defaults(fields: &mut Fields) {
    let mut definition = Value::Object(std::mem::take(fields));
    schema::default_definition(&mut definition);
    if let Value::Object(filled) = definition {
        *fields = filled;
    }
}

/// What is wrong with a definition; its rules are read only when the rest is right. Whoever writes its status knows what was
/// migrated, so that is not judged.
fn errors_of(new: &Value, old: Option<&Value>) -> field::Errors {
    let errors = schema::validate_definition(new, old);
    if errors.is_empty() { schema::cel_faults(new, old) } else { errors }
}

/// Marks a definition, and keeps it until its objects are gone: whatever becomes of their dependents, first the objects go.
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
