//! ServiceAccount: who a Pod is towards the API server.

use serde_json::Value;

use crate::kinds::declaration::{CREATE, Kind, Part};
use crate::kinds::fill::Fields;
use crate::kinds::printing::{Column, name_and_age};
use crate::kinds::strategy::PLAIN;

/// Who a Pod is towards the API server.
pub(crate) static SERVICE_ACCOUNT: Kind = Kind {
    short_names: &["sa"],
    subresources: &[Part::with_body("token", ("authentication.k8s.io", "v1", "TokenRequest"), CREATE)],
    strategy: PLAIN.returned(),
    prepare_create: Some(|_, fields, _| {
        clean_secret_references(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| clean_secret_references(fields)),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(name_and_age),
    ..Kind::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
};

/// Of a reference to a Secret only the name counts.
fn clean_secret_references(account: &mut Fields) {
    let Some(Value::Array(secrets)) = account.get_mut("secrets") else { return };
    for secret in secrets.iter_mut().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field == "name");
    }
}
