//! Keeps the status of quotas accurate. Writes charge quotas themselves; this task recounts usage that decreased.

use homeostat_api::status::Status;

use crate::admission::recalculate_quotas;
use crate::backend::Backend;

/// Reconciles the quotas of a namespace.
pub(super) async fn reconcile(backend: &Backend, namespace: &str) -> Result<(), Status> {
    if !recalculate_quotas(backend, namespace).await? {
        backend.notices.forget_quotas(namespace);
    }
    Ok(())
}
