//! ServiceAccount: the identity that a Pod presents to the API server.

use serde_json::Value;

use crate::kinds::kind_warnings;
use crate::object::fill::JsonObject;
use crate::printing::{Column, name_and_age};
use crate::resource::declaration::{BuiltInKind, CREATE, SubresourceDeclaration};
use crate::resource::strategy::PLAIN;

/// The identity that a Pod presents to the API server.
pub static SERVICE_ACCOUNT: BuiltInKind = BuiltInKind {
    short_names: &["sa"],
    subresources: &[SubresourceDeclaration::with_body(
        "token",
        ("authentication.k8s.io", "v1", "TokenRequest"),
        CREATE,
    )],
    strategy: PLAIN.returned(),
    prepare_create: Some(|_, fields, _| {
        clean_secret_references(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| clean_secret_references(fields)),
    warn: Some(kind_warnings::service_account),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(name_and_age),
    ..BuiltInKind::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
};

/// Reduces references to Secrets to their names.
fn clean_secret_references(account: &mut JsonObject) {
    let Some(Value::Array(secrets)) = account.get_mut("secrets") else { return };
    for secret in secrets.iter_mut().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field == "name");
    }
}
