//! Handles Secrets of the type `kubernetes.io/service-account-token`: fills them with a token for their account, and
//! deletes them together with it.
//!
//! **Invariant:** a Secret only ever gets a token for the account that it names, with the uid that it names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_api::kinds::core::secret::SECRET;
use homeostat_api::kinds::core::service_account::SERVICE_ACCOUNT;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_store::Snapshot;
use serde_json::Value;

use crate::auth::{SecretToken, TokenIssuer};
use crate::backend::Backend;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::verbs::{DeleteOptions, remove};
use crate::write_history::ServerTask;
use crate::yielding_work::YieldingWork;

const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// Fills the Secrets of a namespace, and deletes those whose account is gone.
pub(super) async fn reconcile(
    backend: &Backend,
    issuer: &TokenIssuer,
    namespace: &str,
    root_ca: &str,
) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.built_in(&SECRET);
    let snapshot = backend.store.snapshot();
    let mut work = YieldingWork::default();
    for entry in snapshot.range(&SECRET.storage().prefix_in(namespace), "") {
        work.add(entry.bytes.len()).await;
        let secret = encode::parse_entry(entry);
        if secret["type"] != TYPE || meta::is_deleting(&secret) {
            continue;
        }
        let Some((account, uid)) = account_of(&snapshot, namespace, &secret) else {
            let options = DeleteOptions::default();
            match remove(
                (backend, ServerTask::TokenSecrets),
                resource,
                (namespace, entry.key.name()),
                &options,
            )
            .await
            {
                Err(status) if status.code != 404 => return Err(status),
                _ => continue,
            }
        };
        let subject = SecretToken { namespace, secret: entry.key.name(), account: &account, uid: &uid };
        update_stored_object((backend, ServerTask::TokenSecrets), resource, &entry.key, |stored| {
            fill(stored, issuer, &subject, root_ca);
        })
        .await?;
    }
    Ok(())
}

/// Returns the name and uid of the account that a Secret is for, if there is one.
fn account_of(snapshot: &Snapshot, namespace: &str, secret: &Value) -> Option<(String, String)> {
    let annotation =
        |name: &str| secret["metadata"]["annotations"][name].as_str().filter(|text| !text.is_empty());
    let name = annotation(NAME)?;
    let account = encode::parse_entry(snapshot.get(&SERVICE_ACCOUNT.storage().key(namespace, name))?);
    let uid = meta::uid(&account);
    annotation(UID).is_none_or(|wanted| wanted == uid).then(|| (name.to_owned(), uid.to_owned()))
}

/// Adds missing fields and corrects wrong ones.
fn fill(secret: &mut Value, issuer: &TokenIssuer, subject: &SecretToken<'_>, root_ca: &str) {
    for (field, value) in [("ca.crt", root_ca), ("namespace", subject.namespace)] {
        let encoded = STANDARD.encode(value);
        if !value.is_empty() && secret["data"][field] != encoded.as_str() {
            secret["data"][field] = encoded.into();
        }
    }
    if secret["data"]["token"].as_str().is_none_or(str::is_empty) {
        secret["data"]["token"] = STANDARD.encode(issuer.sign_secret_token(subject)).into();
    }
    secret["metadata"]["annotations"][NAME] = subject.account.into();
    secret["metadata"]["annotations"][UID] = subject.uid.into();
}
