//! Quotas: keeps their status true. Writes charge them by themselves; this counts again what became less.

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
